"""Commands that outlive their turns: their conversation stays where they run, and none of them outlives it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.sandbox.stage import until
from tests.support.losing_log import LosingLog
from tests.support.playbook import Playbook
from understudy.config.home import state_dir
from understudy.engine.conversation.conversation import Conversation
from understudy.engine.turn.long_commands import ARCHIVED, LEAVING
from understudy.errors import ConversationBusy
from understudy.protocol.ops import Archive
from understudy.protocol.records import CommandEnded
from understudy.testing import Script, call, say
from understudy.testing.waiting import WAIT_SECONDS

FREE = {"sandbox_mode": "danger-full-access", "approval_policy": "never"}
SCRIPT: Script = [call("exec_command", cmd="echo $$ > number; exec sleep 600", login=False, yield_time_ms=250), say("It runs.")]


def inside(play: Playbook) -> Conversation:
    return play.handle._conversation  # pyright: ignore[reportPrivateUsage]


async def begin(play: Playbook, folder: Path) -> None:
    await play.send("go")
    await play.over()
    async with asyncio.timeout(WAIT_SECONDS):
        await play.handle.durable()
    await until(lambda: number_in(folder) != "")


def ends(play: Playbook) -> list[str]:
    return [entry.record.ended_by for entry in play.entries() if isinstance(entry.record, CommandEnded)]


def number_in(folder: Path) -> str:
    """Of the command's process, once it has told."""
    return (folder / "number").read_text().strip() if (folder / "number").is_file() else ""


async def until_gone(folder: Path) -> None:
    process = Path("/proc", number_in(folder))
    await until(lambda: not process.exists())


async def test_while_one_runs_its_conversation_stays_here(tmp_path: Path) -> None:
    async with Playbook(tmp_path, SCRIPT, **FREE) as here, Playbook.beside(here, [], **FREE) as there:
        await begin(here, tmp_path)
        here.following.stop()
        assert (inside(here).needs_watching, inside(here).is_quiet, inside(here).claim.is_held) == (True, False, True)
        with pytest.raises(ConversationBusy):
            await there.resume()
        await here.handle.submit(Archive())
        async with asyncio.timeout(WAIT_SECONDS):
            await here.handle.durable()
        assert ends(here) == [ARCHIVED]
        assert (inside(here).needs_watching, inside(here).is_quiet, inside(here).claim.is_held) == (False, True, False)
        assert await there.resume() is None


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for the process there")
async def test_one_ends_with_its_server_and_its_end_is_recorded_with_the_reason(tmp_path: Path) -> None:
    async with Playbook(tmp_path, SCRIPT, **FREE) as play:
        await begin(play, tmp_path)
        await play.engine.close()
        assert ends(play) == [LEAVING]
        await until_gone(tmp_path)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for the process there")
async def test_one_whose_end_could_not_be_recorded_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[LosingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> LosingLog:
        logs.append(LosingLog(state_dir(home), loop))
        return logs[-1]

    monkeypatch.setattr(Playbook, "open_log", staticmethod(open_log))
    async with Playbook(tmp_path, SCRIPT, **FREE) as play:
        await begin(play, tmp_path)
        logs[0].lose(play.handle.id)
        await until_gone(tmp_path)
        assert ends(play) == [], "another process may have the log now"
