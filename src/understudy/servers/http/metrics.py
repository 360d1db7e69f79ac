"""The numbers of `/metrics`: the work of this process. They contain no conversation, path, prompt or caller's name.

Counters, gauges and histograms, in the text format that Prometheus reads.

A family has a limited number of label sets: further ones are counted under `other`, so that nobody can fill the memory of the
server or of its readers with invented names.
"""

import logging
import os
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from understudy.engine.engine import Engine
from understudy.engine.services.observing import ModelTiming
from understudy.errors import StoreError
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
)
from understudy.tools.registry import TOOLS

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
MOST_LABEL_SETS = 100
OTHER = "other"

Labels = tuple[str, ...]


class MetricFamily:
    """`names`: the names of its labels."""

    kind = "untyped"

    def __init__(self, name: str, about: str, names: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.names = tuple(names)

    def text(self) -> Iterator[str]:
        yield f"# HELP {self.name} {_escape_help(self.about)}\n"
        yield f"# TYPE {self.name} {self.kind}\n"
        yield from self.samples()

    def samples(self) -> Iterator[str]:
        raise NotImplementedError

    def line(self, labels: Labels, value: float, suffix: str = "", more: str = "") -> str:
        pairs = [f'{name}="{_escape(label)}"' for name, label in zip(self.names, labels, strict=True)]
        inside = ",".join([*pairs, *([more] if more else [])])
        return f"{self.name}{suffix}{{{inside}}} {_number(value)}\n" if inside else f"{self.name}{suffix} {_number(value)}\n"


class Counter(MetricFamily):
    kind = "counter"

    def __init__(self, name: str, about: str, names: Sequence[str] = ()) -> None:
        super().__init__(name, about, names)
        self._values: dict[Labels, float] = {} if names else {(): 0.0}

    def add(self, *labels: str, by: float = 1) -> None:
        values = self._values
        known = labels if labels in values else _bounded(labels, values)
        values[known] = values.get(known, 0) + by

    def samples(self) -> Iterator[str]:
        for labels, value in self._values.items():
            yield self.line(labels, value)


class Gauge(MetricFamily):
    """A gauge whose value is set when metrics are read."""

    kind = "gauge"

    def __init__(self, name: str, about: str) -> None:
        super().__init__(name, about)
        self.value: float | None = None  # None: unknown, and left out

    def samples(self) -> Iterator[str]:
        if self.value is not None:
            yield self.line((), self.value)


class SetCounter(Gauge):
    """A counter whose value is read from elsewhere."""

    kind = "counter"


class _Spread:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Histogram(MetricFamily):
    kind = "histogram"

    def __init__(self, name: str, about: str, buckets: Sequence[float], names: Sequence[str] = ()) -> None:
        super().__init__(name, about, names)
        self._buckets = tuple(buckets)
        self._spreads: dict[Labels, _Spread] = {} if names else {(): _Spread(len(buckets))}

    def observe(self, value: float, *labels: str) -> None:
        known = _bounded(labels, self._spreads)
        spread = self._spreads.get(known)
        if spread is None:
            spread = self._spreads[known] = _Spread(len(self._buckets))
        spread.counts[bisect_left(self._buckets, value)] += 1
        spread.total += value

    def samples(self) -> Iterator[str]:
        for labels, spread in self._spreads.items():
            below = 0
            for bound, count in zip((*self._buckets, float("inf")), spread.counts, strict=True):
                below += count
                yield self.line(labels, below, "_bucket", f'le="{_number(bound)}"')
            yield self.line(labels, spread.total, "_sum")
            yield self.line(labels, below, "_count")


def page(families: Iterable[MetricFamily]) -> bytes:
    return "".join(text for family in families for text in family.text()).encode()


def _bounded(labels: Labels, known: "dict[Labels, float] | dict[Labels, _Spread]") -> Labels:
    return labels if labels in known or len(known) < MOST_LABEL_SETS else (OTHER,) * len(labels)


def _escape(label: str) -> str:
    """Text from outside may have lone surrogates, which have no UTF-8."""
    plain = label.encode(errors="replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


# From OpenTelemetry's conventions for `gen_ai.client.*`.
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
SECOND_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
COMMIT_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
MOST_OPEN_CALLS = 10_000
_METHODS = frozenset({"GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH"})
_KNOWN = frozenset({
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "logging/setLevel",
    "server/discover",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
})  # fmt: skip
_QUESTIONS: dict[type, str] = {
    CommandApprovalAsked: "command",
    PatchApprovalAsked: "patch",
    ToolApprovalAsked: "tool",
    BudgetAsked: "budget",
    HookApprovalAsked: "hook",
    UserInputAsked: "user_input",
}
_TOOLS = frozenset(name for entry in TOOLS for name in entry.names)
_CHAT = "chat"


class Metrics:
    """An `Observer` that counts. `collect` gathers the rest when metrics are read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.calls_running: Callable[[], int] = lambda: 0
        self._names: dict[tuple[str, str], str] = {}  # tool names of unanswered calls, by conversation and call
        self._models: dict[str, tuple[str, str]] = {}  # the model and provider of the last answer, by conversation and turn
        self.requests = Counter("understudy_http_requests_total", "Requests that were answered.", ("method", "status"))
        self._asked_for = Counter("understudy_mcp_requests_total", "Requests of MCP clients, by what they ask for.", ("method",))
        self.streams = Gauge("understudy_http_streams_open", "Event streams that clients have open.")
        self._calls = Gauge("understudy_calls_running", "Calls of tools by MCP clients that are not answered yet.")
        self._turns_running = Gauge("understudy_turns_running", "Turns that run in this process.")
        self._turns = Counter("understudy_turns_total", "Turns that ended.", ("outcome",))
        self._turns_begun = Counter("understudy_turns_started_total", "Turns that began.")
        self._tool_calls = Counter("understudy_tool_calls_total", "Calls of tools by models.", ("tool", "outcome"))
        self._open = Gauge(
            "understudy_questions_open", "Questions to a person that wait for an answer, of conversations in memory."
        )
        self._asked = Counter("understudy_questions_total", "Questions to a person.", ("kind",))
        self._decided = Counter("understudy_decisions_total", "Answers to questions that counted.", ("decision", "given_by"))
        self._viewers = Gauge("understudy_viewers", "Those who follow a conversation: calls, streams.")
        self._in_memory = Gauge("understudy_conversations_in_memory", "Conversations that this process holds in memory.")
        self._stored = Gauge("understudy_conversations", "Conversations in the store.")
        self._waiting = Gauge(
            "understudy_workspaces_waiting", "New workspaces for which no worker has room, among the servers of one database."
        )
        self.ask_waiting: Callable[[], Awaitable[int]] | None = None
        self._tokens = Counter("understudy_tokens_total", "Tokens that models counted.", ("direction",))
        self._cost = Counter("understudy_cost_usd_total", "Cost of the answers whose price is known, in US dollars.")
        self._store_bytes = Gauge("understudy_store_bytes", "Size of the store's files.")
        self.commits = Histogram("understudy_store_commit_seconds", "How long a commit took.", COMMIT_BUCKETS)
        self.deleted = Counter("understudy_conversations_deleted_total", "Conversations that retention deleted.", ("reason",))
        self.log_lines = Counter("understudy_log_lines_total", "Lines of the log, whether written or not.", ("level",))
        labels = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
        self._usage = Histogram("gen_ai_client_token_usage", "Tokens of an answer.", TOKEN_BUCKETS, (*labels, "gen_ai_token_type"))
        self._duration = Histogram(
            "gen_ai_client_operation_duration_seconds", "How long a model took.", SECOND_BUCKETS, (*labels, "error_type")
        )
        self._first = Histogram(
            "gen_ai_client_operation_time_to_first_chunk_seconds", "Until the first piece of an answer.", SECOND_BUCKETS, labels
        )
        self._memory = Gauge("process_resident_memory_bytes", "Memory of the server itself.")
        self._started = Gauge("process_start_time_seconds", "When the server began, in seconds since 1970.")
        self._started.value = time.time()
        self._cpu = SetCounter("process_cpu_seconds_total", "Time that the server itself used.")
        self._files = Gauge("process_open_fds", "Files and connections that are open.")
        self.streams.value = 0
        for outcome in ("completed", "failed", "interrupted"):
            self._turns.add(outcome, by=0)
        for level in ("WARNING", "ERROR", "CRITICAL"):
            self.log_lines.add(level.lower(), by=0)

    # -- as an observer

    def called(self, method: str, params: bytes) -> None:
        self._asked_for.add(method if method in _KNOWN else OTHER)

    def reached(self, conversation_id: ConversationId) -> None:
        """Nothing is counted by conversation."""

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        """Counted when its turn begins."""

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        match entry.record:
            case ItemReceived(item=FunctionCall(call_id=call_id, name=name)):
                if len(self._names) >= MOST_OPEN_CALLS:
                    self._names.clear()  # their answers are counted under `other`
                self._names[conversation_id, call_id] = name
            case ToolAnswered(output=output, success=success):
                name = self._names.pop((conversation_id, output.call_id), OTHER)
                self._tool_calls.add(_tool_label(name), "success" if success else "failure")
            case TokensCounted(usage=usage, cost_usd=cost):
                self._tokens.add("input", by=usage.input_tokens)
                self._tokens.add("output", by=usage.output_tokens)
                if usage.cached_input_tokens:
                    self._tokens.add("cached_input", by=usage.cached_input_tokens)
                self._cost.add(by=cost or 0.0)
                model, provider = self._models.get(conversation_id, ("", ""))
                self._usage.observe(usage.input_tokens, _CHAT, provider, model, "input")
                self._usage.observe(usage.output_tokens, _CHAT, provider, model, "output")
            case TurnStarted():
                self._turns_begun.add()
            case TurnEnded(reason=reason):
                self._turns.add(reason)
                self._models.pop(conversation_id, None)
            case (
                CommandApprovalAsked()
                | PatchApprovalAsked()
                | ToolApprovalAsked()
                | BudgetAsked()
                | HookApprovalAsked()
                | UserInputAsked()
            ) as question:
                self._asked.add(_QUESTIONS[type(question)])
            case ApprovalDecided(decision=decision, source=source, effective=True):
                self._decided.add(decision, "caller" if source == "client" else "rule")
            case _:
                pass

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        self._models[conversation_id] = timing.model, timing.provider

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None:
        labels = (_CHAT, timing.provider, timing.model)
        self._duration.observe(timing.seconds, *labels, timing.error or "")
        if timing.first_seconds is not None:
            self._first.observe(timing.first_seconds, *labels)

    # -- for readers

    def count_request(self, method: str, status: int) -> None:
        self.requests.add(method if method in _METHODS else OTHER, str(status))

    async def collect(self) -> bytes:
        in_hand = self._engine.in_hand()
        self._calls.value = self.calls_running()
        self._turns_running.value, self._open.value = in_hand.turns, in_hand.questions
        self._viewers.value, self._in_memory.value = in_hand.viewers, in_hand.conversations
        try:
            self._store_bytes.value = await self._engine.log.size()
            self._stored.value = await self._engine.log.count()
            self._waiting.value = None if self.ask_waiting is None else await self.ask_waiting()
        except (StoreError, OSError):
            self._store_bytes.value = self._stored.value = self._waiting.value = None  # /readyz reports it
        self._memory.value = _resident_bytes()
        self._files.value = _open_files()
        times = os.times()
        self._cpu.value = times.user + times.system
        return page(value for value in vars(self).values() if isinstance(value, Counter | Gauge | Histogram))


class CountsLines(logging.Handler):
    """Counts the log's lines from this level on, by level."""

    def __init__(self, counter: Counter) -> None:
        super().__init__(logging.WARNING)
        self._counter = counter

    def emit(self, record: logging.LogRecord) -> None:
        self._counter.add(record.levelname.lower())


def _tool_label(name: str) -> str:
    """Models make names up, and other servers have their own."""
    if name in _TOOLS:
        return name
    return "mcp" if name.startswith("mcp__") else OTHER


def _resident_bytes() -> float | None:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return None


def _open_files() -> float | None:
    try:
        return len(os.listdir("/proc/self/fd")) - 1
    except OSError:
        return None
