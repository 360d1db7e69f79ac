"""What the chat shows and does, in the order in which it was typed, however slow the disk is: what is recorded is shown once it is
on disk, which may be long after the turn is over.
"""

import asyncio
import io
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.support.holding_log import HoldingLog
from understudy.cli.chat.actions import Actions
from understudy.cli.chat.chat import Chat
from understudy.cli.chat.markdown import THEME
from understudy.cli.chat.screen import status_text
from understudy.cli.chat.typed import read_slash
from understudy.cli.tell.terminal import TerminalConsole
from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.records import Overrides
from understudy.testing.waiting import Watched

USED = [{"say": "Hello."}, {"usage": {"input": 1200, "output": 34}}]


class Sheet(io.StringIO):
    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self._watched = watched

    def write(self, text: str, /) -> int:
        self._watched.change()
        return super().write(text)


class Scene:
    """A chat whose terminal is a sheet of paper. Implements `showing.Face`."""

    has_live_part = True

    def __init__(self, engine: Engine, log: list[HoldingLog], cwd: Path) -> None:
        self.watched = Watched()
        self._sheet = Sheet(self.watched)
        self.console = TerminalConsole(file=self._sheet, width=100, highlight=False, markup=False, emoji=False, theme=THEME)
        self.chat = Chat(engine, self, Overrides(cwd=str(cwd)), None)
        self.engine = engine
        self._logs = log

    @property
    def log(self) -> HoldingLog:
        return self._logs[0]

    @property
    def text(self) -> str:
        return self._sheet.getvalue()

    def changed(self) -> None:
        self.watched.change()

    def type(self, line: str) -> None:
        called = read_slash(line)
        if called is None:
            self.chat.begin_line(lambda: self.chat.send(line))
        else:
            Actions(self.chat).carry_out(called)

    async def until(self, text: str) -> None:
        await self.watched.until(lambda: text in self.text or None, f"{text!r} in\n{self.text}")

    async def until_over_unseen(self) -> None:
        """A turn has run and is over, and nothing of it is on disk."""
        async with asyncio.timeout(self.watched.seconds):
            while self.chat.handle.facts.usage is None or self.chat.handle.facts.turn is not None:
                self.log.holding.clear()
                await self.log.holding.wait()

    async def give_time(self) -> None:
        """Whatever was begun before and needs no disk is done."""
        await self.engine.log.find(self.chat.handle.id)
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def a_scene(program: Program, *answers: Any) -> AsyncGenerator[Scene]:
    logs: list[HoldingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> HoldingLog:
        logs.append(HoldingLog(state_dir(home), loop))
        return logs[0]

    program.script(*answers)
    engine = Engine(env={**os.environ, **program.environment()}, open_log=open_log)
    try:
        scene = Scene(engine, logs, program.cwd)
        await scene.chat.open_new()
        await scene.chat.showing.catch_up()
        yield scene
        scene.chat.detach()
    finally:
        await engine.close()


@pytest.mark.slow
async def test_the_status_counts_no_tokens_of_a_turn_that_is_not_shown_yet(program: Program) -> None:
    async with a_scene(program, USED) as scene:
        scene.log.holds = True
        scene.type("Hello")
        await scene.until_over_unseen()
        assert "tokens" not in status_text(scene.chat, 100)
        scene.log.let_go()
        await scene.until("s · 1.2k tokens")
        assert "1.2k tokens" in status_text(scene.chat, 100)


async def test_a_command_is_answered_below_the_turn_that_was_typed_before_it(program: Program) -> None:
    async with a_scene(program, USED) as scene:
        scene.log.holds = True
        scene.type("Hello")
        await scene.until_over_unseen()
        scene.type("/cost")
        scene.type("/plan")
        await scene.give_time()
        assert scene.text == "", "nothing is on disk yet"
        scene.log.let_go()
        await scene.until("there is no plan yet")
        told = ["❯ Hello", "● Hello.", "s · 1.2k tokens", "1.2k tokens (1.2k in, 34 out)", "there is no plan yet"]
        assert sorted(told, key=scene.text.index) == told


async def test_a_message_typed_after_new_goes_to_the_new_conversation(program: Program) -> None:
    async with a_scene(program, {"say": "One."}) as scene:
        first = scene.chat.handle.id
        scene.type("/new")
        scene.type("Hello")
        await scene.until("● One.")
        assert scene.chat.handle.id != first
        assert scene.text.index("a new conversation") < scene.text.index("❯ Hello")
        assert [entry.record for entry in await (await scene.engine.find(LOCAL, first)).read(1)] == []


@pytest.mark.slow
async def test_what_is_queued_is_sent_once_however_often_enter_is_pressed(program: Program) -> None:
    async with a_scene(program, USED, {"say": "Twice."}) as scene:
        scene.chat.queue("Later")
        scene.log.holds = True
        for _ in range(3):
            scene.chat.send_queued()
        await scene.until_over_unseen()
        scene.chat.send_queued()
        await scene.give_time()
        scene.log.let_go()
        await scene.until("s · 1.2k tokens")
        scene.type("/plan")
        await scene.until("there is no plan yet")
        assert scene.text.count("❯ Later") == 1
        assert "Twice." not in scene.text
        assert scene.chat.queued == []
