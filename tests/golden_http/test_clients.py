"""What official clients send, as it was recorded, is understood by our server: each request gets the status that it got then.

The tools of the recording server are not ours: a call of one of them becomes a call of `conversationsList`. What the calls do
(progress, questions, cancelling, resuming) is tried with tools of ours in tests/e2e/http. Where our answer has another status, the
reason stands in `OTHERWISE`.
"""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.http_server import serving

Json = dict[str, Any]
RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
# By recording and method (of a tool its name): our status, and why.
BOTH_ERAS = (200, "the recorded server knew only the legacy era; ours knows both, so the client need not fall back")
OTHERWISE: dict[tuple[str, str], tuple[int, str]] = {
    ("fallback_to_legacy_fastmcp", "server/discover"): BOTH_ERAS,
    ("fallback_to_legacy_inspector", "server/discover"): BOTH_ERAS,
    ("fallback_to_legacy_py", "server/discover"): BOTH_ERAS,
    ("fallback_to_legacy_ts2", "server/discover"): BOTH_ERAS,
    ("modern_no_tasks_ts2", "failing_job"): (200, "we have no tool that can only be called as a task"),
}
LEFT_OUT = ("host", "content-length", "connection", "authorization", "transfer-encoding", "last-event-id", "accept-encoding")


def requests_of(recording: Json) -> list[tuple[Json, Json]]:
    """Each request with its answer, which is empty where there was none."""
    answers: dict[int, Json] = {step["exchange"]: step["response"] for step in recording["steps"] if "response" in step}
    return [(step["request"], answers.get(step["exchange"], {})) for step in recording["steps"] if "request" in step]


def what_is_asked(body: Json | None) -> str:
    method = "" if body is None else str(body.get("method", ""))
    return method if method != "tools/call" or body is None else str(body["params"]["name"])


def with_our_tool(body: Json) -> Json:
    params: Json = {**body["params"], "name": "conversationsList", "arguments": {}}
    return {**body, "params": {name: value for name, value in params.items() if name not in ("requestState", "inputResponses")}}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_the_requests_of_a_recorded_client_get_the_statuses_they_got(tmp_path: Path, path: Path) -> None:
    recording = json.loads(path.read_text())
    sessions: dict[str, str] = {}
    async with serving(tmp_path) as (_, client):
        for request, answered in requests_of(recording):
            status: int | None = answered.get("status")
            headers: dict[str, str | None] = {
                name: sessions.get(value, value) for name, value in request["headers"] if name.lower() not in LEFT_OUT
            }
            resumed = any(name.lower() == "last-event-id" for name, _ in request["headers"])
            body = cast(Json | None, request["body"])
            asked = (path.stem, what_is_asked(body))
            if asked in OTHERWISE:
                assert status != OTHERWISE[asked][0], "this is not otherwise any more"
                status = OTHERWISE[asked][0]
            if body is not None and body.get("method") == "tools/call":
                body = with_our_tool(body)
                headers = {name: "conversationsList" if name.lower() == "mcp-name" else value for name, value in headers.items()}
            if body is not None and "method" not in body:
                body = {**body, "id": 99}  # the answer to a question that ours has not asked
            data = b"" if body is None else json.dumps(body).encode()
            usual: dict[str, str | None] = {"Accept": None, "Content-Type": None}
            method = request["method"]
            answer = await client.request(method, {**usual, "Content-Length": str(len(data)), **headers}, data)
            if status is not None and not resumed:
                assert answer.status == status, (method, body)
            if body is not None and body.get("method") == "initialize":
                recorded = next((value for name, value in answered["headers"] if name.lower() == "mcp-session-id"), "")
                sessions[recorded] = answer.headers["mcp-session-id"]
            if answer.is_stream:
                answer.close()
