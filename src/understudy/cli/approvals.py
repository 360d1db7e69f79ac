"""`understudy approvals`: the questions of all conversations that wait for an answer, and answering them from any terminal."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from understudy.cli.answering import answer, put_to_person
from understudy.cli.parsing import wrong_usage
from understudy.cli.question_lines import as_json, print_question
from understudy.cli.stored import home
from understudy.cli.terminal import open_console
from understudy.cli.waiting import wait_for
from understudy.engine.engine import Engine
from understudy.engine.open_questions import OpenQuestion, open_questions
from understudy.errors import BadRequest
from understudy.policy.visible import make_visible
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
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
        answered = await answer(engine, found, _DECISIONS[options.answer], options.word or "", quiet=options.json)
    finally:
        await engine.close()
    if options.json:
        print(json.dumps({**answered.as_json(), "answer": options.answer}))
    return 0 if answered.outcome == "counts" else 1


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
