"""With larger deltas, more conversations streaming, and more processes that watch."""

import time
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.client import BenchError, Client, pump
from benchmarks.figures import quantile
from benchmarks.growth.curve import Curve
from benchmarks.measures.crowds import open_sessions
from benchmarks.measures.streaming import Stamps, delta_latencies, deltas_per_second

STREAM_SECONDS = 60.0


def delta_size(bench: Bench) -> list[Curve]:
    rate = Curve("delta_size", "Larger deltas", "characters", "deltas/s")
    volume = Curve("delta_volume", "Larger deltas, as text", "characters", "MB/s")
    with bench.fresh() as client:
        client.initialize()
        session = client.begin_session()
        for size in (1, 4, 16, 64, 256, 1024, 4096):
            count = bench.times(min(20_000, 8_000_000 // size))
            speed = max(deltas_per_second(client, client.begin_session(), "stream", count, size) for _ in range(3))
            rate.add("one at a time", size, speed)
            volume.add("one at a time", size, speed * size / 1e6)
        client.turn(client.reply(session, "say"))
    return [rate, volume]


def many_streams(bench: Bench) -> list[Curve]:
    """Every conversation gets 50 deltas a second; the latency is that of each delta."""
    delay = Curve("many_streams", "Conversations streaming at once, 50 deltas a second each", "conversations", "ms")
    speed = Curve("many_streams_rate", "Conversations streaming at once, as fast as they can", "conversations", "deltas/s")
    with bench.fresh() as client:
        client.initialize()
        sessions = open_sessions(client, 100, at_once=20)[0]
        for count in (1, 10, 50, 100):
            latencies = _paced(client, sessions[:count], bench.times(100))
            delay.add("median", count, quantile(latencies, 0.5))
            delay.add("p95", count, quantile(latencies, 0.95))
            speed.add("all together", count, _unpaced(client, sessions[:count], bench.times(40_000) // count))
    return [delay, speed]


def _paced(client: Client, sessions: list[str], deltas: int) -> list[float]:
    latencies: list[float] = []
    stamps: dict[bytes, Stamps] = {}

    def see(lines: list[bytes], at: int) -> None:
        for line in lines:
            start = line.find(b'"requestId":')
            if start > 0:
                request = line[start + 12 : start + 20].partition(b",")[0].partition(b"}")[0]
                stamps.setdefault(request, Stamps()).see([line], at)

    client.watch = see
    try:
        for request in [client.reply(session, f"paced:{deltas}:20000") for session in sessions]:
            client.turn(request, STREAM_SECONDS, b"@")
    finally:
        client.watch = None
    for found in stamps.values():
        latencies += found.latencies
    if len(latencies) < len(sessions) * deltas:
        raise BenchError(f"{len(latencies)} deltas of {len(sessions) * deltas} were seen")
    return latencies


def _unpaced(client: Client, sessions: list[str], deltas: int) -> float:
    started = time.monotonic_ns()
    requests = [client.reply(session, f"stream:{deltas}:4") for session in sessions]
    ended = max(client.turn(request, STREAM_SECONDS, b"x" * (deltas * 4)).at for request in requests)
    return len(sessions) * deltas / ((ended - started) / 1e9)


def viewers(bench: Bench) -> list[Curve]:
    """Other processes follow the conversation while its owner streams it; each reads at its own pace."""
    owner_curve = Curve("viewers", "Processes that watch one conversation: the owner", "watching", "ms")
    rate = Curve("viewers_rate", "Processes that watch one conversation: the owner at full speed", "watching", "deltas/s")
    lag = Curve("viewers_lag", "Processes that watch one conversation: how far behind they are", "watching", "ms")
    for count in (0, 1, 2, 4, 8):
        folder = bench.folder()
        with ExitStack() as stack:
            owner = stack.enter_context(bench.fresh(folder))
            owner.initialize()
            session = owner.begin_session()
            watching = [stack.enter_context(bench.fresh(folder)) for _ in range(count)]
            for viewer in watching:
                viewer.initialize()
                viewer.wait(viewer.call("conversationStream", conversation_id=session))
            taken, lags = _watched(owner, watching, session, max(400, bench.times(500)))
            owner_curve.add("delta latency p95", count, quantile(taken, 0.95))
            if lags:
                lag.add("text, p95", count, quantile(lags, 0.95))
                lag.add("text, median", count, quantile(lags, 0.5))
            rate.add("one at a time", count, _full_speed(owner, watching, session, bench.times(20_000)))
            lag.add("end of the turn", count, _end_lag(owner, watching, session)) if watching else None
    return [owner_curve, rate, lag]


def _watched(owner: Client, watching: list[Client], session: str, deltas: int) -> tuple[list[float], list[float]]:
    if not watching:
        return delta_latencies(owner, session, deltas), []
    mine, theirs = Stamps(), [Stamps() for _ in watching]
    ended: set[int] = set()
    owner.watch = mine.see
    for number, (viewer, stamps) in enumerate(zip(watching, theirs, strict=True)):

        def see(lines: list[bytes], at: int, stamps: Stamps = stamps, number: int = number) -> None:
            stamps.see(lines, at)
            if any(b'"task_complete"' in line[:120] for line in lines):
                ended.add(number)

        viewer.watch = see
    request = owner.reply(session, f"paced:{deltas}:2000")
    done = pump([owner, *watching], lambda: owner.has_answer(request) and len(ended) == len(watching), STREAM_SECONDS)
    for client in (owner, *watching):
        client.watch = None
    if not done:
        raise BenchError(f"{len(watching) - len(ended)} of {len(watching)} viewers did not see the end of the turn")
    owner.turn(request, 5.0, b"@")
    return mine.latencies, [latency for stamps in theirs for latency in stamps.latencies]


def _full_speed(owner: Client, watching: list[Client], session: str, deltas: int) -> float:
    started = time.monotonic_ns()
    request = owner.reply(session, f"stream:{deltas}:4")
    pump([owner, *watching], lambda: owner.has_answer(request), STREAM_SECONDS)
    answer = owner.turn(request, 1.0, b"x" * (deltas * 4))
    pump(watching, lambda: False, 0.5)
    return deltas / ((answer.at - started) / 1e9)


def _end_lag(owner: Client, watching: list[Client], session: str) -> float:
    """Milliseconds from the owner's answer until the last viewer has been told that the turn is over."""
    ended: dict[int, int] = {}
    for number, viewer in enumerate(watching):

        def see(lines: list[bytes], at: int, number: int = number) -> None:
            if any(b'"task_complete"' in line[:120] for line in lines):
                ended.setdefault(number, at)

        viewer.watch = see
    request = owner.reply(session, "say")
    pump([owner, *watching], lambda: owner.has_answer(request) and len(ended) == len(watching), STREAM_SECONDS)
    answer = owner.turn(request, 1.0)
    for viewer in watching:
        viewer.watch = None
    return max(0.0, (max(ended.values()) - answer.at) / 1e6)
