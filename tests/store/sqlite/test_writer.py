"""One job that fails fails alone, whatever is wrong with it, and nobody waits for a thread that is gone."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.records import SUMMARY, append, new_id, noticed, open_log, opened, position_of, user_message
from tests.support.answered import answered
from understudy.errors import StoreError
from understudy.protocol.ops import Send
from understudy.protocol.records import Entry, Noticed
from understudy.store.log import Batch, Position, SavedText, Summary
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS


def batch_with(conversation: Any, text: Any, *, at: Any = 2.0, turn: Any = "1", summary: Summary = SUMMARY) -> Batch:
    return Batch(conversation, 1, 1, (Entry(2, 1, turn, at, Noticed(text)),), summary)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


UNWRITABLE: dict[str, dict[str, Any]] = {
    "half a surrogate pair": {"text": "\ud800"},
    "a byte that is not UTF-8": {"text": "name\udcff"},
    "text in a column that is not UTF-8": {"text": "fine", "turn": "\udcff"},
    "a summary that is not UTF-8": {"text": "fine", "summary": Summary("\udcff", "idle", 0, "/w", "m")},
    "a number that SQLite cannot hold": {"text": "fine", "at": 2**70},
    "a value of no known kind": {"text": object()},
    "nesting beyond all measure": {"text": nested(1_000_000)},
}


@pytest.mark.parametrize("what", UNWRITABLE)
async def test_a_job_that_cannot_be_written_fails_alone_and_the_next_is_written(tmp_path: Path, what: str) -> None:
    log = open_log(tmp_path)
    bad, good = new_id(), new_id()
    for name in (bad, good):
        await append(log, opened(name))
    outcomes: dict[str, BaseException | None] = {}
    told = asyncio.Event()

    def note(name: str, error: BaseException | None) -> None:
        outcomes[name] = error
        if len(outcomes) == 3:
            told.set()

    log.append(noticed(good, 1, 2), lambda error: note("before", error))  # the three are committed together, if they can be
    log.append(batch_with(bad, **UNWRITABLE[what]), lambda error: note("bad", error))
    log.append(noticed(good, 1, 3), lambda error: note("after", error))
    async with asyncio.timeout(WAIT_SECONDS):
        await told.wait()
    assert (outcomes["before"], outcomes["after"]) == (None, None)
    assert isinstance(outcomes["bad"], StoreError)
    assert "could not be written" in str(outcomes["bad"])
    assert position_of(log, bad) == Position(1, 1), "nothing of it is there"
    await append(log, noticed(bad, 1, 2))
    assert answered(log.check()) == "ok"
    log.close()


async def test_text_so_far_and_letters_that_cannot_be_written_hold_up_nobody(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    log.save_text(name, 1, SavedText(1, "\ud800"))
    refused = asyncio.get_running_loop().create_future()
    log.post(name, Send(user_message("\udcff")), refused.set_result)
    async with asyncio.timeout(WAIT_SECONDS):
        assert isinstance(await refused, StoreError)
    await append(log, noticed(name, 1, 2))
    assert answered(log.letters(name)) == []
    log.close()


async def test_after_the_end_every_job_is_refused_with_the_reason(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    assert log.finish()
    with pytest.raises(StoreError, match="not written to any more"):
        await append(log, noticed(name, 1, 2))
    log.close()


class BrittleLog(SqliteLog):
    """Its writer's thread dies of the first outcome that it has to bring back."""

    brittle = True

    def _deliver(self, answers: list[Any]) -> None:
        if self.brittle:
            self.brittle = False
            raise SystemExit
        super()._deliver(answers)


async def test_should_the_thread_die_all_who_wait_and_who_come_are_told(tmp_path: Path) -> None:
    log = BrittleLog(tmp_path, asyncio.get_running_loop())
    names = [new_id() for _ in range(4)]
    for name in names:
        with pytest.raises(StoreError, match="restart the server"):
            await append(log, opened(name))
    log.close()


@pytest.mark.parametrize("where", ["summary", "data", "turn"])
async def test_a_damaged_row_hides_no_other(tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture) -> None:
    import sqlite3

    log = open_log(tmp_path)
    whole, damaged = new_id(), new_id()
    for name in (whole, damaged):
        await append(log, opened(name))
        await append(log, noticed(name, 1, 2))
    with closing(sqlite3.connect(log.path)) as connection, connection:
        number = connection.execute("SELECT number FROM conversations WHERE id = ?", (damaged,)).fetchone()[0]
        if where == "summary":
            connection.execute("UPDATE conversations SET summary = x'7b22ff' WHERE number = ?", (number,))
        elif where == "data":
            connection.execute("UPDATE records SET data = x'7b22ff' WHERE conversation = ? AND seq = 2", (number,))
        else:
            connection.execute("UPDATE records SET turn = CAST(x'ff' AS TEXT) WHERE conversation = ? AND seq = 2", (number,))
    connection.close()
    listed = {row.conversation_id: row.summary.title for row in answered(log.list(10)).rows}
    assert listed == {whole: "a title", damaged: "(damaged)" if where == "summary" else "a title"}
    assert len(answered(log.read(whole))) == 2
    if where == "data":
        with pytest.raises(StoreError, match=f"record 2 of conversation {damaged} is damaged .*the 1 before it are whole"):
            answered(log.read(damaged))
        assert len(answered(log.read(damaged, limit=1))) == 1
    else:
        assert answered(log.read(damaged))[1].turn == ("\\xff" if where == "turn" else "1")
    log.close()
