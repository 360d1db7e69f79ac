"""Puts a proposed plan to the user, who accepts, changes or refuses it. The turn continues in the mode that they chose."""

from collections.abc import Awaitable, Callable

from understudy.engine.log.fold import State
from understudy.engine.planning.words import ACCEPTED, CHANGED, REFUSED, split_plan
from understudy.protocol.ids import new_uuid
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import PLAN_CALL, InputOption, InputQuestion, Overrides, Question, UserInputAsked, UserMessage
from understudy.tools.host import ApprovalAnswer

ACCEPT, REFUSE = "Carry it out", "Keep planning"
_CHOICE = InputQuestion(
    "plan",
    "Plan",
    "Carry out this plan?",
    (
        InputOption(ACCEPT, "plan mode ends, and the model begins"),
        InputOption(REFUSE, "plan mode stays on, and the model proposes another plan"),
    ),
)
_CHANGES = InputQuestion("changes", "Changes", "What should be different? (optional)")


async def review_plan(
    state: State, turn: str, ask: Callable[[Question], Awaitable[ApprovalAnswer]], record: Callable[[UserMessage], None]
) -> bool:
    """Whether the turn continues; if so, the user's word on the plan becomes a message to the model."""
    asked = _open_review(state) or _review_of(state.answer or "", turn, state.last_seq)
    if asked is None:
        return False
    answer = await ask(asked)
    if answer.decision == "denied" or not answer.answers:
        return False
    record(_message(" ".join(answer.answers.get("plan", ())), "\n".join(answer.answers.get("changes", ()))))
    return True


def _open_review(state: State) -> UserInputAsked | None:
    """A review that was open when the process that asked ended."""
    found = (each for each in state.questions.values() if isinstance(each, UserInputAsked) and each.call_id.startswith(PLAN_CALL))
    return next(found, None)


def waits_for_review(state: State) -> bool:
    return bool(state.questions) and _open_review(state) is not None


def _review_of(said: str, turn: str, number: int) -> UserInputAsked | None:
    plan, _ = split_plan(said)
    return None if not plan.strip() else UserInputAsked(f"{PLAN_CALL}{turn}-{number}", (_CHOICE, _CHANGES))


def _message(choice: str, changes: str) -> UserMessage:
    accepts = choice == ACCEPT
    words = (CHANGED if changes else ACCEPTED) if accepts else REFUSED
    said = [words, *([choice] if choice not in (ACCEPT, REFUSE, "") else []), *([changes] if changes else [])]
    message = Message("user", (InputText("\n\n".join(said)),))
    return UserMessage(new_uuid(), message, Overrides(mode="default") if accepts else None)
