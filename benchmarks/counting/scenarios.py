"""What is counted: each scenario done a few times on a warm server, and what one of them cost."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.client import BenchError, Client
from benchmarks.counting.counted import Counted, fresh_folder
from benchmarks.counting.trace import SystemCalls, Trace
from benchmarks.measures.crowds import open_sessions
from benchmarks.model.process import Model

Found = dict[str, dict[str, float]]  # counts by scenario

CROWD = 50
RECORDS, RECORDS_A_TURN = 10_000, 6
CONVERSATIONS = 1_000
FLOOD_MB = 10
_PAGE = 200
_PATIENCE = 60.0
_CANCELLED_SIGN = b'"agent_message_delta"'


class Stage:
    """A warm server, with a session to talk in."""

    def __init__(self, counted: Counted) -> None:
        self.client: Client = counted.client
        self.session = ""
        self.many: list[str] = []
        self.long = ""  # the conversation with many records

    def say(self, directive: str, expect: bytes = b"done") -> None:
        self.client.turn(self.client.reply(self.session, directive), _PATIENCE, expect)

    def open(self) -> str:
        return self.client.begin_session()

    def crowd(self) -> None:
        """All at once, which is counted for each."""
        if not self.many:
            self.many = open_sessions(self.client, CROWD)[0]
        for request in [self.client.reply(session, "say") for session in self.many]:
            self.client.turn(request, _PATIENCE)

    def cancel(self) -> None:
        seen: list[bytes] = []
        self.client.watch = lambda lines, at: seen.extend(line for line in lines if _CANCELLED_SIGN in line[:400])
        request = self.client.reply(self.session, "hang")
        if not self.client.pump(lambda: bool(seen), _PATIENCE):
            raise BenchError("the turn to be cancelled did not get under way")
        self.client.watch = None
        self.client.cancel(request)
        self.client.wait(request, _PATIENCE)

    def list_all(self) -> None:
        """Page by page."""
        rows, more = 0, dict[str, Any](limit=_PAGE)
        while rows < CONVERSATIONS:
            page = self._page(**more)
            rows += len(page["conversations"])
            more["cursor"] = page.get("next_cursor")
            if more["cursor"] is None and rows < CONVERSATIONS:
                raise BenchError(f"the list has {rows} conversations")

    def _page(self, **arguments: Any) -> dict[str, Any]:
        result = self.client.wait(self.client.call("conversationsList", **arguments), _PATIENCE).message.get("result", {})
        return result.get("structuredContent") or json.loads(result["content"][0]["text"])

    def catch_up(self) -> None:
        if not self.long:
            rows = self._page(limit=_PAGE)["conversations"]
            self.long = max(rows, key=lambda row: row["message_count"])["conversation_id"]
        seen: list[bytes] = []
        self.client.watch = lambda lines, at: seen.extend(line for line in lines if b"notifications/initial_state" in line[:80])
        request = self.client.call("conversationStream", conversation_id=self.long, after=0)
        if not self.client.pump(lambda: bool(seen), _PATIENCE):
            raise BenchError("no initial_state")
        self.client.watch = None
        self.client.wait(request, _PATIENCE)
        self.client.cancel(request)

    def patch(self) -> None:
        self._patches += 1
        self.say(f"patch:{self._patches}")

    _patches = 0


@dataclass(frozen=True)
class Scenario:
    name: str
    do: Callable[[Stage], object]
    times: int = 10
    shares: int = 1  # what one of them is counted as: so many, for each of which the cost is told


WARM: tuple[Scenario, ...] = (
    Scenario("reply", lambda stage: stage.say("say"), 20),
    Scenario("new_session", Stage.open, 10),
    Scenario("crowd_reply", Stage.crowd, 4, CROWD),
    Scenario("shell", lambda stage: stage.say("run:shell:true"), 8),
    Scenario("exec_command", lambda stage: stage.say("run:exec_command:true"), 8),
    Scenario("read_file", lambda stage: stage.say("use:read_file:0"), 10),
    Scenario("patch", Stage.patch, 8),
    Scenario("deltas_2000", lambda stage: stage.say("stream:2000:8", b"xxxxxxxx"), 2),
    Scenario("cancel", Stage.cancel, 8),
)
FLOODS: tuple[Scenario, ...] = (
    Scenario("output_10mb_shell", lambda stage: stage.say("run:shell:flood10"), 2),
    Scenario("output_10mb_exec_command", lambda stage: stage.say("run:exec_command:flood10"), 2),
)
STORED: tuple[Scenario, ...] = (
    Scenario("catch_up_stdio", Stage.catch_up, 2),
    Scenario("list_1000", Stage.list_all, 3),
)


class Stretch(NamedTuple):
    """A part of a trace, and how many units of a scenario it has."""

    scenario: str
    begin: str
    end: str
    units: int


@dataclass
class Run:
    """Where servers are started, and what was counted of them so far: the least of all batches."""

    folder: Path
    model: Model
    source: Path | None = None
    only: frozenset[str] = frozenset()
    batches: int = 2
    found: Found = field(default_factory=dict[str, dict[str, float]])
    left_out: list[str] = field(default_factory=list[str])
    stretches: list[Stretch] = field(default_factory=list[Stretch])  # of the trace that is being written
    _servers: int = 0

    def wanted(self, *names: str) -> bool:
        return not self.only or not self.only.isdisjoint(names)

    def note(self, scenario: str, count: str, value: float) -> None:
        counts = self.found.setdefault(scenario, {})
        value = round(value, 2)
        counts[count] = min(value, counts.get(count, value))

    @contextmanager
    def server(self, *words: str, store: Path | None = None, **how: Any) -> Generator[Counted]:
        self._servers += 1
        folder = fresh_folder(self.folder, f"{self._servers:03}", store)
        with Counted(folder, self.model, words or ("mcp-server",), source=self.source, **how) as counted:
            yield counted
        if counted.trace is not None:
            trace = Trace(counted.trace)
            for each in self.stretches:
                self._note_system_calls(each.scenario, trace.between(each.begin, each.end), each.units)
            self.stretches.clear()

    def count(self, counted: Counted, stage: Stage, scenario: Scenario) -> None:
        """Calls, frames and bytes; or system calls, where it is traced."""
        stage.session = stage.open()  # what is sent to the model does not depend on what was counted before
        for _ in range(2):
            scenario.do(stage)
        counted.settle()
        for batch in range(self.batches if counted.trace is None else 1):
            lines, read, sent = stage.client.lines_read, stage.client.bytes_read, self.model.received()[1]
            begin = f"{scenario.name}-{batch}"
            before = counted.counts(begin)
            for _ in range(scenario.times):
                scenario.do(stage)
            after, end = counted.settle(f"{begin}-end")
            units = scenario.times * scenario.shares
            if counted.trace is not None:
                self.stretches.append(Stretch(scenario.name, begin, end, units))
            else:
                self.note(scenario.name, "python_calls", (after.python - before.python) / units)
                self.note(scenario.name, "c_calls", (after.c - before.c) / units)
                self.note_talk(scenario.name, stage.client, lines, read, self.model.received()[1] - sent, units)

    def note_talk(self, name: str, client: Client, lines: int, read: int, sent: int, units: int) -> None:
        """What went to the client since it had read that much, and to the model."""
        self.note(name, "frames", (client.lines_read - lines) / units)
        self.note(name, "bytes", (client.bytes_read - read) / units)
        self.note(name, "bytes_to_model", sent / units)

    def _note_system_calls(self, name: str, calls: SystemCalls, units: int) -> None:
        self.note(name, "syscalls", calls.total() / units)
        for call in NAMED_CALLS:
            self.note(name, f"sys.{call}", calls[call] / units)


# Held one by one: what waits for the disk, starts programs, wakes threads, or has been called far too often before.
NAMED_CALLS = ("execve", "fdatasync", "futex", "clone", "clone3", "mount", "openat", "landlock_add_rule", "madvise", "write")
