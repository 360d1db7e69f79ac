"""Approval questions as `elicitation/create`, and answers in every shape that clients send.

Also short keys of questions that any process understands, so that an answer may come to a process other than the one that asked. A
key names the conversation and marks the question among the open ones. It gives no rights: the answerer is held to their own.
"""

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

import msgspec

from understudy.engine.handle import Handle
from understudy.engine.turn.approvals import CLIENT
from understudy.policy.mcp_tools import tool_message, tool_question, tool_reason
from understudy.policy.question_text import budget_question, hook_message, hook_question, hook_reason
from understudy.policy.questions import (
    CommandQuestion,
    PatchQuestion,
    command_message,
    command_question,
    command_reason,
    patch_message,
    patch_question,
    patch_reason,
)
from understudy.policy.words import script_of
from understudy.protocol.choices import Decision
from understudy.protocol.ids import ConversationId, read_uuid, uuid_bytes, uuid_of
from understudy.protocol.jsonrpc import RequestId, Response
from understudy.protocol.ops import Decide
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp.input_forms import answer_on, check_input, input_params
from understudy.servers.mcp.peer import Peer, UnansweredQuestion
from understudy.servers.questions import unusable
from understudy.servers.sink import Sink
from understudy.servers.wire_events.modern_events import changes_on_wire as modern_changes
from understudy.servers.wire_events.presentation import presentation_of
from understudy.servers.wire_events.seed_events import changes_on_wire
from understudy.text import make_visible, quote_command

_PREFIX = "q."
_UUID_BYTES = 16
_MARK_BYTES = 16
_encode = msgspec.msgpack.Encoder().encode


class QuestionName(msgspec.Struct, frozen=True):
    conversation_id: ConversationId
    mark: bytes


class AskedQuestion(msgspec.Struct, frozen=True):
    question: Question
    turn: str
    asked_at: float


def digest_of(question: Question) -> bytes:
    return sha256(_encode(question)).digest()[:8]


def question_name(conversation_id: str, turn: str, question: Question, asked_at: float) -> str:
    raw = uuid_bytes(conversation_id) + _mark(turn, question.call_id, digest_of(question), asked_at)
    return _PREFIX + urlsafe_b64encode(raw).decode().rstrip("=")


def read_question_name(text: object) -> QuestionName | None:
    """None for text that cannot be a key of ours."""
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        return None
    body = text[len(_PREFIX) :]
    try:
        raw = urlsafe_b64decode(body.encode() + b"=" * (-len(body) % 4))
        if len(raw) == _UUID_BYTES + _MARK_BYTES:
            return QuestionName(ConversationId(uuid_of(raw[:_UUID_BYTES])), raw[_UUID_BYTES:])
        return _read_long(raw)
    except (ValueError, msgspec.MsgspecError):
        return None


def find_asked(handle: Handle, name: QuestionName) -> AskedQuestion | None:
    """The open question that the key means, and never an earlier one with the same words."""
    facts = handle.facts
    turn = facts.turn or ""
    for call_id, question in facts.questions.items():
        asked_at = facts.asked_at.get(call_id, 0.0)
        if name.conversation_id == handle.id and name.mark == _mark(turn, call_id, digest_of(question), asked_at):
            return AskedQuestion(question, turn, asked_at)
    return None


def _mark(turn: str, call_id: str, digest: bytes, asked_at: float) -> bytes:
    return sha256(_encode((turn, call_id, digest, asked_at))).digest()[:_MARK_BYTES]


class _LongName(msgspec.Struct, frozen=True, array_like=True):
    """The content of keys from earlier builds."""

    conversation_id: str
    turn: str
    call_id: str
    digest: bytes
    asked_at: float = 0.0


_decode_long = msgspec.msgpack.Decoder(_LongName).decode


def _read_long(raw: bytes) -> QuestionName | None:
    name = _decode_long(raw)
    if read_uuid(name.conversation_id) != name.conversation_id:
        return None
    return QuestionName(ConversationId(name.conversation_id), _mark(name.turn, name.call_id, name.digest, name.asked_at))


logger = logging.getLogger(__name__)

CANNOT_BE_ASKED = "the client cannot be asked for approval, because it did not declare the elicitation capability"
CLIENT_GONE = "the client has left and nobody else can be asked for approval"
MAY_NOT_APPROVE = "the caller does not have the right to approve, and nobody who has it watches"
MAY_NOT_RAISE = "the caller does not have the right `budget`, and nobody who has it watches"

CANCELLED = (
    "the client cancelled the question, which ends the turn. A client that asks nobody (`claude -p` is one) needs approval-policy "
    "never and a sandbox that is enough, a rule that allows this, or somebody who answers from another client"
)

_LONGEST_WORD = 10_000  # characters of the words sent with a no
_NO_FORM: dict[str, Any] = {"type": "object", "properties": {}}


def why_unasked(handle: Handle) -> str:
    """The right that is missing to a caller whose client could be asked."""
    return MAY_NOT_RAISE if handle.caller.may("approve", handle.facts.owner) else MAY_NOT_APPROVE


def _form(accepting: str = "Accepting without a choice approves this once.", **choices: str) -> dict[str, Any]:
    decision = {
        "type": "string",
        "title": "Decision",
        "description": accepting,
        "enum": list(choices),
        "enumNames": list(choices.values()),
    }
    return {"type": "object", "properties": {"decision": decision}}


_COMMAND_FORM = _form(
    approved="Approve once",
    approved_for_session="Approve exactly this command, in this folder, for the rest of the session",
    denied="Deny",
    abort="Deny and stop the turn",
)
_TOOL_FORM = _form(
    approved="Approve once",
    approved_for_session="Approve every call of this tool for the rest of the session",
    denied="Deny",
    abort="Deny and stop the turn",
)
_BUDGET_FORM = _form("Accepting without a choice raises the limit.", approved="Raise the limit", denied="Stop the turn")
_PATCH_FORM = _form(approved="Approve", denied="Deny", abort="Deny and stop the turn")  # a patch is never approved twice


def ask_peer(
    peer: Peer,
    sink: Sink,
    related_to: RequestId,
    handle: Handle,
    question: Question,
    turn: str,
    *,
    named_call: RequestId | None = None,
) -> None:
    """Put the question to the client, once per connection; its answer goes to the conversation whenever it comes.

    It is sent through `sink` as part of the request `related_to`, and names `named_call` if that is a different one.
    """
    key = (handle.id, turn, question.call_id)
    before = peer.asked.get(key)
    if (before is not None and before.question == question) or handle.open_question(question.call_id) != question:
        return
    if before is not None:
        peer.withdraw_question(*key)  # what would be approved has changed

    asked_at = handle.asked_at(question.call_id)

    def on_answer(response: Response) -> None:
        peer.asked.pop(key, None)
        if handle.open_question(question.call_id) not in (None, question):
            logger.info("the answer to %s is to a question that has changed meanwhile", question.call_id)
            return
        handle.submit_soon(decision_on(AskedQuestion(question, turn, asked_at), response, peer.calls_itself))

    params = question_params(question, peer, handle) | {
        "codex_mcp_tool_call_id": str(related_to if named_call is None else named_call),
        "codex_event_id": turn,
        "codex_call_id": question.call_id,
        "threadId": handle.id,
    }
    named = question_name(handle.id, turn, question, asked_at) if peer.names_questions else None
    asked = peer.request("elicitation/create", params, on_answer, sink, related_to, named)
    peer.asked[key] = UnansweredQuestion(asked, question)


def withdraw_closed(peer: Peer, handle: Handle) -> None:
    """Withdraw questions that were answered elsewhere while nobody here followed the conversation."""
    facts = handle.facts
    for name, turn, call_id in tuple(peer.asked):
        if name == handle.id and (turn != facts.turn or call_id not in facts.questions):
            peer.withdraw_question(handle.id, turn, call_id)


def question_params(question: Question, peer: Peer, handle: Handle) -> dict[str, Any]:
    match question:
        case CommandApprovalAsked():
            return _command_params(question, peer)
        case PatchApprovalAsked():
            return _patch_params(question, peer, handle)
        case ToolApprovalAsked():
            return _tool_params(question, peer)
        case HookApprovalAsked():
            return {
                "message": hook_message(question) if peer.wants_forms else hook_question(question),
                "requestedSchema": _PATCH_FORM if peer.wants_forms else _NO_FORM,
                "codex_elicitation": "hook",
                "codex_reason": hook_reason(question),
            }
        case UserInputAsked():
            return input_params(question)
        case BudgetAsked():
            return {
                "message": budget_question(question),
                "requestedSchema": _BUDGET_FORM if peer.wants_forms else _NO_FORM,
                "codex_elicitation": "budget",
            }


def _command_params(question: CommandApprovalAsked, peer: Peer) -> dict[str, Any]:
    asked = CommandQuestion.of(question)
    script = script_of(tuple(question.command)) or quote_command(question.command)
    params: dict[str, Any] = {
        "message": command_message(asked) if peer.wants_forms else command_question(question.command, question.cwd),
        "requestedSchema": _COMMAND_FORM if peer.wants_forms else _NO_FORM,
        "codex_elicitation": "exec-approval",
        "codex_command": question.command,
        "codex_cwd": question.cwd,
        "codex_parsed_cmd": [{"type": "unknown", "cmd": make_visible(script)}],
    }
    if reason := command_reason(asked):
        params["codex_reason"] = reason
    return params


def _patch_params(question: PatchApprovalAsked, peer: Peer, handle: Handle) -> dict[str, Any]:
    asked = PatchQuestion.of(question, handle.facts.cwd)
    params: dict[str, Any] = {
        "message": patch_message(asked) if peer.wants_forms else patch_question(question.reason),
        "requestedSchema": _PATCH_FORM if peer.wants_forms else _NO_FORM,
        "codex_elicitation": "patch-approval",
        "codex_changes": _changes(question, handle),
    }
    if reason := patch_reason(asked):
        params["codex_reason"] = reason
    return params


def _changes(question: PatchApprovalAsked, handle: Handle) -> dict[str, Any]:
    """The changes in the shapes of its events."""
    if presentation_of(handle).wire == "seed":
        return changes_on_wire(question.changes)
    return modern_changes(question.changes)


def _tool_params(question: ToolApprovalAsked, peer: Peer) -> dict[str, Any]:
    return {
        "message": tool_message(question) if peer.wants_forms else tool_question(question),
        "requestedSchema": _TOOL_FORM if peer.wants_forms else _NO_FORM,
        "codex_elicitation": "mcp-tool-approval",
        "codex_server": question.server,
        "codex_tool": question.tool,
        "codex_arguments": question.arguments or {},
        "codex_reason": tool_reason(question),
    }


def decision_on(asked: AskedQuestion, response: Response, client: str) -> Decide:
    """`client`: what the answering program calls itself."""
    if isinstance(asked.question, UserInputAsked):
        return answer_on(asked.question, asked.turn, asked.asked_at, response, client)
    decision, source = read_answer(response)
    word = read_word(response)
    return Decide(asked.question.call_id, decision, source, asked.turn, word=word, asked_at=asked.asked_at, client=client)


def read_answer(response: Response) -> tuple[Decision, str]:
    """A client's decision and its source. An answer that cannot be understood is a no."""
    if (refusal := unusable(response)) is not None:
        return refusal
    match response.result:
        case {"decision": decision}:
            return read_decision(decision), CLIENT
        case {"action": "accept", "content": {"decision": decision}}:
            return read_decision(decision), CLIENT
        case {"action": "accept", "content": content} if not isinstance(content, dict | None):
            return "denied", CLIENT  # a form was filled in, but its content is not understood
        case {"action": "accept"}:
            return "approved", CLIENT
        case {"action": "cancel"}:
            return "abort", CANCELLED
        case _:
            return "denied", CLIENT


def check_answer(question: Question, result: Any) -> None:
    """For answers in a request of the client's: an answer that cannot be understood is refused, and the question stays open. Raises
    `InvalidParams`.
    """
    if isinstance(question, UserInputAsked):
        check_input(question, result)
        return
    match result:
        case {"decision": decision} | {"action": "accept", "content": {"decision": decision}}:
            if not _denies(decision) and read_decision(decision) == "denied":
                raise InvalidParams(f"`{_shown(decision)}` is no decision: say approved, approved_for_session, denied or abort")
        case {"action": "accept", "content": content} if not isinstance(content, dict | None):
            raise InvalidParams("`content` of an answer should be an object with the fields of the form")
        case {"action": "accept" | "decline" | "cancel"}:
            pass
        case {"action": action}:
            raise InvalidParams(f"`{_shown(action)}` is no action of an answer: say accept, decline or cancel")
        case _:
            raise InvalidParams("an answer should be an object with `action`: accept, decline or cancel")


def _shown(value: object) -> str:
    return make_visible(value[:100] if isinstance(value, str) else msgspec.json.encode(value).decode()[:100])


def read_decision(decision: object) -> Decision:
    match decision:
        case "approved":
            return "approved"
        case "approved_for_session":
            return "approved_for_session"
        case "abort":
            return "abort"
        case "approved_mcp_policy_amendment":
            return "approved"  # only this once: rules belong to the user, in the configuration
        case {"network_policy_amendment": {"network_policy_amendment": {"action": "deny"}}}:
            return "denied"
        case dict() if "approved_execpolicy_amendment" in decision or "network_policy_amendment" in decision:
            return "approved"
        case _:
            return "denied"


def read_word(response: Response) -> str:
    """What a client says to the model with a no, in the form of the last codex releases: `{"denied": {"rejection": "why"}}`."""
    match None if response.failed or response.unreadable else response.result:
        case {"decision": {"denied": {"rejection": str(word)}}} | {
            "action": "accept",
            "content": {"decision": {"denied": {"rejection": str(word)}}},
        }:
            return word[:_LONGEST_WORD].strip()
        case _:
            return ""


def _denies(decision: object) -> bool:
    """Whether it is a known way to say no, and not just something unknown."""
    match decision:
        case "denied" | "timed_out":
            return True
        case {"network_policy_amendment": {"network_policy_amendment": {"action": "deny"}}}:
            return True
        case _:
            return isinstance(decision, dict) and "denied" in decision
