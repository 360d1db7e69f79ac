"""Answering a question of any conversation from a terminal, and running its turn to the end where its program is gone."""

import asyncio
import os
import sys
from typing import Any, Literal

import msgspec

from understudy.cli.answers import read_answer
from understudy.cli.question_lines import print_question
from understudy.cli.terminal import open_console
from understudy.cli.typed_answers import TypedAnswers
from understudy.cli.viewing import PersonViewer
from understudy.engine.answering import Outcome
from understudy.engine.approvals import CLIENT
from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.durable import Durable
from understudy.engine.engine import Engine
from understudy.engine.following import QuietViewer
from understudy.engine.handle import Handle
from understudy.engine.open_questions import OpenQuestion
from understudy.errors import AgentError
from understudy.policy.visible import make_visible
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import Question, TurnEnded, UserInputAsked

PROMPT = "  [y]es, yes for the [s]ession, [n]o, [q]uit the turn, Enter leaves it open? "
HINT = "  Please answer y, s, n or q, or press Enter."
CLOSED = "That question is closed: somebody else answered it first, its time was over, or its turn has ended."
REQUESTED = "The program that asked has not taken the answer yet; it is left for it."
TAKEN_UP = "The program that asked is gone, so its turn goes on here."
WAITS = "Another question of the turn waits for an answer: understudy approvals"

TurnState = Literal["completed", "failed", "interrupted", "waiting"]


class Answered(msgspec.Struct, frozen=True):
    conversation_id: str
    call_id: str
    outcome: Outcome
    turn: TurnState | None = None  # what became of a turn that was taken up here

    def as_json(self) -> dict[str, Any]:
        told = {"conversation_id": self.conversation_id, "call_id": self.call_id, "outcome": self.outcome}
        return told if self.turn is None else {**told, "turn": self.turn}


async def answer(engine: Engine, asked: OpenQuestion, op: Decide, *, quiet: bool = False) -> Answered:
    """Returns once it is known whether the answer counts, and once a turn that was taken up for it is over.

    Raises `AgentError` where it is not taken.
    """
    handle = await engine.find(LOCAL, asked.conversation_id)
    viewer = _Taken(handle, asked.asked_at, quiet=quiet)
    viewer.following.follow_turn(asked.turn)
    viewer.following.go_live()
    try:
        durable = Durable()
        outcome = await handle.decide(op, durable)
        taken_up = handle.facts.runs_here
        if not quiet:
            said = "answered" if isinstance(op, Answer) else op.decision.replace("_", " ")
            counts = f"{said}: {make_visible(asked.question.call_id)}"
            _say({"counts": counts, "closed": CLOSED, "requested": REQUESTED}[outcome])
        if taken_up:
            viewer.begin_telling()
            await viewer.exit_code
        else:
            await durable
        return Answered(asked.conversation_id, asked.question.call_id, outcome, viewer.turn if taken_up else None)
    finally:
        viewer.following.stop()


def decision_on(asked: OpenQuestion, decision: Decision, word: str = "") -> Decide:
    return Decide(asked.question.call_id, decision, CLIENT, asked.turn, word=word, asked_at=asked.asked_at)


def _say(text: str) -> None:
    open_console().print(text, soft_wrap=True, markup=False, highlight=False)


class _Taken(PersonViewer):
    """Tells of the turn once it is known to run here. A question after the one that was answered is left open."""

    def __init__(self, handle: Handle, answered: float, *, quiet: bool) -> None:
        """`answered`: when the question was put that is answered. A later one may have the same id."""
        super().__init__(handle, can_ask=False)
        self.turn: TurnState | None = None
        self._answered = answered
        self._quiet = quiet
        self._held: list[LiveEntry] | None = []

    def begin_telling(self) -> None:
        if not self._quiet:
            self._teller.notice(TAKEN_UP)
        held, self._held = self._held or [], None
        for live in held:
            self.entry(live)
        self._leave_if_it_waits()

    def entry(self, live: LiveEntry) -> None:
        if self._held is not None:
            self._held.append(live)
            return
        if not self._quiet:
            super().entry(live)
        self._leave_if_it_waits()

    def delta(self, live: LiveDelta) -> None:
        if self._held is None and not self._quiet:
            super().delta(live)

    def question(self, question: Question, turn: str) -> None:
        self._leave_if_it_waits()

    def ended(self, ended: TurnEnded) -> None:
        self.turn = ended.reason
        super().ended(ended)

    def _leave_if_it_waits(self) -> None:
        """Nothing of the turn is under way, and a question is open: it can wait without this process."""
        facts = self.handle.facts
        waits = any(facts.asked_at.get(call_id) != self._answered for call_id in facts.questions)
        if self._held is None and waits and not self.handle.under_way() and not self.exit_code.done():
            self.turn = "waiting"
            if not self._quiet:
                self._teller.notice(WAITS)
            self._end(0)


# -- at a terminal


async def put_to_person(engine: Engine, asked: OpenQuestion) -> bool:
    """Show a question and take the answer. False when the person has left."""
    console = open_console()
    handle = await engine.find(LOCAL, asked.conversation_id)
    if handle.open_question(asked.question.call_id) != asked.question:
        return True  # answered while another one was looked at
    print_question(console, asked)
    watcher = _Closing(asked)
    following = handle.follow(watcher)
    following.go_live()
    try:
        op = await (
            _typed(console, watcher, asked) if isinstance(asked.question, UserInputAsked) else _decision(console, watcher, asked)
        )
    finally:
        following.stop()
    if op == "left":
        return False
    if op == "closed":
        console.print(f"\n{CLOSED}", soft_wrap=True, markup=False, highlight=False)
    elif op is not None:
        try:
            await answer(engine, asked, op)
        except AgentError as error:
            console.print(f"{error}", style="red", soft_wrap=True, markup=False, highlight=False)
    console.print()
    return True


class _Closing(QuietViewer):
    """Waits for somebody else to answer."""

    def __init__(self, asked: OpenQuestion) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked = asked

    def question_closed(self, call_id: str, turn: str) -> None:
        if call_id == self._asked.question.call_id and not self.closed.done():
            self.closed.set_result(None)

    def entry(self, live: LiveEntry) -> None:
        if isinstance(live.entry.record, TurnEnded) and not self.closed.done():
            self.closed.set_result(None)


async def _typed(console: Any, watcher: _Closing, asked: OpenQuestion) -> Decide | Literal["left", "closed"] | None:
    """What the model wants to know. None: nothing was answered, so it is left open."""
    assert isinstance(asked.question, UserInputAsked)
    typed = TypedAnswers(asked.question)
    while True:
        console.print(typed.prompt(), end="", soft_wrap=True, markup=False, highlight=False)
        console.file.flush()
        line = await _line_or(watcher.closed)
        if not line:
            return "closed" if line is None else "left"
        if typed.take(line):
            op = typed.op(asked.turn, asked.asked_at)
            return op if isinstance(op, Answer) else None


async def _decision(console: Any, watcher: _Closing, asked: OpenQuestion) -> Decide | Literal["left", "closed"] | None:
    """None: it is left open."""
    while True:
        console.print(PROMPT, end="", soft_wrap=True, markup=False, highlight=False)
        console.file.flush()
        line = await _line_or(watcher.closed)
        if line is None:
            return "closed"
        if not line:
            console.print()
            return "left"
        if not line.strip():
            return None
        decision = read_answer(line)
        if decision is not None:
            return decision_on(asked, decision)
        console.print(HINT, markup=False, highlight=False)


async def _line_or(closed: "asyncio.Future[None]") -> str | None:
    """What is typed next, empty at the end of input; None once there is nothing to answer any more."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        try:
            line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
        except OSError:  # the terminal has gone
            line = ""
        if not typed.done():
            typed.set_result(line)

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        await asyncio.wait([typed, closed], return_when=asyncio.FIRST_COMPLETED)
        return typed.result() if typed.done() else None
    finally:
        loop.remove_reader(sys.stdin.fileno())
