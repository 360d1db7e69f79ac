"""Questions as requests to a client of the app server, and the meaning of its answers."""

import time

import msgspec

from understudy.engine.turn.approvals import CLIENT
from understudy.policy.mcp_tools import tool_message
from understudy.policy.question_text import budget_question, hook_message
from understudy.policy.questions import CommandQuestion, PatchQuestion, command_reason, patch_reason
from understudy.policy.user_input import read_answers
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import Response
from understudy.protocol.records import (
    Answers,
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    InputQuestion,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.servers.app_server.items import command_actions
from understudy.servers.app_server.wire import Json, milliseconds
from understudy.servers.questions import unusable
from understudy.text import make_visible, quote_command

COMMAND_DECISIONS = ["accept", "acceptForSession", "decline", "cancel"]


class _Given(msgspec.Struct):
    answers: tuple[str, ...] = ()


class _UserInput(msgspec.Struct):
    answers: dict[str, _Given]


_DECISIONS: dict[str, Decision] = {
    "accept": "approved",
    "acceptForSession": "approved_for_session",
    "decline": "denied",
    "cancel": "abort",
}


def question_request(question: Question, thread_id: str, turn_id: str, item_id: str, cwd: str, seconds: float) -> tuple[str, Json]:
    """The method and params that ask the question. `cwd`: files below it get relative paths. `seconds`: for an answer; 0:
    no limit.
    """
    about: Json = {"threadId": thread_id, "turnId": turn_id, "itemId": item_id, "startedAtMs": milliseconds(time.time())}
    match question:
        case CommandApprovalAsked():
            return "item/commandExecution/requestApproval", _about_command(question, about)
        case PatchApprovalAsked():
            reason = patch_reason(PatchQuestion.of(question, cwd)) or None
            return "item/fileChange/requestApproval", {**about, "reason": reason, "grantRoot": None}
        case ToolApprovalAsked():
            return _elicitation(question.server, tool_message(question), about)
        case HookApprovalAsked():
            return _elicitation("understudy", hook_message(question), about)
        case UserInputAsked(questions=questions):
            del about["startedAtMs"]
            left = round(seconds * 1000) if seconds else None
            asked = [_asked(each) for each in questions]
            return "item/tool/requestUserInput", {**about, "questions": asked, "isBlocking": True, "autoResolutionMs": left}
        case BudgetAsked():
            return _elicitation("understudy", budget_question(question), about)


def _asked(question: InputQuestion) -> Json:
    options = [{"label": option.label, "description": option.description} for option in question.options]
    told: Json = {"id": question.id, "header": question.header, "question": question.question}
    return {**told, "isOther": True, "isSecret": False, "options": options or None}


def _about_command(question: CommandApprovalAsked, about: Json) -> Json:
    return {
        "kind": "command",
        **about,
        "environmentId": "local",
        "reason": command_reason(CommandQuestion.of(question)) or None,
        "command": make_visible(quote_command(question.command)),
        "cwd": question.cwd,
        "commandActions": command_actions(question.command),
        "proposedExecpolicyAmendment": None,
        "availableDecisions": COMMAND_DECISIONS,
    }


def _elicitation(server: str, message: str, about: Json) -> tuple[str, Json]:
    """For questions without a form of their own in the protocol: an empty form to accept or decline."""
    form: Json = {"type": "object", "properties": {}}
    params: Json = {"mode": "form", "message": message, "requestedSchema": form, "_meta": None}
    return "mcpServer/elicitation/request", {**about, "serverName": server, **params}


def read_answer(response: Response) -> tuple[Decision, str]:
    """A client's decision and its source. An answer that cannot be understood is a no."""
    if (refusal := unusable(response)) is not None:
        return refusal
    match response.result:
        case {"decision": str(word)}:
            return _DECISIONS.get(word, "denied"), CLIENT
        case {"decision": {"acceptWithExecpolicyAmendment": _}}:
            return "approved", CLIENT  # only this once: rules belong to the user, in the configuration
        case {"action": "accept"}:
            return "approved", CLIENT
        case {"action": "cancel"}:
            return "abort", CLIENT
        case _:
            return "denied", CLIENT


def read_input(question: UserInputAsked, response: Response) -> tuple[Decision, str, Answers]:
    """The answers. An error or an empty result is no answer, and the model is told so."""
    if (refusal := unusable(response)) is not None:
        return *refusal, {}
    try:
        given = msgspec.convert(response.result, _UserInput).answers
        answers = read_answers(question, {name: each.answers for name, each in given.items()})
    except (msgspec.ValidationError, ValueError) as error:
        return "denied", f"the client's answer could not be used: {error}", {}
    return ("approved", CLIENT, answers) if answers else ("denied", CLIENT, {})
