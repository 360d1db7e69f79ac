"""A claim that is lost while a turn runs: the turn stops at once, whoever waits is told why, and the conversation can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.e2e.scenes import session_of, text_of
from tests.soak.truth import check_log
from tests.store.records import claimed
from tests.support.answered import answered
from tests.support.losing_log import LosingLog
from tests.support.obliging_model import ObligingModel
from tests.support.server_here import ServerHere
from understudy.config.home import state_dir
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import CommandEnded, Entry, TurnEnded
from understudy.store.sqlite.event_log import SqliteLog

LOST = "the claim on conversation {} was lost, so its turn was stopped; send again to continue the conversation"


@asynccontextmanager
async def a_server(folder: Path) -> AsyncGenerator[tuple[ServerHere, LosingLog]]:
    logs: list[LosingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> LosingLog:
        logs.append(LosingLog(state_dir(home), loop))
        return logs[0]

    async with ObligingModel() as model, ServerHere(model.url, cwd=folder, home=folder / "home", open_log=open_log) as server:
        await server.call_tool("codex", prompt="hello")  # the log is opened with the first conversation
        yield server, logs[0]


def entries_of(folder: Path, thread: str) -> list[Entry]:
    with closing(SqliteLog(folder / "home" / "understudy")) as stored:
        return list(answered(stored.read(ConversationId(thread))))


@pytest.mark.parametrize(("prompt", "event"), [("talk", "agent_message_delta"), ("run", "exec_command_begin")])
async def test_the_turn_stops_and_the_call_is_told_why(tmp_path: Path, prompt: str, event: str) -> None:
    async with a_server(tmp_path) as (server, log):
        call = server.call_tool("codex", prompt=prompt, cwd=str(tmp_path))
        thread = await session_of(server, call)
        await server.event(event, call)
        before = len(entries_of(tmp_path, thread))
        log.lose(thread)
        result = await call
        assert LOST.format(thread) in text_of(result)
        assert result["isError"] is True
        assert len(entries_of(tmp_path, thread)) == before, "nothing is written without the claim"

        assert text_of(await server.call_tool("codex-reply", threadId=thread, prompt="go on")) == "ok: go on"
    entries = entries_of(tmp_path, thread)
    check_log(entries)
    assert [entry.record.reason for entry in entries if isinstance(entry.record, TurnEnded)] == ["interrupted", "completed"]
    outcomes = [entry.record.stderr for entry in entries if isinstance(entry.record, CommandEnded)]
    assert all("whether it took effect is not known" in outcome for outcome in outcomes)
    assert len(outcomes) == (prompt == "run")


async def test_who_has_the_conversation_then_is_not_disturbed(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, log), ObligingModel() as model:
        call = server.call_tool("codex", prompt="talk", cwd=str(tmp_path))
        thread = await session_of(server, call)
        await server.event("agent_message_delta", call)
        log.lose(thread)
        assert LOST.format(thread) in text_of(await call)
        async with ServerHere(model.url, cwd=tmp_path, home=tmp_path / "home") as other:
            assert text_of(await other.call_tool("codex-reply", threadId=thread, prompt="mine")) == "ok: mine"
            assert text_of(await server.call_tool("codex-reply", threadId=thread, prompt="yours")) == "ok: yours"
            assert text_of(await other.call_tool("codex-reply", threadId=thread, prompt="mine")) == "ok: mine"
    check_log(entries_of(tmp_path, thread))


async def test_a_replaced_lock_file_in_which_another_process_was_faster_ends_the_turn(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, _):
        call = server.call_tool("codex", prompt="talk", cwd=str(tmp_path))
        thread = await session_of(server, call)
        await server.event("agent_message_delta", call)
        # in one step of the event loop: the server is here, and would renew its claim at once
        (tmp_path / "home" / "understudy" / "locks").unlink()
        with closing(SqliteLog(tmp_path / "home" / "understudy")) as other:
            claim = claimed(other, ConversationId(thread))
            assert LOST.format(thread) in text_of(await call)
            claim.release()
        assert text_of(await server.call_tool("codex-reply", threadId=thread, prompt="go on")) == "ok: go on"


async def test_a_claim_outlives_the_lock_file_where_nobody_was_faster(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, log):
        call = server.call_tool("codex", prompt="talk", cwd=str(tmp_path))
        thread = await session_of(server, call)
        await server.event("agent_message_delta", call)
        (tmp_path / "home" / "understudy" / "locks").unlink()
        assert answered(log.holder(ConversationId(thread))) is None  # looks at the lock file
        with closing(SqliteLog(tmp_path / "home" / "understudy")) as other:
            assert answered(other.holder(ConversationId(thread))) is not None
        assert not call.done
        await server.cancel(call)
        assert "interrupted" in text_of(await call).lower()
