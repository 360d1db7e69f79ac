"""The first answer, which is given before the server is loaded: whatever is not plain is left to the server."""

import json
import os
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from understudy.servers.mcp.handshake import EarlyInput, answer_early

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
PLAIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}


def hear(sent: bytes) -> tuple[EarlyInput, bytes]:
    """What was made of a early, and what was answered."""
    heard, said = os.pipe()
    read, written = os.pipe()
    try:
        os.write(said, sent)
        os.close(said)
        early = answer_early(heard, written)
        os.close(written)
        return early, os.read(read, 65536)
    finally:
        os.close(heard)
        os.close(read)


@given(st.text() | st.integers(-(2**63) + 1, 2**63 - 1), st.text(), st.booleans(), st.dictionaries(st.text(), Json, max_size=2))
@settings(deadline=None, max_examples=200)
def test_a_plain_request_is_answered_whatever_its_id_and_its_client(
    request_id: str | int, name: str, ascii_only: bool, more: dict[str, Any]
) -> None:
    client = {"name": name, "version": name}
    params: dict[str, Any] = {**more, **PARAMS, "clientInfo": client, "capabilities": {**more, "elicitation": {}}}
    line = json.dumps({**PLAIN, "id": request_id, "params": params}, ensure_ascii=ascii_only)
    early, answer = hear(line.encode() + b"\nmore")
    assert json.loads(answer)["id"] == request_id
    assert json.loads(answer)["result"]["protocolVersion"] == "2025-06-18"
    assert early.handshake is not None
    assert (early.handshake.can_be_asked, early.unanswered) == (True, b"more")


@given(st.binary(max_size=60) | Json.map(json.dumps).map(str.encode))
@example(json.dumps(PLAIN).encode() + b" {}")
@example(b"\xef\xbb\xbf" + json.dumps(PLAIN).encode())
@example(b"\x0c" + json.dumps(PLAIN).encode())
@example(b'{"id": 01}')
@example(b'{"a" 1}')
@example(b'{"a": "\\x"}')
@example(b"[1,]")
@example(json.dumps(PLAIN).encode("utf-16"))
@example(json.dumps({**PLAIN, "more": [float("nan")]}).encode())
@example(json.dumps({**PLAIN, "id": 1.0}).encode())
@example(json.dumps({**PLAIN, "id": True}).encode())
@example(json.dumps({**PLAIN, "id": 2**63}).encode())
@example(json.dumps({**PLAIN, "params": {**PARAMS, "clientInfo": None}}).encode())
@example(json.dumps(PLAIN).replace("{}", "NaN").encode())
@example(json.dumps(PLAIN).replace("{}", "[" * 30_000).encode())
@example(json.dumps(PLAIN).replace("test", "a\tb").replace("\\t", "\t").encode())
@settings(deadline=None)
def test_anything_else_is_left_to_the_server_as_it_came(line: bytes) -> None:
    sent = line.replace(b"\n", b" ") + b"\nmore"
    early, answer = hear(sent)
    assert (early.handshake, early.unanswered, answer) == (None, sent, b"")
