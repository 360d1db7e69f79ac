"""The form that a caller wants the answer in: a JSON schema, which is checked before use.

Before a turn may end, its answer is checked against the schema of its call.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from understudy.engine.log.ledger import Work
from understudy.engine.log.tail import Tail
from understudy.errors import AgentError, AnswerMisfit
from understudy.models.mending import is_deep
from understudy.protocol.records import AnswerRejected
from understudy.sandbox.starting import run_worker

logger = logging.getLogger(__name__)

Schema = dict[str, Any]

MOST_BYTES = 256 * 1024  # largest schema; providers accept far less
MOST_LEVELS = 64
MOST_ANSWER = 8 * 1024 * 1024  # characters
WALL_SECONDS = 20.0  # a worker has a lower limit of processor time; this one is for a busy machine
TOO_LONG = "checking it takes too long"

_FENCE = "```"
_OPENED = re.compile(rf"{_FENCE}[A-Za-z]*[ \t]*\n")
_encode = msgspec.json.Encoder().encode


class CannotCheck(AgentError):
    """An answer could not be checked against its schema, through no fault of the model."""


class Fits(msgspec.Struct, frozen=True):
    """The answer has the requested form."""

    value: Any


class Misfit(msgspec.Struct, frozen=True):
    """The answer lacks the requested form; `problem` says why, for the model and the caller."""

    problem: str


def shape_problem(schema: object) -> str | None:
    """What is obviously wrong with a schema. `schema_problem` examines its content."""
    if not isinstance(schema, dict):
        return "a JSON schema is an object"
    if is_deep(cast(object, schema), MOST_LEVELS - 1):
        return f"a schema may have at most {MOST_LEVELS} levels"
    try:
        size = len(_encode(schema))
    except (TypeError, ValueError, UnicodeError):
        return "the schema cannot be written as JSON"
    return f"a schema may have at most {MOST_BYTES // 1024} KB" if size > MOST_BYTES else None


async def schema_problem(schema: object) -> str | None:
    """What is wrong with a schema; None if it can be used. Nothing is fetched for it."""
    problem = shape_problem(schema)
    if problem is not None:
        return problem
    problems = await _ask_worker({"schema": schema})
    return TOO_LONG if problems is None else "; ".join(problems) or None


async def check_answer(schema: Schema, text: str) -> Fits | Misfit:
    """Raises `CannotCheck`."""
    if len(text) > MOST_ANSWER:
        return Misfit(f"the answer has more than {MOST_ANSWER} characters")
    try:
        value = parse_answer(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Misfit(f"the answer is not JSON: {error}")
    if is_deep(value, MOST_LEVELS * 4 - 1):
        return Misfit("the answer is nested too deeply")
    problems = await _ask_worker({"schema": schema, "answer": value})
    if problems is None:
        raise CannotCheck(f"the answer could not be checked against the output schema: {TOO_LONG}")
    return Misfit("; ".join(problems)) if problems else Fits(value)


def parse_answer(text: str) -> Any:
    """Raises msgspec's error for text that is not JSON."""
    return msgspec.json.decode(without_fence(text))


def without_fence(text: str) -> str:
    """Remove backticks: models that are not held to a form like to put them around JSON."""
    plain = text.strip()
    opened = _OPENED.match(plain)
    if opened is None or not plain.endswith(_FENCE) or opened.end() > len(plain) - len(_FENCE):
        return text
    return plain[opened.end() : -len(_FENCE)].rstrip(" \t").removesuffix("\n")


async def _ask_worker(job: dict[str, Any]) -> list[str] | None:
    """The problems that the worker found; None if it was killed for using too much time or memory."""
    finished = await run_worker("understudy.engine.turn.answer_form_worker", _encode(job), WALL_SECONDS)
    if finished is None:
        return None
    if finished.code == 0:
        return msgspec.json.decode(finished.out, type=list[str])
    if finished.code < 0 or "MemoryError" in finished.err:
        return None
    logger.error("the schema worker failed: %s", finished.err)
    raise CannotCheck("the output schema could not be checked: the worker for it failed; see the server's log")


async def answer_fits(turn_id: str, work: Work, schema: Schema, tail: Tail, read_letters: Callable[[], Awaitable[None]]) -> bool:
    """False: the model was told what is wrong, and tries again. Raises `AnswerMisfit` if it had been told before."""
    checked = await check_answer(schema, tail.state.answer or "")
    if not isinstance(checked, Misfit):
        await read_letters()  # the check took a while
        return True
    if work.rejections:
        raise AnswerMisfit(f"the model's answer does not fit the output schema, also after it was told why: {checked.problem}")
    tail.append(AnswerRejected(checked.problem), turn=turn_id)
    return False
