"""What operators of a server need beside its work: numbers, traces, and log lines that name their request.

Combines several observers of one engine, including one that adds the conversation and the trace to a request's log lines.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from understudy.config.serve import ServeSettings
from understudy.engine.engine import Engine
from understudy.engine.services.observing import ModelTiming, Observer
from understudy.engine.services.retention import Retention
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.servers.http.answers import Refusal, Send
from understudy.servers.http.asked import Asked
from understudy.servers.http.limiting import Limiter
from understudy.servers.http.measured import Application, Measured
from understudy.servers.http.metrics import CONTENT_TYPE, CountsLines, Metrics
from understudy.servers.http.peers import SocketUsers
from understudy.servers.http.principals import Principals
from understudy.servers.process.request_scope import REQUEST
from understudy.servers.process.telemetry_export import start_telemetry

logger = logging.getLogger(__name__)


class Observers:
    """If an observer has a bug, this is reported once and that observer is removed; the work and the other observers continue."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)

    def add(self, observer: Observer) -> None:
        self._observers.append(observer)

    def called(self, method: str, params: bytes) -> None:
        for observer in self._observers:  # not through `_tell`, which would cost more than the observers' own work
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
    """Tells the scope of a request its conversation and its trace."""

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
        """A caller who sends has reached the conversation."""

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        """Log lines of a turn get it from their task."""

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        """Ignored."""

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        """Ignored."""


class _Params(msgspec.Struct, rename={"meta": "_meta"}):
    meta: Any = None


def trace_context(params: bytes) -> dict[str, Any]:
    """The trace in a request's `_meta`; the rest of it is ignored."""
    try:
        meta = msgspec.json.decode(params, type=_Params).meta
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return cast(dict[str, Any], meta) if isinstance(meta, dict) else {}


RETENTION_SECONDS = 60.0  # between two checks for old or excess conversations


class Operations:
    def __init__(self, engine: Engine, settings: ServeSettings) -> None:
        """To be made before the engine has conversations: it is observed from here on."""
        self._metrics = Metrics(engine)
        self._open_to = settings.metrics
        self._lines = CountsLines(self._metrics.log_lines)
        logging.getLogger().addHandler(self._lines)
        self._telemetry = start_telemetry(os.environ)
        observers: tuple[Observer, ...] = (self._metrics, NotesRequests())
        self.observers = Observers(observers if self._telemetry is None else (*observers, self._telemetry.observer))
        engine.observer = self.observers
        engine.log.time_commits(self._metrics.commits.observe)
        self._retaining: asyncio.Task[None] | None = None
        if settings.keep_days or settings.max_store_mb:
            retention = Retention(engine, settings.keep_days, settings.max_store_mb, self._metrics.deleted.add)
            self._retaining = asyncio.get_running_loop().create_task(retention.run(RETENTION_SECONDS))

    def count_waiting(self, ask: Callable[[], Awaitable[int]]) -> None:
        """Count workspaces for which no worker has room, among servers that share a database."""
        self._metrics.ask_waiting = ask

    def around(self, app: Application, calls_running: Callable[[], int]) -> Measured:
        """The wrapped application, as it is served."""
        self._metrics.calls_running = calls_running
        return Measured(app, self._metrics, None if self._telemetry is None else self._telemetry.observer)

    async def show_metrics(self, asked: Asked, principals: Principals, users: SocketUsers, limiter: Limiter, send: Send) -> None:
        """The numbers hold no secrets, so any token will do, even one without rights."""
        if self._open_to == "off":
            raise Refusal(404, "there are no metrics here: `understudy.serve.metrics` is `off`")
        if asked.method not in ("GET", "HEAD"):
            raise Refusal(405, "metrics are read with GET", headers=((b"allow", b"GET, HEAD"),))
        name = None
        if self._open_to == "token":
            authorization = asked.header(b"authorization")
            await principals.learn(authorization)
            principal = principals.find(authorization) or users.find(asked)
            if principal is None:
                reason = "a token is needed: send it as `Authorization: Bearer TOKEN`"
                raise Refusal(401, reason, headers=((b"www-authenticate", principals.challenge(authorization)),))
            name = principal.name
            if (wait := limiter.enter(name)) is not None:
                raise Refusal(429, "too many requests with this token at once", headers=((b"retry-after", str(wait).encode()),))
        try:
            body = await self._metrics.collect()
            headers = [
                (b"content-type", CONTENT_TYPE),
                (b"content-length", str(len(body)).encode()),
                (b"cache-control", b"no-store"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if asked.method == "HEAD" else body})
        finally:
            if name is not None:
                limiter.leave(name)

    async def stop(self) -> None:
        """Called before the engine ends, so that nothing delays its last records."""
        if self._retaining is not None:
            self._retaining.cancel()
            await asyncio.wait([self._retaining])

    def close(self) -> None:
        logging.getLogger().removeHandler(self._lines)
        if self._telemetry is not None:
            self._telemetry.close()
