"""Traces and metrics for OpenTelemetry: a request, its turn, and the turn's requests to models and calls of tools.

This uses only OpenTelemetry's API; `telemetry_export.py` sends the results to a collector. Names follow its conventions for
generative AI and MCP. Nothing that people, models or tools say is included.
"""

from collections import OrderedDict

import msgspec
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from understudy import __version__
from understudy.engine.services.observing import ModelTiming
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    Entry,
    HookApprovalAsked,
    ItemReceived,
    PatchApprovalAsked,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    TurnEnded,
    TurnStarted,
    UserInputAsked,
    UserMessage,
)
from understudy.servers.process.request_scope import REQUEST, RequestScope

AGENT = "understudy"
MOST_WAITING = 10_000  # messages whose turns have not begun
MOST_NAMES = 100  # names of models and tools with metrics of their own
OTHER = "_OTHER"
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
SECOND_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_PROVIDERS = {"azure": "azure.ai.openai", "gemini": "gcp.gemini"}
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
_ROUTES = ("/mcp", "/v1/conversations", "/v1/changes", "/v1/me", "/openapi.json", "/page")

Attributes = dict[str, str | int | float | bool]


class Telemetry:
    """An `Observer` that is also told of each request (`TracesRequests`)."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer(AGENT, __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._senders: OrderedDict[str, Context] = OrderedDict()  # the request that sent a message, until its turn begins
        self._parents: dict[str, Context] = {}  # parent span of the turn that is about to begin, by conversation
        self._turns: dict[tuple[str, str], _TurnSpan] = {}
        self._chats: dict[ModelTiming, Span] = {}  # current requests to models
        self._names = _Bounded()
        meter = metrics.get_meter(AGENT, __version__)

        def histogram(name: str, unit: str, about: str, buckets: tuple[float, ...] = SECOND_BUCKETS) -> metrics.Histogram:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=buckets)

        self._usage = histogram("gen_ai.client.token.usage", "{token}", "Tokens of an answer.", TOKEN_BUCKETS)
        self._duration = histogram("gen_ai.client.operation.duration", "s", "How long a model took.")
        self._first = histogram("gen_ai.client.operation.time_to_first_chunk", "s", "Until the first piece of an answer.")
        self._agent = histogram("gen_ai.invoke_agent.duration", "s", "How long a turn took.")
        self._tool = histogram("gen_ai.execute_tool.duration", "s", "How long a call of a tool took.")
        self._served = histogram("mcp.server.operation.duration", "s", "How long a request of an MCP client took.")

    # -- requests

    def called(self, method: str, params: bytes) -> None:
        """The span begins: the method is now known, and `_meta` may have named a parent."""
        request = REQUEST.get()
        if request is None or request.span is not None:
            return
        tool = self._names.of(_tool_name(params)) if method == "tools/call" else None
        request.operation = self._names.of(method)
        attributes: Attributes = {"mcp.method.name": request.operation, "network.protocol.name": "http"}
        if tool:
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        if request.session is not None:
            attributes["mcp.session.id"] = request.session
        self._begin_request(request, f"{request.operation} {tool}" if tool else request.operation, attributes)

    def _begin_request(self, request: RequestScope, name: str, more: Attributes) -> Span:
        carrier = {"traceparent": request.traceparent, "tracestate": request.tracestate}
        parent = self._propagator.extract(carrier, Context())
        attributes: Attributes = {"http.request.method": request.method, "url.path": request.path, **more}
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, attributes, start_time=request.began_ns)
        request.span = span
        if span.get_span_context().is_valid:
            request.own_trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        return span

    def _span_of(self, request: RequestScope) -> Span:
        if isinstance(request.span, Span):
            return request.span
        route = next((route for route in _ROUTES if request.path == route or request.path.startswith(f"{route}/")), "")
        return self._begin_request(request, f"{request.method} {route}".strip(), {"http.route": route} if route else {})

    def end(self, request: RequestScope, status: int | None, seconds: float) -> None:
        if request.span is None and request.path in _QUIET:
            return
        span = self._span_of(request)
        if request.caller is not None:
            span.set_attribute("enduser.id", request.caller)
        if request.conversation is not None:
            span.set_attribute("gen_ai.conversation.id", request.conversation)
        failed: Attributes = {}
        if status is not None:
            span.set_attribute("http.response.status_code", status)
            if status >= 400:
                failed = {"error.type": str(status)}
        if status is None or status >= 500:
            span.set_status(Status(StatusCode.ERROR, "the client left" if status is None else None))
        span.set_attributes(failed)
        span.end()
        if request.operation:
            self._served.record(seconds, {"mcp.method.name": request.operation, **failed})

    # -- as an observer

    def reached(self, conversation_id: ConversationId) -> None:
        """The scope of the request stores it."""

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        if (request := REQUEST.get()) is not None:
            self._senders[message_id] = trace.set_span_in_context(self._span_of(request), Context())
            if len(self._senders) > MOST_WAITING:
                self._senders.popitem(last=False)

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        match entry.record:
            case UserMessage(message_id=message_id):
                if (sender := self._senders.pop(message_id, None)) is not None:
                    self._take_message(conversation_id, entry.turn, sender)
            case TurnStarted(turn_id=turn_id):
                self._turn(conversation_id, turn_id, entry.at)
            case ItemReceived(item=FunctionCall(call_id=call_id, name=name)):
                self._turn(conversation_id, entry.turn, entry.at).begin_call(call_id, name, entry.at)
            case CommandApprovalAsked(call_id=call_id) | PatchApprovalAsked(call_id=call_id) | ToolApprovalAsked(call_id=call_id):
                self._note(conversation_id, entry, call_id, "understudy.question_asked", {})
            case BudgetAsked(call_id=call_id) | HookApprovalAsked(call_id=call_id) | UserInputAsked(call_id=call_id):
                self._note(conversation_id, entry, call_id, "understudy.question_asked", {})
            case ApprovalDecided(call_id=call_id, decision=decision, effective=True):
                self._note(conversation_id, entry, call_id, "understudy.question_answered", {"understudy.decision": decision})
            case ToolAnswered(output=output, success=success):
                if (turn := self._turns.get((conversation_id, entry.turn))) is not None:
                    self._end_call(turn, output.call_id, entry.at, success=success)
            case TokensCounted() as counted:
                self._count(conversation_id, entry.turn, counted)
            case TurnEnded() as ended:
                if (turn := self._turns.pop((conversation_id, entry.turn), None)) is not None:
                    self._end_turn(turn, ended, entry.at)
            case _:
                pass

    def _take_message(self, conversation_id: str, turn: str, sender: Context) -> None:
        running = self._turns.get((conversation_id, turn))
        if running is None:
            self._parents[conversation_id] = sender  # `TurnStarted` follows
        else:
            running.span.add_link(trace.get_current_span(sender).get_span_context())

    def _turn(self, conversation_id: str, turn: str, at: float) -> "_TurnSpan":
        """Also the span of a turn that began in another process and is resumed here."""
        known = self._turns.get((conversation_id, turn))
        if known is None:
            parent = self._parents.pop(conversation_id, None) or Context()
            known = self._turns[conversation_id, turn] = _TurnSpan(self._tracer, parent, conversation_id, turn, at)
        return known

    def _note(self, conversation_id: str, entry: Entry, call_id: str, name: str, attributes: Attributes) -> None:
        turn = self._turn(conversation_id, entry.turn, entry.at)
        (turn.calls[call_id].span if call_id in turn.calls else turn.span).add_event(name, attributes, _ns(entry.at))

    def _end_call(self, turn: "_TurnSpan", call_id: str, at: float, *, success: bool) -> None:
        call = turn.calls.pop(call_id, None)
        if call is None:
            return
        failed: Attributes = {} if success else {"error.type": "tool_error"}
        call.span.set_attributes(failed)
        if not success:
            call.span.set_status(Status(StatusCode.ERROR))
        call.span.end(_ns(at))
        self._tool.record(max(at - call.at, 0.0), {"gen_ai.tool.name": self._names.of(call.name), **failed})

    def _end_turn(self, turn: "_TurnSpan", ended: TurnEnded, at: float) -> None:
        for call_id in tuple(turn.calls):
            self._end_call(turn, call_id, at, success=False)
        failed: Attributes = {"error.type": "turn_failed"} if ended.reason == "failed" else {}
        turn.span.set_attributes({"understudy.turn.outcome": ended.reason, **failed})
        if failed:
            turn.span.set_status(Status(StatusCode.ERROR))
        turn.span.end(_ns(at))
        self._agent.record(max(at - turn.at, 0.0), {"gen_ai.agent.name": AGENT, **failed})

    # -- models

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        self._chats[timing] = self._turn(conversation_id, turn, timing.began_at).ask(timing)

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        asked: Attributes = {**_asked(timing), "gen_ai.request.model": self._names.of(timing.model)}
        failed: Attributes = {} if timing.error is None else {"error.type": timing.error}
        self._duration.record(timing.seconds, {**asked, **failed})
        if timing.first_seconds is not None:
            self._first.record(timing.first_seconds, asked)
        if (known := self._turns.get((conversation_id, turn))) is not None:  # an interrupted turn is over before its request is
            known.chat = None
        span = self._chats.pop(timing, None)
        if span is None:
            return
        span.set_attributes(failed)
        if timing.error is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(timing.began_at + timing.seconds))

    def _count(self, conversation_id: str, turn: str, counted: TokensCounted) -> None:
        known = self._turns.get((conversation_id, turn))
        if known is None:
            return
        usage = counted.usage
        model = str(known.asked.get("gen_ai.request.model", ""))
        labels: Attributes = {**known.asked, "gen_ai.request.model": self._names.of(model)}
        self._usage.record(usage.input_tokens, {**labels, "gen_ai.token.type": "input"})
        self._usage.record(usage.output_tokens, {**labels, "gen_ai.token.type": "output"})
        if known.chat is not None:
            known.chat.set_attributes({
                "gen_ai.usage.input_tokens": usage.input_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens or 0,
            })  # fmt: skip

    def close(self) -> None:
        """End whatever is still open, so that it is sent."""
        for turn in self._turns.values():
            for call in turn.calls.values():
                call.span.end()
            turn.span.end()
        for span in self._chats.values():
            span.end()
        self._turns.clear()
        self._chats.clear()


class _CallSpan:
    __slots__ = ("at", "name", "span")

    def __init__(self, span: Span, name: str, at: float) -> None:
        self.span = span
        self.name = name
        self.at = at


class _TurnSpan:
    def __init__(self, tracer: trace.Tracer, parent: Context, conversation_id: str, turn: str, at: float) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "gen_ai.agent.version": __version__,
            "gen_ai.conversation.id": conversation_id,
            "understudy.turn.id": turn,
        }
        self._tracer = tracer
        self.at = at
        self.span = tracer.start_span(f"invoke_agent {AGENT}", parent, SpanKind.INTERNAL, attributes, start_time=_ns(at))
        self._inside = trace.set_span_in_context(self.span, Context())
        self._conversation_id = conversation_id
        self.calls: dict[str, _CallSpan] = {}
        self.chat: Span | None = None  # the current request to a model
        self.asked: Attributes = {}

    def ask(self, timing: ModelTiming) -> Span:
        self.asked = _asked(timing)
        self.span.set_attributes({name: value for name, value in self.asked.items() if name != "gen_ai.operation.name"})
        attributes: Attributes = {**self.asked, "gen_ai.conversation.id": self._conversation_id}
        name = f"chat {timing.model}"
        self.chat = self._tracer.start_span(name, self._inside, SpanKind.CLIENT, attributes, start_time=_ns(timing.began_at))
        return self.chat

    def begin_call(self, call_id: str, name: str, at: float) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        }
        span = self._tracer.start_span(f"execute_tool {name}", self._inside, attributes=attributes, start_time=_ns(at))
        self.calls[call_id] = _CallSpan(span, name, at)


class _Bounded:
    """Names with metrics of their own: the first hundred, and one name for all others."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= MOST_NAMES:
                return OTHER
            self._known.add(name)
        return name


def _asked(timing: ModelTiming) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(timing.provider, timing.provider),
        "gen_ai.request.model": timing.model,
    }


class _Params(msgspec.Struct):
    name: str = ""


def _tool_name(params: bytes) -> str:
    try:
        return msgspec.json.decode(params, type=_Params).name[:100]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _ns(at: float) -> int:
    return int(at * 1_000_000_000)
