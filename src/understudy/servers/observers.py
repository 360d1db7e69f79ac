"""Several observers of one engine, and the one that lets log lines name the conversation and the trace of their request."""

import logging
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from understudy.engine.observing import ModelTiming, Observer
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.servers.request_scope import REQUEST

logger = logging.getLogger(__name__)


class Observers:
    """A bug in one of them is told once, and that one observes no more: the work and the others go on."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)

    def called(self, method: str, params: bytes) -> None:
        for observer in self._observers:  # `_tell`, which costs more than what is told here
            try:
                observer.called(method, params)
            except Exception:
                self._leave_out(observer, "called")

    def reached(self, conversation_id: ConversationId) -> None:
        self._tell("reached", conversation_id)

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        self._tell("sent", conversation_id, message_id)

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        self._tell("recorded", conversation_id, entry)

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        self._tell("model_asked", conversation_id, turn, timing)

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        self._tell("model_answered", conversation_id, turn, timing)

    def _tell(self, what: str, *arguments: Any) -> None:
        for observer in self._observers:
            try:
                getattr(observer, what)(*arguments)
            except Exception:
                self._leave_out(observer, what)

    def _leave_out(self, observer: Observer, what: str) -> None:
        self._observers = [other for other in self._observers if other is not observer]
        logger.exception("bug in %s of %s, which observes no more", what, type(observer).__name__)


class NotesRequests:
    """The scope of a request learns which conversation and which trace it is about."""

    def called(self, method: str, params: bytes) -> None:
        request = REQUEST.get()
        if request is None or b'"traceparent"' not in params:
            return
        context = trace_context(params)
        if isinstance(parent := context.get("traceparent"), str):
            request.traceparent = parent
            state = context.get("tracestate")
            request.tracestate = state if isinstance(state, str) else ""

    def reached(self, conversation_id: ConversationId) -> None:
        if (request := REQUEST.get()) is not None:
            request.conversation = conversation_id

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        """Whoever sends has reached the conversation."""

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        """Log lines of a turn know it by their task."""

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        """Nothing to note."""

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        """Nothing to note."""


class _Params(msgspec.Struct, rename={"meta": "_meta"}):
    meta: Any = None


def trace_context(params: bytes) -> dict[str, Any]:
    """What `_meta` of a request says of its trace; whatever else is there is left to others."""
    try:
        meta = msgspec.json.decode(params, type=_Params).meta
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return cast(dict[str, Any], meta) if isinstance(meta, dict) else {}
