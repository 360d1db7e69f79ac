"""Which heads of requests are remembered, so that the next request with the same bytes is not judged again."""

from pathlib import Path
from typing import Any

import pytest

from understudy.config.serve import ServeSettings
from understudy.config.tokens import first_token
from understudy.servers.http.guards import Guards
from understudy.servers.http.heads import Head, Heads
from understudy.servers.http.principals import Principals

LENGTH = 40
Pairs = dict[bytes, bytes | None]


class Door:
    """A server with one token, on loopback."""

    def __init__(self, folder: Path) -> None:
        settings = ServeSettings(state_dir=folder, token_file=folder / "token")
        self.principals = Principals(settings)
        self.token = first_token(settings.token_file)
        self.heads = Heads(Guards("127.0.0.1", 8722, (), (), open_to_all=False), self.principals)

    def usual(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"host", b"127.0.0.1:8722"),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-length", b"%d" % LENGTH),
            (b"authorization", b"Bearer " + self.token.encode()),
            (b"mcp-session-id", b"session-1"),
            (b"mcp-protocol-version", b"2025-11-25"),
        ]

    def learn(self, headers: list[tuple[bytes, bytes]], raw: bytes | None = None) -> Head | None:
        """What is remembered of a request with these."""
        raw = b"POST /mcp HTTP/1.1\r\n" + repr(headers).encode() if raw is None else raw
        scope: dict[str, Any] = {"method": "POST", "path": "/mcp", "headers": headers}
        self.heads.learn(raw, scope, LENGTH)
        return self.heads.find(raw)

    def learn_with(self, changed: Pairs) -> Head | None:
        """With these headers instead of the usual ones; without those that are None."""
        kept = [(name, value) for name, value in self.usual() if name not in changed]
        return self.learn(kept + [(name, value) for name, value in changed.items() if value is not None])


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def test_what_is_remembered_of_a_head(door: Door) -> None:
    head = door.learn(door.usual())
    assert head is not None
    assert (head.length, head.modern, head.session_id) == (LENGTH, False, "session-1")
    assert head.session_header == b"mcp-session-id: session-1\r\n"
    assert head.authorization == f"Bearer {door.token}"
    assert (head.asked.method, head.asked.path, head.asked.headers) == ("POST", "/mcp", dict(door.usual()))
    assert door.heads.find(b"POST /mcp HTTP/1.1\r\n") is None


def test_the_era_without_sessions_answers_with_none(door: Door) -> None:
    for session in (None, b"session-1"):
        head = door.learn_with({b"mcp-protocol-version": b"2026-07-28", b"mcp-session-id": session})
        assert head is not None
        assert (head.modern, head.session_header) == (True, b"")


@pytest.mark.parametrize(
    "changed",
    [
        {b"mcp-protocol-version": None},
        {b"mcp-protocol-version": b"2024-11-05"},
        {b"content-type": b"Application/JSON; charset=utf-8"},
        {b"accept": None},
        {b"accept": b"application/json"},
        {b"accept": b"text/event-stream"},
        {b"host": b"localhost"},
        {b"user-agent": b"x"},
    ],
    ids=repr,
)
def test_others_that_are_remembered(door: Door, changed: Pairs) -> None:
    assert door.learn_with(changed) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {b"expect": b"100-continue"},
        {b"transfer-encoding": b"chunked"},
        {b"upgrade": b"websocket"},
        {b"origin": b"http://127.0.0.1:8722"},
        {b"mcp-protocol-version": b"1999-01-01"},
        {b"mcp-protocol-version": b"2026-07-29"},
        {b"mcp-session-id": None},
        {b"mcp-session-id": None, b"mcp-protocol-version": None},
        {b"content-length": None},
        {b"content-length": b"41"},
        {b"content-length": b"040"},
        {b"host": None},
        {b"host": b"evil.example"},
        {b"content-type": None},
        {b"content-type": b"text/plain"},
        {b"accept": b"text/html"},
        {b"authorization": None},
        {b"authorization": b"Bearer nobody's"},
    ],
    ids=repr,
)
def test_what_is_unusual_or_wrong_is_looked_at_each_time(door: Door, changed: Pairs) -> None:
    assert door.learn_with(changed) is None


def test_a_header_that_comes_twice_is_looked_at_each_time(door: Door) -> None:
    for name, value in ((b"x-forwarded-for", b"1.2.3.4"), (b"mcp-session-id", b"session-2")):
        assert door.learn([*door.usual(), (name, value), (name, value)]) is None


def test_a_head_is_remembered_up_to_its_largest_size(door: Door) -> None:
    assert door.learn(door.usual(), b"x" * 4096) is not None
    assert door.learn(door.usual(), b"y" * 4097) is None


def test_there_is_room_for_256_and_then_all_are_forgotten(door: Door) -> None:
    names = [b"head %d" % number for number in range(257)]
    for name in names[:256]:
        assert door.learn(door.usual(), name) is not None
    assert all(door.heads.find(name) for name in names[:256])
    assert door.learn(door.usual(), names[256]) is not None
    assert [name for name in names if door.heads.find(name)] == [names[256]]


async def test_the_body_came_with_the_head_so_none_is_waited_for(door: Door) -> None:
    head = door.learn(door.usual())
    assert head is not None
    with pytest.raises(AssertionError, match="the body came with the head"):
        await head.asked.body(1000)
