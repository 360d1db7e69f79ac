"""What a server does while nothing happens, and what a slower disk does to it."""

import time
from dataclasses import replace

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.client import Client
from benchmarks.figures import median, quantile
from benchmarks.growth.curve import Curve
from benchmarks.measures.crowds import open_sessions, reply_in_turn
from benchmarks.measures.streaming import delta_latencies
from benchmarks.measures.turns import timed_open, timed_reply
from benchmarks.profiling.launch import through

IDLE_SECONDS = 5.0


def idle_cpu(bench: Bench) -> list[Curve]:
    curve = Curve("idle_cpu", "CPU while idle", "sessions", "% of a core")
    with bench.fresh() as client:
        client.initialize()
        curve.add("nobody watches", 0, _busy(client, bench))
        for count in (1, 100):
            sessions = open_sessions(client, count)[0]
            curve.add("nobody watches", count, _busy(client, bench))
        client.wait(client.call("conversationStream", conversation_id=sessions[0]))
        curve.add("one stream is open", 100, _busy(client, bench))
    return [curve]


def _busy(client: Client, bench: Bench) -> float:
    client.pump(lambda: False, 1.0)
    seconds = max(2.0, IDLE_SECONDS * bench.scale)
    before = processes.cpu_seconds(client.pid)
    started = time.monotonic()
    client.pump(lambda: False, seconds)
    return (processes.cpu_seconds(client.pid) - before) / (time.monotonic() - started) * 100


def slow_disk(bench: Bench) -> list[Curve]:
    turn = Curve("slow_commit", "When every commit takes longer", "ms more for each commit", "ms")
    crowd = Curve("slow_commit_crowd", "When every commit takes longer: 50 sessions", "ms more for each commit", "replies/s")
    for delay in (0, 2, 5, 10):
        command = through("slow_commit.py", bench.spec.command, f"{delay:g}")
        slow = Bench(replace(bench.spec, command=command), bench.model, bench.folder(), bench.scale)
        with slow.fresh() as client:
            client.initialize()
            session = client.begin_session()
            timed_reply(client, session, "run:shell:true")
            count = bench.times(30)
            turn.add("new session, one turn", delay, median([timed_open(client) for _ in range(count)]))
            turn.add("reply", delay, median([timed_reply(client, session, "say") for _ in range(count)]))
            turn.add("turn with a command", delay, median([timed_reply(client, session, "run:shell:true") for _ in range(count)]))
            latencies = delta_latencies(client, client.begin_session(), bench.times(500))
            turn.add("delta latency p95", delay, quantile(latencies, 0.95))
            sessions = open_sessions(client, 50, at_once=25)[0]
            crowd.add("all together", delay, reply_in_turn(client, sessions, bench.times(2000), 5.0).per_second)
    for line, points in turn.points.items():
        turn.notes.append(f"{line}: {points[2] - points[0]:+.2f} ms at 2 ms more for each commit.")
    return [turn, crowd]
