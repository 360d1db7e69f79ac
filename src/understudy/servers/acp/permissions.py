"""Questions as `session/request_permission`, and what an editor's answers mean."""

from understudy.engine.approvals import CLIENT
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import Response
from understudy.protocol.records import BudgetAsked, HookApprovalAsked, Question
from understudy.servers.acp.content import Json
from understudy.servers.client_answers import NOT_READABLE, unusable

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


def options(question: Question) -> list[Json]:
    if isinstance(question, HookApprovalAsked):
        return [_ALLOW, _REJECT, _STOP]
    return [_ALLOW, _REJECT] if isinstance(question, BudgetAsked) else [_ALLOW, _ALWAYS, _REJECT, _STOP]


def read_answer(response: Response) -> tuple[Decision, str]:
    """What a person decided, and in whose name. Whatever cannot be understood is a no."""
    if (refusal := unusable(response)) is not None:
        return refusal
    match response.result:
        case {"outcome": {"outcome": "selected", "optionId": str(word)}} if word in _DECISIONS:
            return _DECISIONS[word], CLIENT
        case {"outcome": {"outcome": "cancelled"}}:
            return "abort", CLIENT
        case _:
            return "denied", NOT_READABLE
