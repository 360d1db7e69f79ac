"""`understudy approvals`: the questions of all conversations that wait for an answer, and answering them from any terminal."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from understudy.cli.answering import answer, decision_on, put_to_person
from understudy.cli.parsing import wrong_usage
from understudy.cli.question_lines import as_json, print_question
from understudy.cli.stored import home
from understudy.cli.terminal import open_console
from understudy.cli.waiting import wait_for
from understudy.engine.approvals import CLIENT
from understudy.engine.engine import Engine
from understudy.engine.open_questions import OpenQuestion, open_questions
from understudy.errors import BadRequest
from understudy.policy.user_input import chosen_by, read_answers
from understudy.policy.visible import make_visible
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import Answers, UserInputAsked
from understudy.servers.log_lines import log_warnings
from understudy.servers.memory import hide_memory
from understudy.store.opening import store_exists

NONE = "No question waits for an answer."
MOST_CHARACTERS = 2_000  # of a word to the model

_DECISIONS: dict[str, Decision] = {"yes": "approved", "session": "approved_for_session", "no": "denied", "abort": "abort"}


def run(options: Namespace) -> int:
    log_warnings()
    hide_memory()  # a turn that a crash left waiting goes on here, and its commands may run outside the sandbox
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
    """One after the other, to whoever sits at the terminal."""
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
    """Raises `BadRequest` where it does not fit to what is asked."""
    if not isinstance(found.question, UserInputAsked):
        if options.answer in _DECISIONS:
            return decision_on(found, _DECISIONS[options.answer], options.word or "")
        raise BadRequest(f"that question takes one of {', '.join(_DECISIONS)}, not {make_visible(options.answer[:100])!r}")
    if options.answer in ("no", "abort") and not options.more:
        return decision_on(found, _DECISIONS[options.answer], options.word or "")
    answers = _read_words(found.question, (options.answer, *options.more))
    return Answer(found.question.call_id, "approved", CLIENT, found.turn, asked_at=found.asked_at, answers=answers)


def _read_words(asked: UserInputAsked, words: Sequence[str]) -> Answers:
    """`ID=ANSWER` for each question, or an answer alone where one is asked. Raises `BadRequest`."""
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
    """By call id, by its first characters, or by the conversation's id where that has one question. Raises `BadRequest`."""
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
