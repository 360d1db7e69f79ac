"""The first answer of the app server, which is given before it is loaded: what it would say itself, or nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.config.home import find_home
from understudy.errors import ConfigError
from understudy.protocol.jsonrpc import Request, read_line
from understudy.servers.app_server import params
from understudy.servers.app_server.introduction import introduce
from understudy.servers.app_server.start import answer_early
from understudy.servers.mcp.handshake import EarlyInput

PLAIN = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "editor", "version": "2"}}}
Scalar = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | st.text(max_size=3)
Json = st.recursive(Scalar, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2))
Maybe = st.just(None) | st.text(max_size=3) | Json
Client = st.fixed_dictionaries({"name": Maybe}, optional={"version": Maybe, "title": Maybe, "more": Json})
Capabilities = st.fixed_dictionaries(
    {}, optional={"experimentalApi": Json, "optOutNotificationMethods": st.lists(Maybe, max_size=3) | Json}
)
Params = st.fixed_dictionaries({"clientInfo": Client | Json}, optional={"capabilities": Capabilities | Json}) | Json
Message = st.fixed_dictionaries({"id": Json, "params": Params}, optional={"method": st.just("initialize") | Json, "result": Json})


def hear(sent: bytes) -> tuple[EarlyInput, bytes]:
    """What was made of it, and what was answered."""
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


@given(Message, st.booleans())
@settings(deadline=None, max_examples=300)
def test_it_is_what_the_server_would_say(message: Any, ascii_only: bool) -> None:
    line = json.dumps(message, ensure_ascii=ascii_only).encode()
    early, answer = hear(line + b"\nmore")
    if early.handshake is None:
        assert (early.unanswered, answer) == (line + b"\nmore", b"")
        return
    request = read_line(line)
    assert isinstance(request, Request)
    asked = params.read(params.Initialize, request.params)
    said = introduce(asked.client_info.name, asked.client_info.version, str(find_home(os.environ)))
    assert json.loads(answer) == {"id": request.id, "result": said}
    opted_out = asked.capabilities.opt_out_notification_methods if asked.capabilities is not None else None
    assert (early.handshake.name, early.handshake.opted_out) == (asked.client_info.name, frozenset(opted_out or ()))
    assert (request.method, early.unanswered) == ("initialize", b"more")


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"null",
        json.dumps({**PLAIN, "method": "thread/list"}).encode(),
        json.dumps({**PLAIN, "id": True}).encode(),
        json.dumps(PLAIN).replace("editor", "\\ud800").encode(),
        json.dumps(PLAIN).replace('"2"', "NaN").encode(),
        json.dumps(PLAIN).encode("utf-16"),
    ],
)
def test_what_is_not_plain_is_left_to_the_server_as_it_came(line: bytes) -> None:
    early, answer = hear(line + b"\nmore")
    assert (early.handshake, early.unanswered, answer) == (None, line + b"\nmore", b"")


@pytest.mark.parametrize("named", ["", "there", "link", "none", "file"])
@pytest.mark.parametrize("home", ["there", "there/", "relative", ""])
def test_the_folder_is_the_one_that_the_server_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, home: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "file").touch()
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / named) if named else "")
    monkeypatch.setenv("HOME", home if home in ("relative", "") else f"{tmp_path}/{home}")
    early, answer = hear(json.dumps(PLAIN).encode() + b"\n")
    try:
        known = str(find_home(os.environ))
    except ConfigError:
        known = None
    assert early.handshake is None or json.loads(answer)["result"]["codexHome"] == known
    if named in ("there", "link") or (not named and home == "there"):
        assert early.handshake is not None, "nothing keeps it from being answered"
