"""Questions as `session/request_permission`, and what an editor's answers mean."""

from typing import Any

from understudy.engine.approvals import CLIENT
from understudy.policy.budget_words import budget_question
from understudy.policy.mcp_tools import tool_message
from understudy.policy.questions import CommandQuestion, PatchQuestion, command_message, patch_message
from understudy.policy.visible import make_visible
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import Response
from understudy.protocol.records import BudgetAsked, CommandApprovalAsked, PatchApprovalAsked, Question, ToolApprovalAsked
from understudy.servers.acp.content import Json

NOT_READABLE = "the client's answer to the approval question could not be read"
_ALLOW = {"optionId": "approved", "name": "Allow", "kind": "allow_once"}
_ALWAYS = {"optionId": "approved_for_session", "name": "Allow for this session", "kind": "allow_always"}
_REJECT = {"optionId": "denied", "name": "Reject", "kind": "reject_once"}
_STOP = {"optionId": "abort", "name": "Reject and stop", "kind": "reject_once"}
_DECISIONS: dict[str, Decision] = {
    "approved": "approved",
    "approved_for_session": "approved_for_session",
    "denied": "denied",
    "abort": "abort",
}


def question_text(question: Question, cwd: str) -> str:
    """All that a person has to know to answer it."""
    match question:
        case CommandApprovalAsked():
            return command_message(CommandQuestion.of(question))
        case PatchApprovalAsked():
            return patch_message(PatchQuestion.of(question, cwd))
        case ToolApprovalAsked():
            return tool_message(question)
        case BudgetAsked():
            return budget_question(question)


def options(question: Question) -> list[Json]:
    return [_ALLOW, _REJECT] if isinstance(question, BudgetAsked) else [_ALLOW, _ALWAYS, _REJECT, _STOP]


def read_answer(response: Response) -> tuple[Decision, str]:
    """What a person decided, and in whose name. Whatever cannot be understood is a no."""
    if response.unreadable:
        return "denied", NOT_READABLE
    if response.failed:
        return "denied", f"the client answered the approval question with an error{_error_text(response.error)}"
    match response.result:
        case {"outcome": {"outcome": "selected", "optionId": str(word)}} if word in _DECISIONS:
            return _DECISIONS[word], CLIENT
        case {"outcome": {"outcome": "cancelled"}}:
            return "abort", CLIENT
        case _:
            return "denied", NOT_READABLE


def _error_text(error: Any) -> str:
    match error:
        case {"message": str(message)}:
            return f": {make_visible(' '.join(message[:200].split()))}"
        case _:
            return ""
