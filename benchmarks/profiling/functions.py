"""The functions of the server's main thread while it is busy, by the standard profiler; and how its threads share the work."""

import marshal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.client import Client
from benchmarks.measures.crowds import open_sessions, reply_in_turn
from benchmarks.measures.streaming import deltas_per_second
from benchmarks.processes import TICKS
from benchmarks.profiling.launch import through


@dataclass(frozen=True)
class Called:
    where: str
    calls: int
    own: float  # seconds
    layer: str


Work = Callable[[Client, Bench], int]  # does something, says how many times


def streaming(client: Client, bench: Bench) -> int:
    count = bench.times(40_000)
    session = client.begin_session()
    for _ in range(3):
        deltas_per_second(client, session, "stream", count)
    return 3 * count


def replies(client: Client, bench: Bench) -> int:
    sessions, _ = open_sessions(client, 50)
    return len(reply_in_turn(client, sessions, bench.times(4000), 30.0).latencies)


def commands(client: Client, bench: Bench) -> int:
    session = client.begin_session()
    return len(reply_in_turn(client, [session], bench.times(200), 30.0, "run:shell:true").latencies)


WORK: dict[str, tuple[str, str, Work]] = {
    "streaming": ("The streaming path", "delta", streaming),
    "replies": ("Replies of 50 sessions", "reply", replies),
    "commands": ("Turns with a command", "turn", commands),
}


def profile(bench: Bench, name: str) -> str:
    title, unit, work = WORK[name]
    folder = bench.folder()
    threads = _thread_shares(bench, work, unit)
    spec = replace(bench.spec, command=through("profiled.py", bench.spec.command, str(folder / "profile")))
    with Bench(spec, bench.model, folder, bench.scale).fresh() as client:
        client.initialize()
        client.begin_session()
        times = work(client, bench)
    called = _read(folder / "profile")
    total = sum(entry.own for entry in called)
    lines = [f"## {title}", "", *threads, "", f"Functions by their own time under the profiler, for each {unit}:", ""]
    lines += [f"| function | calls a {unit} | µs a {unit} | share |", "| --- | --- | --- | --- |"]
    for entry in called[:18]:
        lines.append(f"| {entry.where} | {entry.calls / times:.2f} | {entry.own / times * 1e6:.2f} | {entry.own / total:.0%} |")
    layers: dict[str, float] = {}
    for entry in called:
        layers[entry.layer] = layers.get(entry.layer, 0.0) + entry.own
    shares = sorted(layers.items(), key=lambda pair: -pair[1])[:8]
    lines += ["", "By layer: " + ", ".join(f"{layer} {own / total:.0%}" for layer, own in shares) + "."]
    return "\n".join(lines)


def _thread_shares(bench: Bench, work: Work, unit: str) -> list[str]:
    """CPU time of each thread, without any profiler."""
    with bench.fresh() as client:
        client.initialize()
        client.begin_session()
        before = _threads(client.pid)
        times = work(client, bench)
        after = _threads(client.pid)
    spent = {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
    told = ", ".join(
        f"{name} {seconds / times * 1e6:.1f} µs" for name, seconds in sorted(spent.items(), key=lambda pair: -pair[1]) if seconds
    )
    return [f"CPU for each {unit}, unprofiled: {told or 'less than can be seen'}."]


def _threads(pid: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        head, _, rest = (task / "stat").read_text().rpartition(")")
        fields = rest.split()
        name = "main thread" if task.name == str(pid) else f"thread {task.name} ({head.partition('(')[2]})"
        found[name] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def _read(path: Path) -> list[Called]:
    raw: dict[Any, Any] = marshal.loads(path.read_bytes())
    found = [_called(place, entry) for place, entry in raw.items()]
    waiting = ("select.epoll", "run_until_complete", "built-in method poll")
    return sorted((entry for entry in found if not any(word in entry.where for word in waiting)), key=lambda entry: -entry.own)


def _called(place: tuple[str, int, str], entry: tuple[Any, ...]) -> Called:
    file, line, function = place
    _, calls, own, *_ = entry
    inside = file.rpartition("/understudy/")[2]
    if inside != file:
        return Called(f"{inside}:{line} {function}", calls, own, inside.partition("/")[0])
    if file == "~":
        return Called(function, calls, own, "built in")
    return Called(f"{Path(file).name}:{line} {function}", calls, own, "libraries")
