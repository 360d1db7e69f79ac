"""One simulated world: a plan, played to its end and then until everybody has what they wait for."""

from __future__ import annotations

import logging
import os
import random as random_module
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from random import Random

from tests.simulation.clients import Client, SimulatedViewer
from tests.simulation.disk import Disk
from tests.simulation.history import History
from tests.simulation.log import SimulatedClaim, Troubles
from tests.simulation.loop import Clock, ProcessLoop, Scheduler
from tests.simulation.models import CALM, Moods, SimulatedModel
from tests.simulation.plan import Plan, Step
from tests.simulation.process import SimulatedProcess
from understudy.protocol.ids import ConversationId

EPOCH = 1_900_000_000.0  # what the clock on the wall says at the beginning
AFTER_LAST_STEP = 6.0
PATIENCE = 400.0  # virtual seconds until everybody must have what they wait for, once nothing goes wrong any more
CALM_TROUBLES = Troubles(lost_hints=0.0, doubled_hints=0.0)


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = Clock(Random(f"{plan.seed} clock"))
        self.history = History(lambda: self.clock.now)
        self.disk = Disk(self.history)
        moods = Moods(calls=plan.calls, breaks=plan.breaks, fails=plan.breaks / 3, stalls=plan.stalls, asks=plan.asks)
        self.model = SimulatedModel(Random(f"{plan.seed} model"), self.history, moods)
        self.loops: list[ProcessLoop] = []
        self.scheduler = Scheduler(self.clock, self.loops, Random(f"{plan.seed} order"))
        self.slots: list[SimulatedProcess | None] = [None] * plan.slots
        self.processes: list[SimulatedProcess] = []
        self.conversations: dict[int, ConversationId] = {}
        self.last_message: dict[str, str] = {}
        self.viewers: list[SimulatedViewer] = []
        self.calm = False
        self._numbers = 0
        self._wall_ahead = EPOCH - self.clock.now

    def wall(self) -> float:
        return self.clock.now + self._wall_ahead

    def new_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def process(self, slot: int) -> SimulatedProcess:
        """The one that serves there; a new one where there is none."""
        slot %= len(self.slots)
        known = self.slots[slot]
        if known is not None and known.serves:
            return known
        number = len(self.processes) + 1
        troubles = (
            CALM_TROUBLES
            if self.calm
            else Troubles(reads=self.plan.reads, fails=self.plan.fails, slow_commits=self.plan.slow_commits)
        )
        made = SimulatedProcess(self, f"p{number}", 100 + number, Random(f"{self.plan.seed} process {slot} {number}"), troubles)
        self.slots[slot] = made
        self.processes.append(made)
        self.loops.append(made.loop)
        return made

    # -- playing

    def run(self) -> None:
        with _of_this_world(self):
            for number, step in enumerate(self.plan.steps):
                self.clock.after(step.at, lambda step=step, number=number: self._do(step, number))
            self.scheduler.run(self.clock.now + (self.plan.steps[-1].at if self.plan.steps else 0.0) + AFTER_LAST_STEP)
            self._calm_down()
            self._finish()
            for process in self.processes:
                if not process.loop.dead:
                    process.log.dead = True
                    process.unwind()

    def _do(self, step: Step, number: int) -> None:
        harm = getattr(self, f"_harm_{step.what}", None)
        if harm is not None:
            harm(step)
            return
        process = self.process(step.slot)
        client = Client(self, process, Random(f"{self.plan.seed} client {step.at} {step.what} {step.drawn}"))
        process.loop.call_soon(client.begin, step)

    def _harm_crash(self, step: Step) -> None:
        process = self.slots[step.slot % len(self.slots)]
        if process is not None and process.serves:
            process.crash()

    def _harm_stand_still(self, step: Step) -> None:
        process = self.slots[step.slot % len(self.slots)]
        if process is None or not process.serves:
            return
        self.history.note("stands", process=process.name)
        process.loop.paused = True

        def go_on() -> None:
            if process.loop.paused:
                self.history.note("goes_on", process=process.name)
                process.loop.paused = False

        self.clock.after(0.05 + step.drawn**2 * 15, go_on)

    def _harm_close(self, step: Step) -> None:
        process = self.slots[step.slot % len(self.slots)]
        if process is not None and process.serves:
            process.closing = True
            process.loop.call_soon(lambda: self._close(process))

    def _close(self, process: SimulatedProcess) -> None:
        self.history.note("closing", process=process.name)

        async def close() -> None:
            await process.engine.close()
            self.history.note("gone", process=process.name)
            process.log.die()
            self.clock.after(0.0, process.unwind)

        process.loop.create_task(close())

    def _harm_lose(self, step: Step) -> None:
        for name, claim in list(self.disk.claims.items()):
            if isinstance(claim, SimulatedClaim) and claim.log.lose_claim(name):
                self.history.note("loses", name, pid=claim.log.pid)

    def _harm_clock(self, step: Step) -> None:
        self._wall_ahead += (step.drawn - 0.5) * (20_000 if step.drawn < 0.8 else 200)

    # -- the end

    def _calm_down(self) -> None:
        """Nothing goes wrong any more: whoever waits is to get what they wait for."""
        self.history.note("calm")
        self.calm = True
        self.model.moods = CALM
        for process in self.processes:
            process.loop.paused = False
            process.log.troubles = CALM_TROUBLES
            process.commands.longest = 0.1
        self._answer_questions()
        self._until_all_are_told()
        for slot in range(len(self.slots)):
            self.process(slot)
        for number, name in tuple(self.conversations.items()):
            if name in self.disk.logs:
                self._do(Step(0.0, "stream", number, number, 0.99), 0)
                self._do(Step(0.0, "call", number + 1, number, 0.99), 0)
        self._until_all_are_told()

    def _until_all_are_told(self) -> None:
        self.scheduler.run(
            self.clock.now + 3.0
        )  # what was handed over has begun, who stood still goes on, viewers see the last of it
        self.scheduler.run(self.clock.now + PATIENCE, lambda: not (self.pending() or self.disk.claims))
        for op in self.pending():
            self.history.note("waits", op=op)
        self.scheduler.run(self.clock.now + 3.0)

    def _answer_questions(self) -> None:
        for number, name in tuple(self.conversations.items()):
            one = self.disk.logs.get(name)
            if one is not None and one.summary.pending:
                self._do(Step(0.0, "decide", number, number, Random(self.clock.now).random()), 0)
        self.clock.after(2.0, self._answer_questions)

    def pending(self) -> list[int]:
        """Ops that were begun in processes that live, and were not told anything."""
        gone = {process.name for process in self.processes if process.loop.dead}
        begun: dict[int, None] = {}
        for event in self.history.events:
            if event.kind == "begun" and event.facts["process"] not in gone:
                begun[event.facts["op"]] = None
            elif event.kind == "told":
                begun.pop(event.facts["op"], None)
        return list(begun)

    def _finish(self) -> None:
        for viewer in self.viewers:
            if not viewer.over.done() and not viewer.client.process.loop.dead and viewer.following is not None:
                self.history.note("stands_at", viewer.handle.id, viewer=viewer.number, cursor=viewer.following.cursor)
        for name, one in self.disk.logs.items():
            self.history.note("in_the_end", name, records=len(one.entries), letters=tuple(one.letters))
        for process in self.processes:
            if process.serves:
                self._harm_close(Step(0.0, "close", self.slots.index(process)))
        self.scheduler.run(self.clock.now + PATIENCE, lambda: all(process.loop.dead for process in self.processes))
        for process in self.processes:
            if not process.loop.dead:
                self.history.note("bug", process=process.name, text="it does not end")


class _Told(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__(logging.WARNING)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            where = "".join(traceback.format_exception(record.exc_info[1])[-3:])
            self._history.note("bug", text=f"{record.getMessage()}: {record.exc_info[1]!r} {where}")
        elif record.getMessage().startswith("bug: "):
            self._history.note("bug", text=record.getMessage())


@contextmanager
def _of_this_world(world: World) -> Generator[None]:
    """Time, chance and the log of the process are this world's."""
    urandom, now = os.urandom, time.time
    chance = Random(f"{world.plan.seed} chance")
    logger, told = logging.getLogger("understudy"), _Told(world.history)
    random_module.seed(world.plan.seed)
    os.urandom, time.time = chance.randbytes, world.wall
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(told)
    try:
        yield
    finally:
        os.urandom, time.time = urandom, now
        logger.removeHandler(told)
        logger.propagate = propagates
