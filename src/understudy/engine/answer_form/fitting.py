"""Whether a turn's answer has the form that its call asked for, before the turn may end."""

from collections.abc import Awaitable, Callable

from understudy.engine.answer_form.schema import Misfit, Schema, check_answer
from understudy.engine.ledger import Work
from understudy.engine.tail import Tail
from understudy.errors import AnswerMisfit
from understudy.protocol.records import AnswerRejected


async def answer_fits(turn_id: str, work: Work, schema: Schema, tail: Tail, read_letters: Callable[[], Awaitable[None]]) -> bool:
    """False: the model was told what is wrong, and tries again. Raises `AnswerMisfit` when it had been told before."""
    checked = await check_answer(schema, tail.state.answer or "")
    if not isinstance(checked, Misfit):
        await read_letters()  # checking took a while
        return True
    if work.rejections:
        raise AnswerMisfit(f"the model's answer does not fit the output schema, also after it was told why: {checked.problem}")
    tail.append(AnswerRejected(checked.problem), turn=turn_id)
    return False
