"""Text as it arrives: how much of it, and how soon the client has it."""

import re
import time

from benchmarks.bench import Bench, Samples
from benchmarks.client import Client
from benchmarks.figures import quantile

DELTA_CHARACTERS = 4  # a usual token
PACE_MICROSECONDS = 2000
_STAMP = re.compile(rb"@(\d+);")


def streams(bench: Bench) -> Samples:
    client = bench.warm()
    count = bench.times(20_000)
    before = client.lines_read
    rate = deltas_per_second(client, client.begin_session(), "stream", count)
    return {"stream": [rate], "stream_lines": [(client.lines_read - before) / count]}


def bursts(bench: Bench) -> Samples:
    client = bench.warm()
    return {"burst": [deltas_per_second(client, client.begin_session(), "burst", bench.times(10_000))]}


def deltas_per_second(client: Client, session: str, kind: str, count: int, size: int = DELTA_CHARACTERS) -> float:
    """Over the whole turn, from the call to its answer, which must hold every delta."""
    started = time.monotonic_ns()
    answer = client.turn(client.reply(session, f"{kind}:{count}:{size}"), 120, expect=b"x" * (count * size))
    return count / ((answer.at - started) / 1e9)


def latency(bench: Bench) -> Samples:
    client = bench.warm()
    taken = delta_latencies(client, client.begin_session(), bench.times(500))
    return {"latency_p50": [quantile(taken, 0.5)], "latency_p95": [quantile(taken, 0.95)]}


def delta_latencies(client: Client, session: str, count: int, microseconds: int = PACE_MICROSECONDS) -> list[float]:
    """Milliseconds from the model's write to the client's read, for deltas that come one at a time."""
    stamps = Stamps()
    client.watch = stamps.see
    try:
        client.turn(client.reply(session, f"paced:{count}:{microseconds}"), expect=b"@")
    finally:
        client.watch = None
    return stamps.latencies[5:]


class Stamps:
    """Reads when each delta was sent. An event that comes under two methods counts when it first comes."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._newest = 0

    def see(self, lines: list[bytes], at: int) -> None:
        for line in lines:
            if b"_delta" not in line[:400]:  # whole messages repeat the stamps
                continue
            for stamp in _STAMP.findall(line):
                sent = int(stamp)
                if sent > self._newest:
                    self._newest = sent
                    self.latencies.append((at - sent) / 1e6)
