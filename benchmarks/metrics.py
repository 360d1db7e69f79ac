"""What is reported, in which unit, and what is aimed at."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.servers import NEWEST

SEED, LAST = "codex 0.20.0", "codex 0.153.4"


@dataclass(frozen=True)
class Target:
    """`ours <= bound`, or `ours <= bound x peer` where a peer is named; likewise `>=`."""

    relation: Literal["<=", ">="]
    bound: float
    peer: str | None = None

    def holds(self, ours: float, peer: float) -> bool:
        limit = self.bound * peer if self.peer else self.bound
        return ours <= limit if self.relation == "<=" else ours >= limit

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:g}" + (f" x {self.peer.removeprefix('codex ')}" if self.peer else "")


@dataclass(frozen=True)
class Metric:
    key: str
    title: str
    unit: str
    targets: tuple[Target, ...] = ()
    total: bool = False  # the sum of the samples counts, not their median


METRICS: tuple[Metric, ...] = (
    Metric("initialize", "spawn -> `initialize` answer", "ms", (Target("<=", 0.25, LAST),)),
    Metric("first_turn", "spawn -> first `codex` result", "ms", (Target("<=", 0.45, LAST),)),
    Metric("new_session", "new session, one-message turn", "ms", (Target("<=", 0.15, SEED),)),
    Metric("reply", "`codex-reply` turn", "ms", (Target("<=", 0.8, SEED),)),
    Metric("shell", "turn with a sandboxed command (`shell`)", "ms", (Target("<=", 1.0, SEED),)),
    Metric("exec_command", "turn with a sandboxed command (`exec_command`)", "ms", (Target("<=", 1.0, LAST),)),
    Metric("write_stdin", "turn that types at a program (`write_stdin`)", "ms"),
    Metric("read_file", "turn with `read_file`", "ms"),
    Metric("search", "turn with `search`", "ms"),
    Metric("list_files", "turn with `list_files`", "ms"),
    Metric("edit_file", "turn with `edit_file`", "ms"),
    Metric("view_image", "turn with `view_image`", "ms"),
    Metric("update_plan", "turn with `update_plan`", "ms"),
    Metric("patch", "turn with a patch", "ms", (Target("<=", 0.4, SEED),)),
    Metric("stream", "deltas in one long turn", "/s", (Target(">=", 6, SEED), Target(">=", 4, LAST))),
    Metric("burst", "deltas arriving in one burst", "/s", (Target(">=", 20, SEED), Target(">=", 20, LAST))),
    Metric("latency_p50", "delta latency, median", "ms"),
    Metric("latency_p95", "delta latency p95", "ms", (Target("<=", 1.2, SEED), Target("<=", 1.2, LAST))),
    Metric("opens", "50 sessions: opens", "/s", (Target(">=", 20, SEED),)),
    Metric("replies", "50 sessions: replies", "/s", (Target(">=", 4, SEED),)),
    Metric("crowd_p95", "200 sessions: reply p95", "ms", (Target("<=", 0.25, SEED),)),
    Metric("session_memory", "memory per idle session", "KB", (Target("<=", 0.1, SEED),)),
    Metric("idle_memory", "idle memory after `initialize`", "MB", (Target("<=", 0.5, LAST),)),
    Metric("turn_memory", "idle memory after one turn, helper included", "MB", (Target("<=", 0.8, LAST),)),
    Metric("history", "turn 200 against turn 10, same session", "x", (Target("<=", 1.3),)),
    Metric("cancel_model", "cancel -> answer, in the model", "ms", (Target("<=", 1.5, SEED),)),
    Metric("cancel_shell", "cancel -> answer, in a command", "ms", (Target("<=", 4, SEED),)),
    Metric("flood_shell", "100 MB of output (`shell`)", "ms", (Target("<=", 0.02, SEED),)),
    Metric("flood_exec_command", "100 MB of output (`exec_command`)", "ms", (Target("<=", 1.0, LAST),)),
    Metric("flood_memory_shell", "100 MB of output (`shell`): peak memory", "+MB", (Target("<=", 40),)),
    Metric("flood_memory_exec_command", "100 MB of output (`exec_command`): peak memory", "+MB", (Target("<=", 40),)),
    Metric("lost", "replies lost with an instant model", "lost", (Target("<=", 0),), total=True),
    Metric("lost_of", "... of so many", "replies", total=True),
    Metric("lost_single", "replies lost in single turns", "lost", total=True),
    Metric("exec_started", "`exec`: spawn -> thread.started", "ms", (Target("<=", 1.0, NEWEST),)),
    Metric("exec_turn", "`exec`: whole run of an instant turn", "ms", (Target("<=", 1.0, NEWEST),)),
    Metric("exec_deltas", "`exec`: whole run with 10,000 deltas", "ms", (Target("<=", 1.0, NEWEST),)),
    Metric("exec_memory", "`exec`: largest size of the process", "MB", (Target("<=", 1.0, NEWEST),)),
    Metric("stream_lines", "lines sent for each delta", "lines"),
)
