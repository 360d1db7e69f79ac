"""`understudy approvals`: lists the open questions of all conversations, and answers one, after which its turn runs to the end."""

import asyncio
import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from understudy.cli.parsing import wrong_usage
from understudy.cli.stored import home
from understudy.cli.tell.question_lines import as_json, print_question
from understudy.cli.tell.terminal import open_console
from understudy.cli.tell.viewing import PersonViewer, read_answer
from understudy.cli.typed_answers import TypedAnswers
from understudy.cli.waiting import wait_for
from understudy.engine.conversation.answering import Outcome
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.durable import Durable
from understudy.engine.services.open_questions import OpenQuestion, open_questions
from understudy.engine.turn.approvals import CLIENT
from understudy.engine.viewers.following import QuietViewer
from understudy.errors import AgentError, BadRequest
from understudy.policy.user_input import chosen_by, read_answers
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import Answers, Question, TurnEnded, UserInputAsked
from understudy.servers.process.log_lines import log_warnings
from understudy.servers.process.process import hide_memory
from understudy.store.opening import store_exists
from understudy.text import make_visible

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
    turn: TurnState | None = None  # what became of a turn that this process continued

    def as_json(self) -> dict[str, Any]:
        told = {"conversation_id": self.conversation_id, "call_id": self.call_id, "outcome": self.outcome}
        return told if self.turn is None else {**told, "turn": self.turn}


async def answer(engine: Engine, asked: OpenQuestion, op: Decide, *, quiet: bool = False) -> Answered:
    """Returns once it is known whether the answer counts, and once a turn that was continued for it has ended.

    Raises `AgentError` if it is not accepted.
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
    """Shows the turn once it is known to run here. A question after the answered one is left open."""

    def __init__(self, handle: Handle, answered: float, *, quiet: bool) -> None:
        """`answered`: the time of the question that is answered. A later question may have the same id."""
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
        """Nothing of the turn is in progress and a question is open, so it can wait without this process."""
        facts = self.handle.facts
        waits = any(facts.asked_at.get(call_id) != self._answered for call_id in facts.questions)
        if self._held is None and waits and not self.handle.under_way() and not self.exit_code.done():
            self.turn = "waiting"
            if not self._quiet:
                self._teller.notice(WAITS)
            self._end(0)


# -- at a terminal


async def put_to_person(engine: Engine, asked: OpenQuestion) -> bool:
    """Show a question and read the answer. False if the person has left."""
    console = open_console()
    handle = await engine.find(LOCAL, asked.conversation_id)
    if handle.open_question(asked.question.call_id) != asked.question:
        return True  # answered while another question was shown
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
    """Notices when somebody else answers."""

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
    """Answers to what the model wants to know. None: nothing was answered, so it stays open."""
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
    """The person's decision; None if the question stays open."""
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
    """The next input, empty at the end of input; None if there is nothing left to answer."""
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


NONE = "No question waits for an answer."
MOST_CHARACTERS = 2_000  # of words for the model

_DECISIONS: dict[str, Decision] = {"yes": "approved", "session": "approved_for_session", "no": "denied", "abort": "abort"}


def run(options: Namespace) -> int:
    log_warnings()
    hide_memory()  # a turn that a crash left waiting continues here, and its commands may run outside the sandbox
    if options.action == "answer":
        _check(options)
        return wait_for(lambda: _answer(options))
    if not store_exists(home()):
        return _print_list([], json_wanted=options.json)
    if options.json or options.only_list or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _print_list(wait_for(_read), json_wanted=options.json)
    return wait_for(_put_each)


async def _read() -> list[OpenQuestion]:
    engine = Engine()
    try:
        return await open_questions(engine, LOCAL)
    finally:
        await engine.close()


def _print_list(questions: Sequence[OpenQuestion], *, json_wanted: bool) -> int:
    if json_wanted:
        print(json.dumps([as_json(each) for each in questions], indent=2))
        return 0
    if not questions:
        print(NONE, file=sys.stderr)
        return 0
    console = open_console()
    for each in questions:
        print_question(console, each)
        console.print()
    console.print("To answer one: understudy approvals answer CALL yes|session|no|abort", style="dim", soft_wrap=True)
    if any(isinstance(each.question, UserInputAsked) for each in questions):
        console.print("What the model wants to know: understudy approvals answer CALL ANSWER", style="dim", soft_wrap=True)
    return 0


async def _put_each() -> int:
    """One after the other, to the person at the terminal."""
    engine = Engine()
    try:
        questions = await open_questions(engine, LOCAL)
        if not questions:
            print(NONE, file=sys.stderr)
        for each in questions:
            if not await put_to_person(engine, each):
                break
        return 0
    finally:
        await engine.close()


# -- answering one


def _check(options: Namespace) -> None:
    if options.more and options.answer in _DECISIONS:
        wrong_usage(f"nothing can stand behind `{options.answer}`: {options.more[0]!r}")
    if options.word is None:
        return
    if options.answer != "no":
        wrong_usage("--word goes with `no`: it is what the model is told with the refusal")
    if not options.word.strip() or len(options.word) > MOST_CHARACTERS:
        wrong_usage(f"--word should be a text of at most {MOST_CHARACTERS} characters")


async def _answer(options: Namespace) -> int:
    engine = Engine()
    try:
        found = find_question(await open_questions(engine, LOCAL), options.call, options.conversation)
        answered = await answer(engine, found, _op(found, options), quiet=options.json)
    finally:
        await engine.close()
    if options.json:
        print(json.dumps({**answered.as_json(), "answer": options.answer}))
    return 0 if answered.outcome == "counts" else 1


def _op(found: OpenQuestion, options: Namespace) -> Decide:
    """Raises `BadRequest` if it does not fit the question."""
    if not isinstance(found.question, UserInputAsked):
        if options.answer in _DECISIONS:
            return decision_on(found, _DECISIONS[options.answer], options.word or "")
        raise BadRequest(f"that question takes one of {', '.join(_DECISIONS)}, not {make_visible(options.answer[:100])!r}")
    if options.answer in ("no", "abort") and not options.more:
        return decision_on(found, _DECISIONS[options.answer], options.word or "")
    answers = _read_words(found.question, (options.answer, *options.more))
    return Answer(found.question.call_id, "approved", CLIENT, found.turn, asked_at=found.asked_at, answers=answers)


def _read_words(asked: UserInputAsked, words: Sequence[str]) -> Answers:
    """`ID=ANSWER` for each question, or only an answer if there is one question. Raises `BadRequest`."""
    names = {question.id: question for question in asked.questions}
    given: dict[str, str] = {}
    for word in words:
        name, found, answer = word.partition("=")
        if not (found and name in names):
            if len(names) > 1 or given:
                listed = " ".join(f"{make_visible(each)}=ANSWER" for each in names)
                raise BadRequest(f"several things are asked: answer them by {listed}")
            name, answer = next(iter(names)), word
        given[name] = chosen_by(names[name], answer)
    try:
        answers = read_answers(asked, given)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if not answers:
        raise BadRequest("the answer is empty; `no` answers nothing")
    return answers


def find_question(questions: Sequence[OpenQuestion], spelled: str, conversation: str | None) -> OpenQuestion:
    """By call id, by its first characters, or by the id of a conversation with a single question. Raises `BadRequest`."""
    if conversation is not None:
        questions = [each for each in questions if each.conversation_id.startswith(conversation)]
    by_id = [each for each in questions if each.question.call_id == spelled]
    by_start = [each for each in questions if each.question.call_id.startswith(spelled)] if spelled else []
    by_conversation = [each for each in questions if each.conversation_id.startswith(spelled)] if len(spelled) >= 4 else []
    for found in (by_id, by_start, by_conversation):
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(f"{make_visible(each.question.call_id)} of {each.conversation_id}" for each in found[:5])
            raise BadRequest(f"{make_visible(spelled)!r} may be one of {len(found)} questions: {listed}; add --conversation ID")
    raise BadRequest(
        f"no open question {make_visible(spelled)!r}: it may have been answered already; `understudy approvals` lists the open ones"
    )
