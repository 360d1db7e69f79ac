"""What of a search a caller is given: what they may read, without secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.records import open_log
from tests.store.search.said import say, user
from understudy.engine.services.searching import mask_of, search
from understudy.protocol.callers import LOCAL, Caller, Right
from understudy.store.search.asked import Wanted
from understudy.store.sqlite.event_log import SqliteLog

TOKEN = "ghp_" + "a1" * 18
ENV = {"DB_PASSWORD": "hunter22", "PATH": "/usr/bin"}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = open_log(tmp_path)
    await say(log, [user("word of ann")], owner="ann")
    await say(log, [user("word of bob")], owner="bob")
    await say(log, [user("word of the machine")])
    yield log
    log.close()


READ: frozenset[Right] = frozenset({"read"})
RUN: frozenset[Right] = frozenset({"run"})


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (LOCAL, {"ann", "bob", "the machine"}),
        (Caller("ann", READ), {"ann"}),
        (Caller("ann", READ, READ), {"ann", "bob", "the machine"}),
        (Caller("ann", RUN, READ), {"bob", "the machine"}),
        (Caller("ann", RUN, RUN), set[str]()),
        (Caller("local", READ), {"the machine"}),
        (Caller("carol", READ), set[str]()),
        (Caller("", READ), set[str]()),
        (Caller('ann" OR "x', READ), set[str]()),
    ],
)
async def test_everybody_finds_what_they_may_read(log: SqliteLog, caller: Caller, expected: set[str]) -> None:
    found = await search(log, caller, Wanted(words="word"), str)
    assert {hit.snippet.removeprefix("word of ") for hit in found.hits} == expected
    assert found.next is None


async def test_nobody_can_ask_in_the_name_of_somebody_else(log: SqliteLog) -> None:
    found = await search(log, Caller("ann", READ), Wanted(words="word", owner="bob"), str)
    assert [hit.snippet for hit in found.hits] == ["word of ann"]


async def test_what_is_shown_has_no_secrets_also_where_the_text_is_long(log: SqliteLog) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "needleAB\n" * 300 + "-----END RSA PRIVATE KEY-----"
    await say(log, [user(f"{TOKEN} needle hunter22 " + "x " * 40_000), user(f"{'y ' * 40_000} {key} needle")])
    found = await search(log, LOCAL, Wanted(words="needle OR needleab OR x"), mask_of(ENV))
    shown = " ".join(hit.snippet for hit in found.hits)
    assert len(found.hits) == 2
    assert TOKEN[4:] not in shown
    assert "hunter22" not in shown
    assert "needleAB" not in shown
    assert "[redacted] needle [redacted]" in shown
