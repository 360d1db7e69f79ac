"""The recordings, and how their requests are sent again."""

from pathlib import Path
from typing import Any

Json = dict[str, Any]
LEFT_OUT = ("host", "content-length", "connection", "authorization", "transfer-encoding", "last-event-id", "accept-encoding")
_EVERY = sorted((Path(__file__).parent / "recordings").glob("*.json"))
TASKS = [path for path in _EVERY if path.stem.startswith("task_")]
PROBES = sorted(Path(__file__).parent.glob("statuses_*.json"))
CLIENTS = [path for path in _EVERY if path not in TASKS]


def requests_of(recording: Json) -> list[tuple[Json, Json]]:
    """Each request with its answer, which is empty where there was none."""
    answers: dict[int, Json] = {step["exchange"]: step["response"] for step in recording["steps"] if "response" in step}
    return [(step["request"], answers.get(step["exchange"], {})) for step in recording["steps"] if "request" in step]


def headers_of(request: Json, replaced: dict[str, str], body: bytes) -> dict[str, str | None]:
    """As they were sent, but for those of the connection; `replaced`: values of then, and ours in their place."""
    sent = {name: replaced.get(value, value) for name, value in request["headers"] if name.lower() not in LEFT_OUT}
    return {"Accept": None, "Content-Type": None, "Content-Length": str(len(body)), **sent}
