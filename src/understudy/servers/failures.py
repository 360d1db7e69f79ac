"""Where an exception becomes a wire error or a failed tool result. Handlers raise; nothing else builds these."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from understudy.errors import AgentError, BadRequest, report_bug
from understudy.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RequestId, error_line

logger = logging.getLogger(__name__)

AGENT_ERROR = -32000


class MethodNotFound(Exception):
    def __init__(self, method: str) -> None:
        super().__init__(f"method not found: {method}")
        self.method = method


class InvalidRequest(Exception):
    """The message is well-formed, but not allowed now."""


class ProtocolError(Exception):
    """An error that has a code of its own in the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class InvalidParams(Exception):
    """The parameters of a method are invalid."""


def unknown_kind(where: str, block: Mapping[str, object], known: Sequence[str]) -> InvalidParams:
    """For a part of a prompt whose `type` is not among the `known` ones, or which is not a valid part of its type."""
    match block.get("type"):
        case str(kind) if kind in known:
            return InvalidParams(f"Invalid params: `{where}` of type `{kind}` lacks a member, or one has the wrong type")
        case str(kind):
            listed = ", ".join(f"`{word}`" for word in known)
            return InvalidParams(f"Invalid params: `{where}` has the type `{kind[:100]}`, which is none of {listed}")
        case _:
            return InvalidParams(f"Invalid params: `{where}` has no `type`")


class RpcFault(msgspec.Struct, frozen=True):
    """The content of a JSON-RPC error, in any protocol."""

    code: int
    message: str
    data: Any = None


def to_rpc_error(request_id: RequestId | None, error: BaseException) -> bytes:
    fault = to_rpc_fault(request_id, error)
    return error_line(request_id, fault.code, fault.message, fault.data)


def to_rpc_fault(request_id: RequestId | None, error: BaseException) -> RpcFault:
    match error:
        case MethodNotFound(method=method):
            return RpcFault(METHOD_NOT_FOUND, str(error), {"method": method})
        case ProtocolError(code=code, data=data):
            return RpcFault(code, str(error), data)
        case InvalidRequest():
            return RpcFault(-32600, str(error))
        case InvalidParams():
            return RpcFault(INVALID_PARAMS, str(error))
        case msgspec.ValidationError() | msgspec.DecodeError():
            return RpcFault(INVALID_PARAMS, f"Invalid params: {error}")
        case BadRequest():
            return RpcFault(INVALID_PARAMS, str(error), {"kind": error.kind})
        case AgentError():
            return RpcFault(AGENT_ERROR, str(error), {"kind": error.kind})
        case _:
            return RpcFault(INTERNAL_ERROR, report_bug(logger, error, "in handling request %r", request_id))


def to_text(error: BaseException) -> str:
    return str(error) if isinstance(error, AgentError) else report_bug(logger, error, "in a tool call")


def failed_result(text: str, thread_id: str | None = None, notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    if thread_id is None:
        return {"content": [{"text": text, "type": "text"}], "isError": True}
    return {**answer_result(text, thread_id, notes, **more), "isError": True, "error": text}


def answer_result(text: str, thread_id: str, notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Programs read the first block or `structuredContent`; `notes` are for models that only get text. A blank line begins them,
    because some programs join all blocks into one text.
    """
    content = [{"text": text, "type": "text"}]
    if notes:
        content.append({"text": "\n\n" + "\n".join(notes), "type": "text"})
    return {"content": content, "structuredContent": {"threadId": thread_id, "content": text, **more}}


def thread_note(thread_id: str) -> str:
    return f"threadId: {thread_id} (to continue this session, call codex-reply with it)"
