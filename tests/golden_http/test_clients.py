"""What official clients send, as it was recorded, is understood by our server: each request gets the status that it got then.

The tools of the recording server are not ours: a call of one of them becomes a call of `conversationsList`. What the calls do
(progress, questions, cancelling, resuming) is tried with tools of ours in tests/e2e/http. Recordings of servers that know only one
era, or that refuse clients without tasks, are left out: ours does neither.
"""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.http_server import serving

Json = dict[str, Any]
RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
LEFT_OUT = ("host", "content-length", "connection", "authorization", "transfer-encoding", "last-event-id", "accept-encoding")


def requests_of(recording: Json) -> list[tuple[Json, int | None]]:
    """Each request with the status of its answer."""
    statuses = {step["exchange"]: step["response"]["status"] for step in recording["steps"] if "response" in step}
    return [(step["request"], statuses.get(step["exchange"])) for step in recording["steps"] if "request" in step]


def with_our_tool(body: Json) -> Json:
    params: Json = {**body["params"], "name": "conversationsList", "arguments": {}}
    return {**body, "params": {name: value for name, value in params.items() if name not in ("requestState", "inputResponses")}}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_the_requests_of_a_recorded_client_get_the_statuses_they_got(tmp_path: Path, path: Path) -> None:
    recording = json.loads(path.read_text())
    sessions: dict[str, str] = {}
    async with serving(tmp_path) as (_, client):
        for request, status in requests_of(recording):
            headers: dict[str, str | None] = {
                name: sessions.get(value, value) for name, value in request["headers"] if name.lower() not in LEFT_OUT
            }
            resumed = any(name.lower() == "last-event-id" for name, _ in request["headers"])
            body = cast(Json | None, request["body"])
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
            note_session(recording, sessions, body, answer.headers.get("mcp-session-id"))
            if answer.is_stream:
                answer.close()


def note_session(recording: Json, sessions: dict[str, str], body: Json | None, session: str | None) -> None:
    """Which of our sessions stands for the recorded one."""
    if session is None or body is None or body.get("method") != "initialize":
        return
    for step in recording["steps"]:
        for name, value in step.get("response", {}).get("headers", ()):
            if name.lower() == "mcp-session-id" and value not in sessions:
                sessions[value] = session
                return
