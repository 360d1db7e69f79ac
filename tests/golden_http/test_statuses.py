"""The recorded probes of the official Python server, sent to ours: the same statuses, but where there is a reason for another."""

import json
from pathlib import Path
from typing import Any

from tests.support.http_server import HttpClient, serving

Json = dict[str, Any]
PROBES: list[Json] = json.loads((Path(__file__).parent / "statuses_python.json").read_text())["probes"]

# Where ours answers otherwise: the status, and why.
OTHERWISE = {
    "legacy second initialize in session": (400, "a session is negotiated once; the TypeScript servers say so, too"),
    "legacy id null": (400, "it is no notification, and cannot be answered"),
    "accept json only": (200, "what fits one of the two is enough: the answer to a ping is JSON"),
    "accept sse only": (200, "likewise"),
    "no accept": (200, "a client that does not say takes everything"),
    "content-type text/plain": (415, "the status that means it"),
    "no content-type": (415, "the status that means it"),
    "body 5 MiB": (200, "prompts with images are larger; the limit is 32 MB, and can be set"),
    "GET unknown Last-Event-ID": (400, "a stream that never says anything helps nobody; clients stop after two tries"),
}


def as_ours(probe: Json, session: str) -> tuple[Json, bytes]:
    """Headers and body, with our session, and a tool that we have in the place of `echo`."""
    request = probe["request"]
    tampered = "requestState" in str(request["body"])
    tool = "codex" if tampered else "conversationsList"
    arguments: Json = {"prompt": "hi"} if tampered else {}
    encoded = "=?base64?Y29udmVyc2F0aW9uc0xpc3Q=?="
    renamed = {"SESSION-2": session, "echo": tool, "=?base64?ZWNobw==?=": encoded}
    headers = {name: renamed.get(value, value) for name, value in request["headers"].items()}
    body: Any = request["body"]
    if probe["name"] == "body 5 MiB":
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 5_242_880}}
    if '"name": "echo"' in json.dumps(body):
        body = {**body, "params": {**body["params"], "name": tool, "arguments": arguments}}
    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return headers, data


async def test_the_recorded_probes_are_answered_with_the_same_statuses_or_for_a_reason(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        session = HttpClient(server.port, client.token)
        found: dict[str, int] = {}
        expected: dict[str, int] = {}
        for probe in PROBES:
            name, method = probe["name"], probe["request"]["method"]
            headers, data = as_ours(probe, session.session or "")
            usual = {"Accept": None, "Content-Type": None, "Content-Length": str(len(data))}
            path = "/other" if name == "other path" else "/mcp"
            response = await client.request(method, {**usual, **headers}, data, path)
            if name == "legacy initialize":
                session.session = response.headers["mcp-session-id"]
            found[name] = response.status
            expected[name] = OTHERWISE[name][0] if name in OTHERWISE else probe["response"]["status"]
            if not response.is_stream and "allow" in probe["response"]["headers"]:
                assert response.headers["allow"] == probe["response"]["headers"]["allow"]
        assert found == expected
