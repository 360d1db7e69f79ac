"""What official clients send, as it was recorded, is understood by our server: each request gets the status that it got then.

The tools of the recording server are not ours: a call of one of them becomes a call of `conversationsList`. What the calls do
(progress, questions, cancelling, resuming) is tried with tools of ours in tests/e2e/http; tasks are in `test_tasks.py`. Where our
answer has another status, the reason stands in `OTHERWISE`.
"""

import json
from pathlib import Path
from typing import cast

import pytest

from tests.golden_http.recorded import CLIENTS, Json, headers_of, requests_of
from tests.support.http_server import serving

# By recording and method (of a tool its name): our status, and why.
BOTH_ERAS = (200, "the recorded server knew only the legacy era; ours knows both, so the client need not fall back")
OTHERWISE: dict[tuple[str, str], tuple[int, str]] = {
    ("fallback_to_legacy_fastmcp", "server/discover"): BOTH_ERAS,
    ("fallback_to_legacy_inspector", "server/discover"): BOTH_ERAS,
    ("fallback_to_legacy_py", "server/discover"): BOTH_ERAS,
    ("fallback_to_legacy_ts2", "server/discover"): BOTH_ERAS,
    ("modern_no_tasks_ts2", "failing_job"): (200, "we have no tool that can only be called as a task"),
}


def what_is_asked(body: Json | None) -> str:
    method = "" if body is None else str(body.get("method", ""))
    return method if method != "tools/call" or body is None else str(body["params"]["name"])


def with_our_tool(body: Json) -> Json:
    params: Json = {**body["params"], "name": "conversationsList", "arguments": {}}
    return {**body, "params": {name: value for name, value in params.items() if name not in ("requestState", "inputResponses")}}


@pytest.mark.quick(10)
@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: path.stem)
async def test_the_requests_of_a_recorded_client_get_the_statuses_they_got(tmp_path: Path, path: Path) -> None:
    recording = json.loads(path.read_text())
    sessions: dict[str, str] = {}
    async with serving(tmp_path) as (_, client):
        for request, answered in requests_of(recording):
            status: int | None = answered.get("status")
            resumed = any(name.lower() == "last-event-id" for name, _ in request["headers"])
            body = cast(Json | None, request["body"])
            asked = (path.stem, what_is_asked(body))
            if asked in OTHERWISE:
                assert status != OTHERWISE[asked][0], "this is not otherwise any more"
                status = OTHERWISE[asked][0]
            replaced = dict(sessions)
            if body is not None and body.get("method") == "tools/call":
                replaced[body["params"]["name"]] = "conversationsList"
                body = with_our_tool(body)
            if body is not None and "method" not in body:
                body = {**body, "id": 99}  # the answer to a question that ours has not asked
            data = b"" if body is None else json.dumps(body).encode()
            method = request["method"]
            answer = await client.request(method, headers_of(request, replaced, data), data)
            if status is not None and not resumed:
                assert answer.status == status, (method, body)
            if body is not None and body.get("method") == "initialize":
                recorded = next((value for name, value in answered["headers"] if name.lower() == "mcp-session-id"), "")
                sessions[recorded] = answer.headers["mcp-session-id"]
            if answer.is_stream:
                answer.close()
