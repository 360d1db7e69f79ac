"""A question as a person is shown it: exactly what, why it is asked, what a yes lifts, and how it can be answered."""

from typing import Any

from understudy.engine.handle import Handle
from understudy.errors import AgentError
from understudy.policy.question_text import kind_of, question_text, what_yes_lifts, why_asked
from understudy.policy.quoting import quote_command
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.servers.modern_events import changes_on_wire
from understudy.servers.rest.shapes import Choice, OpenQuestion
from understudy.servers.rest.times import rfc3339

_DENY = Choice(decision="denied", label="Deny")
_STOP = Choice(decision="abort", label="Deny and stop the turn")
_ONCE = Choice(decision="approved", label="Approve once")


def choices_of(question: Question) -> tuple[Choice, ...]:
    match question:
        case CommandApprovalAsked(typed_at=str()):
            return _ONCE, _DENY, _STOP
        case CommandApprovalAsked():
            label = "Approve exactly this command, in this folder, for the rest of the conversation"
            return _ONCE, Choice(decision="approved_for_session", label=label), _DENY, _STOP
        case ToolApprovalAsked():
            label = "Approve every call of this tool for the rest of the conversation"
            return _ONCE, Choice(decision="approved_for_session", label=label), _DENY, _STOP
        case PatchApprovalAsked():
            return Choice(decision="approved", label="Approve"), _DENY, _STOP
        case HookApprovalAsked():
            return _ONCE, _DENY, _STOP
        case BudgetAsked():
            return Choice(decision="approved", label="Raise the limit"), Choice(decision="denied", label="Stop the turn")
        case UserInputAsked():
            return Choice(decision="denied", label="Do not answer"), Choice(decision="abort", label="Stop the turn")


def open_questions(handle: Handle) -> tuple[OpenQuestion, ...]:
    """Those of a conversation, the oldest first."""
    facts = handle.facts
    if not facts.questions:
        return ()
    seconds = seconds_to_answer(handle)
    return tuple(
        shown_question(question, facts.turn or "", facts.asked_at.get(call_id, 0.0), facts.cwd, seconds)
        for call_id, question in facts.questions.items()
    )


def seconds_to_answer(handle: Handle) -> float:
    """After which a question is answered by a no; 0: never."""
    try:
        return handle.setup().config.questions.timeout_seconds
    except AgentError:  # its folder is gone: the question can be seen, and answering says why not
        return 0.0


def shown_question(question: Question, turn: str, asked_at: float, cwd: str, seconds: float) -> OpenQuestion:
    """`seconds`: as `seconds_to_answer` has them."""
    return OpenQuestion(
        call_id=question.call_id,
        kind=kind_of(question),
        turn=turn,
        asked_at=rfc3339(asked_at),
        mark=asked_at,
        expires_at=rfc3339(asked_at + seconds) if seconds else None,
        text=question_text(question, cwd),
        why=why_asked(question),
        lifts=what_yes_lifts(question),
        choices=choices_of(question),
        **_exactly(question),
    )


def _exactly(question: Question) -> dict[str, Any]:
    match question:
        case CommandApprovalAsked(command=command, cwd=cwd):
            return {"command": command, "command_line": quote_command(command), "folder": cwd}
        case PatchApprovalAsked(changes=changes):
            return {"changes": changes_on_wire(changes)}
        case ToolApprovalAsked(server=server, tool=tool, arguments=arguments):
            return {"server": server, "tool": tool, "arguments": arguments or {}}
        case BudgetAsked(limit=limit, used=used, allowed=allowed, raised_to=raised_to):
            return {"limit": limit, "used": used, "allowed": allowed, "raised_to": raised_to}
        case HookApprovalAsked(hook=hook, tool=tool, shown=shown):
            return {"hook": hook, "tool": tool or None, "shown": shown}
        case UserInputAsked(questions=questions):
            return {"questions": questions}
