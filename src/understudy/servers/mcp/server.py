"""MCP for one client: routes what it says, and keeps the promise that every call gets exactly one answer."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from understudy.engine.conversation import Conversation
from understudy.engine.engine import Engine
from understudy.errors import AgentError, ConfigError, InvalidArguments, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.jsonrpc import (
    INVALID_PARAMS,
    LARGEST_ID,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    error_line,
    read_line,
    result_line,
    too_long,
)
from understudy.protocol.uuids import read_uuid
from understudy.servers.failures import InvalidRequest, MethodNotFound, failed_result, to_rpc_error, to_tool_result
from understudy.servers.lines import MOST_BYTES, OverlongLine
from understudy.servers.mcp import arguments, catalogue
from understudy.servers.mcp.calls import CallReader
from understudy.servers.mcp.hello import Hello, negotiate, server_result
from understudy.servers.mcp.peer import Peer, default_methods
from understudy.servers.mcp.presentation import presentation_from
from understudy.servers.sink import Sink

if TYPE_CHECKING:
    from understudy.servers.mcp.conversations import ConversationTools
    from understudy.servers.mcp.progress import Progress

logger = logging.getLogger(__name__)


class _ClientInfo(msgspec.Struct):
    name: str
    version: str


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: _ClientInfo


_Id = str | Annotated[int, msgspec.Meta(ge=-LARGEST_ID - 1, le=LARGEST_ID)]  # what can be written back


class _CallMeta(msgspec.Struct, rename="camel"):
    progress_token: _Id | None = None


class _CallParams(msgspec.Struct, rename={"meta": "_meta"}):
    name: str
    arguments: Any = None
    meta: _CallMeta | None = None


class _CancelledParams(msgspec.Struct, rename="camel"):
    request_id: _Id
    reason: str | None = None


class McpServer:
    def __init__(self, engine: Engine, sink: Sink, hello: Hello | None = None) -> None:
        self._engine = engine
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._peer = Peer()
        self._calls: dict[RequestId, CallReader] = {}  # ids are typed: 7 and "7" are two
        self._methods: dict[str, Callable[[Request], Any]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": catalogue.TOOLS},
            "logging/setLevel": lambda _: {},
        }
        self._tools: dict[str, Callable[[Request, _CallParams], None]] = {"codex": self._codex, "codex-reply": self._codex_reply}
        self._conversation_tools: ConversationTools | None = None
        if hello is not None:
            self._meet(hello)

    # -- lines

    def receive(self, line: bytes) -> None:
        """Handle one line. Never raises: what goes wrong is answered, or logged where there is nobody to answer."""
        message = read_line(line) if type(line) is not OverlongLine else too_long(line, MOST_BYTES)
        match message:
            case Request():
                self._request(message)
            case Response() | Notification():
                try:
                    self._peer.answer(message) if isinstance(message, Response) else self._notification(message)
                except Exception:
                    logger.exception("bug in handling %r", message)
            case Malformed(code=code, reason=reason, id=request_id, answers=answers):
                logger.info("malformed message: %s", reason)
                if answers is None or not self._peer.answer_unreadable(answers):
                    self._sink.send(error_line(request_id, code, reason), request_id)

    def _request(self, request: Request) -> None:
        if self._conversation_tools is not None:
            self._conversation_tools.forget(request.id)
        try:
            if request.method == "tools/call":
                self._call_tool(request)
                return
            handler = self._methods.get(request.method)
            logger.debug("request %.100r: %.100r", request.id, request.method)
            if handler is None:
                raise MethodNotFound(request.method)
            self._sink.send(result_line(request.id, handler(request)), request.id)
        except Exception as error:  # the one boundary: whatever it is, the client gets an answer
            self._sink.send(to_rpc_error(request.id, error), request.id)

    def _notification(self, notification: Notification) -> None:
        if notification.method != "notifications/cancelled":
            logger.debug("notification %s is not acted upon", notification.method)
            return
        try:
            cancelled = msgspec.json.decode(notification.params or b"{}", type=_CancelledParams)
        except msgspec.MsgspecError as error:
            logger.info("malformed cancellation: %s", error)
            return
        self._cancel(cancelled.request_id)

    def close(self) -> None:
        """The server ends: whoever still waits is told so."""
        for call in tuple(self._calls.values()):
            text = "the server ended before the turn did; continue with codex-reply, which asks an open question again"
            call.answer(failed_result(text, call.conversation.id))

    # -- methods

    def _initialize(self, request: Request) -> Any:
        if self._peer.initialized:
            raise InvalidRequest("initialize called more than once")
        params = msgspec.json.decode(request.params or b"{}", type=_InitializeParams)
        who, can = params.client_info, params.capabilities
        self._meet(Hello(params.protocol_version, "elicitation" in can, who.name, who.version, extended="extensions" in can))
        return server_result(self._peer.version)

    def _meet(self, hello: Hello) -> None:
        self._peer.initialized = True
        self._peer.version = negotiate(hello.version)
        self._peer.can_be_asked = hello.can_be_asked
        self._peer.methods = default_methods(hello, self._peer.version)
        asked = "can be asked" if hello.can_be_asked else "cannot be asked"
        logger.info("client %.100r %.100r, MCP %s, %s", hello.name, hello.name_version, self._peer.version, asked)

    def _call_tool(self, request: Request) -> None:
        try:
            params = msgspec.json.decode(request.params or b"{}", type=_CallParams)
        except msgspec.MsgspecError as error:
            self._sink.send(error_line(request.id, INVALID_PARAMS, f"Invalid params of tools/call: {error}"), request.id)
            return
        logger.debug("request %.100r: tools/call %.100r", request.id, params.name)
        tool = self._tools.get(params.name)
        if tool is None and params.name in catalogue.CONVERSATION_TOOLS:
            self._conversations().handlers[params.name](request.id, params.arguments)
            return
        if tool is None:
            meant = arguments.did_you_mean(params.name, (tool["name"] for tool in catalogue.TOOLS))
            self._sink.send(result_line(request.id, failed_result(f"Unknown tool '{params.name}'{meant}")), request.id)
            return
        try:
            tool(request, params)
        except Exception as error:  # the one boundary for calls: a result, with `isError`
            self._sink.send(result_line(request.id, to_tool_result(error)), request.id)

    def _conversations(self) -> "ConversationTools":
        if self._conversation_tools is None:
            from understudy.servers.mcp.conversations import ConversationTools  # most clients never ask for them

            self._conversation_tools = ConversationTools(self._engine, self._peer, self._sink)
        return self._conversation_tools

    def _cancel(self, request_id: RequestId) -> None:
        call = self._calls.get(request_id)
        if call is None:
            if self._conversation_tools is not None and self._conversation_tools.cancel(request_id):
                return
            logger.info("cancellation of %r, which is not running", request_id)
        elif call.began_turn:
            if call.conversation.cancel(call.message_id, call.turn or ""):
                return
            if call.turn:
                logger.info("cancellation of %r, whose turn is over", request_id)
            else:
                call.answer_failure("the call was cancelled; its message is read in the next turn")
        else:
            call.answer_failure("the call was cancelled; the turn it had joined goes on")

    # -- the two tools

    def _codex(self, request: Request, params: _CallParams) -> None:
        if params.arguments is None:
            raise InvalidArguments("Missing arguments for codex tool-call; the `prompt` field is required.")
        values = self._read(arguments.CODEX, params.arguments)
        try:
            conversation = self._engine.create(arguments.overrides_from(values))
        except ConfigError as error:
            raise ConfigError(f"Failed to load Codex configuration from overrides: {error}") from error
        except AgentError as error:
            raise type(error)(f"Failed to start Codex session: {error}") from error
        self._begin(request, params, conversation, values["prompt"])

    def _codex_reply(self, request: Request, params: _CallParams) -> None:
        if params.arguments is None:
            raise InvalidArguments(
                "Missing arguments for codex-reply tool-call; the `session_id` and `prompt` fields are required."
            )
        values = self._read(arguments.CODEX_REPLY, params.arguments)
        named = next((values[name] for name in ("threadId", "conversationId", "sessionId") if name in values), None)
        for name, value in (("sessionId", named), ("prompt", values.get("prompt"))):
            if value is None:
                hint = "Give the session as `threadId`, and the message as `prompt`."
                raise InvalidArguments(f"Failed to parse configuration for Codex tool: missing field `{name}`\n{hint}")
        try:
            conversation_id = ConversationId(read_uuid(str(named)))
        except ValueError as error:
            raise InvalidArguments(f"Failed to parse session_id: {error}\n{arguments.WHAT_AN_ID_IS}") from None
        try:
            conversation = self._engine.find(conversation_id, to_send=True)
        except UnknownConversation:
            raise UnknownConversation(f"Session not found for session_id: {conversation_id}\n{arguments.WHERE_IDS_ARE}") from None
        self._begin(request, params, conversation, values["prompt"])

    @staticmethod
    def _read(members: arguments.Arguments, given: object) -> dict[str, Any]:
        try:
            return members.read(given)
        except InvalidArguments as error:
            raise InvalidArguments(f"Failed to parse configuration for Codex tool: {error}") from None

    def _begin(self, request: Request, params: _CallParams, conversation: Conversation, prompt: str) -> None:
        token = params.meta.progress_token if params.meta else None
        call = CallReader(
            self._peer,
            self._sink,
            conversation,
            request.id,
            presentation=presentation_from(conversation.setup()),
            progress=self._progress(token, request.id) if token is not None else None,
            on_answered=lambda request_id: self._forget(request_id, call),
        )
        self._calls[request.id] = call
        call.attach()
        try:
            sent = self._engine.send(conversation, Message("user", (InputText(prompt),)))
        except UnknownConversation:
            call.answer(failed_result(f"Session not found for session_id: {conversation.id}"))
            return
        except AgentError as error:
            call.fail(error)
            return
        call.follow(sent)
        if sent.held:
            conversation.when_accepted(lambda error: None if error is None else call.fail(error))

    def _progress(self, token: RequestId, request_id: RequestId) -> "Progress":
        from understudy.servers.mcp.progress import Progress  # only for those who ask for it

        return Progress(token, self._sink, request_id, self._loop)

    def _forget(self, request_id: RequestId, call: CallReader) -> None:
        if self._calls.get(request_id) is call:
            del self._calls[request_id]
