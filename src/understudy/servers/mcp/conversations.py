"""The conversation tools: for user interfaces that attach at any moment, catch up, follow live, leave and come back."""

import asyncio
import base64
import mimetypes
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from understudy.engine.approvals import CLIENT
from understudy.engine.conversation import Conversation, Sent
from understudy.engine.engine import Engine
from understudy.engine.stopping import Stopping
from understudy.errors import AgentError, ConfigError, InvalidArguments, UnknownConversation
from understudy.protocol.choices import DECISIONS
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import ContentPart, InputImage, InputText, Message
from understudy.protocol.jsonrpc import RequestId, result_line
from understudy.protocol.uuids import read_uuid
from understudy.servers.failures import to_tool_result
from understudy.servers.mcp.arguments import (
    SESSION_MEMBERS,
    WHAT_AN_ID_IS,
    WHERE_IDS_ARE,
    Arguments,
    count,
    one_in,
    overrides_from,
    sequence,
    text,
    whole_number,
)
from understudy.servers.mcp.asking import read_decision
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.presentation import presentation_of
from understudy.servers.mcp.streams import Snapshots, StreamReader
from understudy.servers.sink import Sink
from understudy.store.log import Listed

DEFAULT_PAGE = 50
LARGEST_PAGE = 200
LARGEST_IMAGE = 20 * 1024 * 1024

_encode = msgspec.json.Encoder().encode

_OVERRIDES = {name.replace("-", "_"): check for name, check in SESSION_MEMBERS.items()}
CREATE = Arguments("an object", {"prompt": text, **_OVERRIDES})
SEND = Arguments(
    "an object",
    {"conversation_id": text, "content": sequence, "parent_message_id": text, **_OVERRIDES},
    ("conversation_id", "content"),
)
STREAM = Arguments("an object", {"conversation_id": text, "after": whole_number}, ("conversation_id",))
LIST = Arguments("an object", {"limit": count, "cursor": text})
ONE = Arguments("an object", {"conversation_id": text}, ("conversation_id",))
APPROVE = Arguments(
    "an object",
    {"conversation_id": text, "call_id": text, "decision": one_in(DECISIONS)},
    ("conversation_id", "call_id", "decision"),
)


class _Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    text: str


class _Image(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    image_url: str


class _LocalImage(msgspec.Struct, frozen=True, tag="local_image", tag_field="type"):
    path: str


_decode_content = msgspec.json.Decoder(list[_Text | _Image | _LocalImage]).decode


class Outcome(msgspec.Struct, frozen=True):
    result: dict[str, Any]
    meta: dict[str, Any] | None = None
    once_kept: Conversation | None = None  # whose log must hold what is answered for


Failed = Callable[[str], dict[str, Any]]


class ConversationTools:
    """Handlers by tool name. Each answers its own call, at once."""

    def __init__(self, engine: Engine, peer: Peer, sink: Sink) -> None:
        self._engine = engine
        self._peer = peer
        self._sink = sink
        self._snapshots = Snapshots(sink)
        self._streams: dict[str, StreamReader] = {}  # one a conversation
        self._created_by: dict[str, RequestId] = {}
        self._sends: dict[RequestId, tuple[Conversation, Sent]] = {}  # messages that began a turn, while it runs
        self._tasks: set[asyncio.Task[None]] = set()
        self.handlers: dict[str, Callable[[RequestId, Any], None]] = {
            "conversationCreate": self._guarded(self._create, lambda reason: {"message": reason}),
            "conversationSendMessage": self._guarded(self._send, _status_error),
            "conversationStream": self._stream,
            "conversationsList": self._guarded(self._list, lambda reason: {"message": reason}),
            "conversationInterrupt": self._interrupt,
            "conversationApprove": self._guarded(self._approve, _status_error),
            "conversationDelete": self._delete,
        }

    def cancel(self, request_id: RequestId) -> bool:
        """`notifications/cancelled` for one of ours. False when it is none."""
        for conversation_id, stream in self._streams.items():
            if stream.request_id == request_id and type(stream.request_id) is type(request_id):
                stream.detach()
                del self._streams[conversation_id]
                return True
        sent = self._sends.pop(request_id, None)
        if sent is None:
            return False
        conversation, message = sent
        conversation.cancel(message.message_id, message.turn)
        return True

    def forget(self, request_id: RequestId) -> None:
        """A new request has this id: a cancellation of it means nothing older."""
        self._sends.pop(request_id, None)

    # -- answering

    def _guarded(self, handler: Callable[[RequestId, Any], "Outcome"], failed: Failed) -> Callable[[RequestId, Any], None]:
        """Answer with what the handler returns; what it raises becomes an error in the shape of that tool."""

        def handle(request_id: RequestId, arguments: Any) -> None:
            def answer(error: AgentError | None) -> None:
                if error is None:
                    self._answer(request_id, outcome.result, meta=outcome.meta)
                else:
                    self._answer(request_id, failed(str(error)), is_error=True)

            try:
                outcome = handler(request_id, {} if arguments is None else arguments)
            except AgentError as error:
                self._answer(request_id, failed(str(error)), is_error=True)
            else:
                if outcome.once_kept is None:
                    answer(None)
                else:
                    outcome.once_kept.when_accepted(answer)

        return handle

    def _answer(self, request_id: RequestId, result: Any, *, is_error: bool = False, meta: Any = None) -> None:
        wrapped: dict[str, Any] = {
            "content": [{"text": _encode(result).decode(), "type": "text"}],
            "isError": is_error,
            "structuredContent": result,
        }
        if meta is not None:
            wrapped["_meta"] = meta
        self._sink.send(result_line(request_id, wrapped), request_id)

    # -- tools

    def _create(self, request_id: RequestId, arguments: Any) -> Outcome:
        values = CREATE.read(arguments)
        prompt = values.get("prompt", "")
        try:
            conversation = self._engine.create(overrides_from(values))
        except ConfigError as error:
            raise ConfigError(f"Failed to load config: {error}") from error
        self._created_by[conversation.id] = request_id
        if prompt:
            self._engine.send(conversation, Message("user", (InputText(prompt),)))
        result = {"conversation_id": conversation.id, "model": conversation.state.model}
        return Outcome(result, once_kept=conversation)

    def _send(self, request_id: RequestId, arguments: Any) -> Outcome:
        values = SEND.read(arguments)
        if not values["content"]:
            raise InvalidArguments("No content items provided")
        conversation = self._find(values["conversation_id"])
        parent = values.get("parent_message_id")
        if parent is not None:
            parent = _uuid(parent, "parent_message_id")
        overrides = overrides_from(values)
        message = Message("user", _content(values["content"], conversation.state.overrides.cwd))
        chosen = overrides if _chooses(values) else None
        try:
            sent = self._engine.send(conversation, message, chosen, parent)
        except UnknownConversation:
            raise UnknownConversation(f"Session does not exist: {conversation.id}") from None
        if not sent.joined:
            over = [key for key, (known, one) in self._sends.items() if not one.held and known.state.turn != one.turn]
            for other in over:
                del self._sends[other]
            self._sends[request_id] = (conversation, sent)
        return Outcome({"status": "ok"}, {"messageId": sent.message_id, "joined": sent.joined}, conversation)

    def _stream(self, request_id: RequestId, arguments: Any) -> None:
        try:
            values = STREAM.read({} if arguments is None else arguments)
            conversation = self._find(values["conversation_id"])
        except AgentError as error:
            result = {"content": [{"text": str(error), "type": "text"}], "isError": True}
            self._sink.send(result_line(request_id, result), request_id)
            return
        before = self._streams.pop(conversation.id, None)
        if before is not None:
            before.disconnect("New stream() took over")
        self._answer(request_id, {})
        stream = StreamReader(
            self._peer,
            self._sink,
            conversation,
            request_id,
            call=self._created_by.get(conversation.id),
            presentation=presentation_of(conversation),
            after=values.get("after"),
        )
        self._streams[conversation.id] = stream
        self._snapshots.add(stream)
        self._engine.watch()

    def _list(self, _: RequestId, arguments: Any) -> Outcome:
        values = LIST.read(arguments)
        limit = min(values.get("limit", DEFAULT_PAGE), LARGEST_PAGE)
        page = self._engine.list(limit, values.get("cursor"))
        result: dict[str, Any] = {"conversations": [self._row(listed) for listed in page.rows]}
        if page.next_cursor is not None:
            result["next_cursor"] = page.next_cursor
        return Outcome(result)

    def _row(self, listed: Listed) -> dict[str, Any]:
        summary = listed.summary
        return {
            "conversation_id": listed.conversation_id,
            "title": summary.title,
            "created_at": _rfc3339(listed.created_at),
            "updated_at": _rfc3339(listed.updated_at),
            "status": self._engine.status_of(listed),
            "message_count": summary.message_count,
            "cwd": summary.cwd,
            "model": summary.model,
            "pending": list(summary.pending),
        }

    def _interrupt(self, request_id: RequestId, arguments: Any) -> None:
        """The turn is told to end at once; the answer comes when it is over."""
        try:
            stopping = Stopping(self._find(ONE.read({} if arguments is None else arguments)["conversation_id"]))
        except AgentError as error:
            self._answer(request_id, _status_error(str(error)), is_error=True)
            return
        self._answer_later(request_id, self._wait_for_end(stopping))

    async def _wait_for_end(self, stopping: Stopping) -> dict[str, Any]:
        stopped = await stopping.wait()
        if stopped.status != "requested":
            return {"status": "ok", "interrupted": stopped.status == "over"}
        holder = "another process" if stopped.holder is None else f"process {stopped.holder}"
        message = f"the turn runs in {holder}, which was told to end it and has not done so yet"
        return {"status": "requested", "interrupted": False, "held_by": holder, "message": message}

    def _approve(self, _: RequestId, arguments: Any) -> Outcome:
        values = APPROVE.read(arguments)
        conversation = self._find(values["conversation_id"])
        call_id = values["call_id"]
        if call_id not in conversation.state.questions:
            pending = ", ".join(conversation.state.questions) or "none"
            raise InvalidArguments(f"no open question with call_id `{call_id}`; open ones: {pending}")
        conversation.decide(call_id, read_decision(values["decision"]), CLIENT)
        return Outcome({"status": "ok"}, once_kept=conversation)

    def _delete(self, request_id: RequestId, arguments: Any) -> None:
        self._answer_later(request_id, self._deleted(arguments))

    async def _deleted(self, arguments: Any) -> dict[str, Any]:
        conversation = self._find(ONE.read({} if arguments is None else arguments)["conversation_id"])
        await self._engine.delete(conversation)
        stream = self._streams.pop(conversation.id, None)
        if stream is not None:
            stream.disconnect("the conversation was deleted")
        return {"status": "ok"}

    def _answer_later(self, request_id: RequestId, result: Coroutine[Any, Any, dict[str, Any]]) -> None:
        """Once it has come to an end, whichever: every request is answered."""

        async def answer() -> None:
            try:
                self._answer(request_id, await result)
            except AgentError as error:
                self._answer(request_id, _status_error(str(error)), is_error=True)
            except Exception as error:
                self._sink.send(result_line(request_id, to_tool_result(error)), request_id)

        task = asyncio.get_running_loop().create_task(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _find(self, spelled: str) -> Conversation:
        conversation_id = ConversationId(_uuid(spelled, "conversation_id"))
        try:
            return self._engine.find(conversation_id)
        except UnknownConversation:
            raise UnknownConversation(f"Session does not exist: {conversation_id}\n{WHERE_IDS_ARE}") from None


def _status_error(reason: str) -> dict[str, Any]:
    return {"status": "error", "message": reason}


def _uuid(spelled: str, name: str) -> str:
    try:
        return read_uuid(spelled)
    except ValueError as error:
        message_id = "It is the `messageId` in `_meta` of the result of sending a message."
        hint = WHAT_AN_ID_IS if name == "conversation_id" else message_id
        raise InvalidArguments(f"Failed to parse {name}: {error}\n{hint}") from None


def _chooses(values: dict[str, Any]) -> bool:
    return any(name in values for name in _OVERRIDES)


def _content(items: list[Any], cwd: str | None) -> tuple[ContentPart, ...]:
    try:
        decoded = _decode_content(_encode(items))
    except msgspec.ValidationError as error:
        hint = "Items are {type: text, text}, {type: image, image_url} or {type: local_image, path}."
        raise InvalidArguments(f"content: {error}\n{hint}") from None
    return tuple(_part(item, cwd or "") for item in decoded)


def _part(item: _Text | _Image | _LocalImage, cwd: str) -> ContentPart:
    match item:
        case _Text(text=words):
            return InputText(words)
        case _Image(image_url=url):
            return InputImage(url)
        case _LocalImage(path=path):
            return InputImage(_data_url(Path(os.path.join(cwd, path))))


def _data_url(path: Path) -> str:
    """Read now, so that the log has what the model is shown. Raises `InvalidArguments` that names the file."""
    try:
        if not path.is_file():
            raise InvalidArguments(f"local_image {path} cannot be read: no such file")
        if path.stat().st_size > LARGEST_IMAGE:
            raise InvalidArguments(f"local_image {path} is larger than {LARGEST_IMAGE // 1024 // 1024} MB")
        data = path.read_bytes()
    except OSError as error:
        raise InvalidArguments(f"local_image {path} cannot be read: {error.strerror}") from None
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
