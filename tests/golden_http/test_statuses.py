"""The recorded probes of the official servers, sent to ours: the same statuses, but where there is a reason for another."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import HttpClient, serving

Json = dict[str, Any]
SERVERS = ("python", "ts1", "ts2")
PROBES: dict[str, list[Json]] = {
    server: json.loads((Path(__file__).parent / f"statuses_{server}.json").read_text())["probes"] for server in SERVERS
}

# Where ours answers otherwise than one of them: the status, and why.
COMPARED = "what a proxy reads in the headers must be what we read in the body"
REBINDING = "a page elsewhere could make a browser call us"
OTHERWISE = {
    "legacy second initialize in session": (400, "a session is negotiated once; the TypeScript servers say so, too"),
    "legacy id null": (400, "it is no notification, and cannot be answered"),
    "legacy batch": (400, "the protocol has had none since 2025-06-18, and the Python server refuses them"),
    "legacy batch with 2025-03-26 header": (400, "likewise: of that version we serve what later ones have, too"),
    "accept json only": (200, "what fits one of the two is enough: the answer to a ping is JSON"),
    "accept sse only": (200, "likewise"),
    "accept */*": (200, "it accepts both"),
    "no accept": (200, "a client that does not say takes everything"),
    "content-type text/plain": (415, "the status that means it"),
    "no content-type": (415, "the status that means it"),
    "bad origin": (403, REBINDING),
    "origin null": (403, REBINDING),
    "modern bad origin": (403, REBINDING),
    "bad host": (421, "the status that means it; the TypeScript servers say 403"),
    "host evil.example with port": (421, "likewise"),
    "body 5 MiB": (200, "prompts with images are larger; the limit is 32 MB, and can be set"),
    "GET unknown Last-Event-ID": (400, "a stream that never says anything helps nobody; clients stop after two tries"),
    "PUT": (405, "the address is there; the method is not for it"),
    "OPTIONS preflight": (405, "pages of other places may not call, unless `--allow-origin` names theirs"),
    "modern no Mcp-Method": (400, COMPARED),
    "modern no Mcp-Name": (400, COMPARED),
    "modern wrong Mcp-Method": (400, COMPARED),
    "modern wrong Mcp-Name": (400, COMPARED),
    "modern notification": (202, "it is taken, as in the other era"),
    "modern GET": (405, "the method is not for this era, whatever else the request says"),
    "modern DELETE": (405, "likewise"),
    "modern with session id header": (200, "this era has no sessions: the header is ignored"),
    "modern tampered requestState": (400, "the request is wrong, not the tool's work"),
}


def as_ours(probe: Json, session: str) -> tuple[Json, bytes]:
    """Headers and body, with our session, and a tool that we have in the place of `echo`."""
    request = probe["request"]
    tampered = "requestState" in str(request["body"])
    tool = "codex" if tampered else "conversationsList"
    arguments: Json = {"prompt": "hi"} if tampered else {}
    encoded = "=?base64?Y29udmVyc2F0aW9uc0xpc3Q=?="
    renamed = {
        "echo": tool,
        "=?base64?ZWNobw==?=": encoded,
        "test_simple_text": tool,
        "=?base64?dGVzdF9zaW1wbGVfdGV4dA==?=": encoded,
    }
    renamed |= dict.fromkeys(("SESSION-2", "SESSION-3", "SESSION-5"), session)  # one in each recording
    headers = {name: renamed.get(value, value) for name, value in request["headers"].items()}
    body: Any = request["body"]
    if probe["name"] == "body 5 MiB":
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 5_242_880}}
    if any(f'"name": "{name}"' in json.dumps(body) for name in ("echo", "test_simple_text")):
        body = {**body, "params": {**body["params"], "name": tool, "arguments": arguments}}
    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return headers, data


@pytest.mark.parametrize("recorded", SERVERS)
async def test_the_recorded_probes_are_answered_with_the_same_statuses_or_for_a_reason(tmp_path: Path, recorded: str) -> None:
    async with serving(tmp_path) as (server, client):
        session = HttpClient(server.port, client.token)
        found: dict[str, int] = {}
        expected: dict[str, int] = {}
        for probe in PROBES[recorded]:
            name, method = probe["name"], probe["request"]["method"]
            headers, data = as_ours(probe, session.session or "")
            usual = {"Accept": None, "Content-Type": None, "Content-Length": str(len(data))}
            path = "/other" if name == "other path" else "/mcp"
            response = await client.request(method, {**usual, **headers}, data, path)
            if name == "legacy initialize":
                session.session = response.headers["mcp-session-id"]
            found[name] = response.status
            expected[name] = OTHERWISE[name][0] if name in OTHERWISE else probe["response"]["status"]
            if response.status == 405 and probe["response"]["status"] == 405:
                assert response.headers["allow"] == probe["response"]["headers"]["allow"]
        assert found == expected


def test_each_reason_is_for_something_that_one_of_them_answers_otherwise() -> None:
    recorded = {(probe["name"], probe["response"]["status"]) for probes in PROBES.values() for probe in probes}
    for name, (status, _) in OTHERWISE.items():
        assert {other for probe, other in recorded if probe == name} - {status}, name
