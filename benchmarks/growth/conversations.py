"""With more conversations in the store, longer ones, and more of them at once."""

import json
import time
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.client import BenchError, Client
from benchmarks.figures import median, quantile
from benchmarks.growth.curve import Curve
from benchmarks.measures.crowds import open_sessions, reply_in_turn
from benchmarks.measures.turns import known, session_of, timed_open, timed_reply

SMALL, LARGE = 10, 10_000
EVENTS = 5_000
_SNAPSHOT = b"notifications/initial_state"


def history(bench: Bench) -> list[Curve]:
    curve = Curve("history", "A turn late in a long session", "turn", "ms")
    with bench.fresh() as client:
        client.initialize()
        last = bench.times(800)
        taken = session_of(client, last + 6)
    for share in (10 / 800, 0.0625, 0.125, 0.25, 0.5, 1.0):
        turn = max(8, round(last * share))
        curve.add("reply", turn, median(known(taken[turn - 6 : turn + 6])))
    return [curve]


def sessions(bench: Bench) -> list[Curve]:
    time_curve = Curve("sessions", "A turn while other sessions are idle", "sessions", "ms")
    memory_curve = Curve("sessions_memory", "Memory with idle sessions", "sessions", "MB")
    with bench.fresh() as client:
        client.initialize()
        opened: list[str] = []
        for total in (1, 50, 200, 500, 1000):
            goal = total if total == 1 else bench.times(total)
            opened += open_sessions(client, max(0, goal - len(opened)), at_once=20)[0]
            time_curve.add("reply", goal, median([timed_reply(client, opened[0], "say") for _ in range(bench.times(20))]))
            time_curve.add("new session", goal, median([timed_open(client) for _ in range(bench.times(20))]))
            memory_curve.add("server and helpers", goal, processes.memory(client.pid).held)
    return [time_curve, memory_curve]


def at_once(bench: Bench) -> list[Curve]:
    speed = Curve("crowd", "Sessions that reply all the time", "sessions", "replies/s")
    delay = Curve("crowd_latency", "How long a reply takes then", "sessions", "ms")
    with bench.fresh() as client:
        client.initialize()
        opened: list[str] = []
        for goal in (1, 10, 50, 100, 200):
            opened += open_sessions(client, goal - len(opened), at_once=20)[0]
            tally = reply_in_turn(client, opened, bench.times(2000), 5.0)
            speed.add("all together", goal, tally.per_second)
            delay.add("median", goal, median(tally.latencies))
            delay.add("p95", goal, quantile(tally.latencies, 0.95))
    return [speed, delay]


# -- a full store


def store(bench: Bench) -> list[Curve]:
    """Small and large are measured in turns, each in a process of its own."""
    curve = Curve("store", "Conversations in the store", "conversations", "ms")
    large = bench.times(LARGE)
    folders = {SMALL: bench.folder(), large: bench.folder()}
    for count, folder in folders.items():
        _fill(bench, folder, count)
    taken: dict[str, dict[int, list[float]]] = {}
    for _ in range(4):
        for count, folder in folders.items():
            with bench.fresh(folder) as client:
                for line, samples in _with_store(client, bench.times(20)).items():
                    taken.setdefault(line, {}).setdefault(count, []).extend(samples)
    for line, by_count in taken.items():
        for count, samples in by_count.items():
            curve.add(line, count, median(samples))
    worst = max(curve.ratio(line) for line in curve.points)
    curve.notes.append(
        f"With {large:,} conversations the dearest of these costs {worst:.2f} times what it costs with {SMALL} (aim: 1.5)."
    )
    return [curve]


def _fill(bench: Bench, folder: Path, count: int) -> None:
    with bench.fresh(folder) as client:
        client.initialize()
        open_sessions(client, count, at_once=50)


def _with_store(client: Client, times: int) -> dict[str, list[float]]:
    started = time.monotonic_ns()
    client.initialize()
    first = (client.turn(client.open("say")).at - started) / 1e6
    listed = _timed(client, "conversationsList", limit=50)
    old = structured(client, "conversationsList", limit=50)["conversations"][-1]["conversation_id"]
    return {
        "first turn after start": [first],
        "list 50": [_timed(client, "conversationsList", limit=50) for _ in range(times)] + [listed],
        "create": [_timed(client, "conversationCreate") for _ in range(times)],
        "new session, one turn": [timed_open(client) for _ in range(times)],
        "first reply to a stored one": [timed_reply(client, old, "say")],
        "reply": [timed_reply(client, old, "say") for _ in range(times)],
    }


def _timed(client: Client, tool: str, **arguments: Any) -> float:
    started = time.monotonic_ns()
    return (client.wait(client.call(tool, **arguments)).at - started) / 1e6


def structured(client: Client, tool: str, **arguments: Any) -> Any:
    result = client.wait(client.call(tool, **arguments)).message["result"]
    if result.get("isError"):
        raise BenchError(f"{tool} failed: {json.dumps(result)[:300]}")
    return result["structuredContent"]


# -- a long conversation


def long_conversation(bench: Bench) -> list[Curve]:
    curve = Curve("snapshot", "Attaching to a conversation (`conversationStream`)", "events", "ms")
    few, many = bench.times(EVENTS // 100), bench.times(EVENTS)
    folder = bench.folder()
    with bench.fresh(folder) as client:
        client.initialize()
        names = {goal: _of_events(client, goal) for goal in (few, many)}
    for goal, name in names.items():
        with bench.fresh(folder) as client:
            client.initialize()
            first, events = _snapshot(client, name)
            if len(events) < goal:
                raise BenchError(f"the snapshot has {len(events)} events of at least {goal}")
            curve.add("first time, from the store", goal, first)
            curve.add("all of it, again", goal, median([_snapshot(client, name)[0] for _ in range(5)]))
            last = _snapshot(client, name, after=0)[1][-1]["_meta"]["seq"]
            tails = [_snapshot(client, name, after=last - 10) for _ in range(5)]
            if any(event["_meta"]["seq"] <= last - 10 for _, events in tails for event in events):
                raise BenchError("catching up told what was known")
            curve.add("the last ten records, by `after`", goal, median([tail for tail, _ in tails]))
    return [curve]


def _of_events(client: Client, goal: int) -> str:
    session = client.begin_session()
    each = 4  # events that a plain turn leaves in the log
    reply_in_turn(client, [session], goal // each + 1, 120.0)
    return session


def _snapshot(client: Client, session: str, **arguments: Any) -> tuple[float, list[Any]]:
    """Milliseconds until the snapshot has been read, and its events."""
    found: list[tuple[bytes, int]] = []

    def see(lines: list[bytes], at: int) -> None:
        found.extend((line, at) for line in lines if _SNAPSHOT in line[:80])

    client.watch = see
    started = time.monotonic_ns()
    request = client.call("conversationStream", conversation_id=session, **arguments)
    if not client.pump(lambda: bool(found), 30.0):
        raise BenchError("no initial_state within 30 s")
    client.watch = None
    client.wait(request)
    client.cancel(request)
    line, at = found[0]
    return (at - started) / 1e6, json.loads(line)["params"]["initial_state"]["events"]
