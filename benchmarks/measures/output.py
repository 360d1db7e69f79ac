"""A command that prints a great deal."""

import time

from benchmarks import processes
from benchmarks.bench import Bench, Samples

FLOOD_SECONDS = 150.0


def flood(bench: Bench) -> Samples:
    with bench.fresh() as client:
        client.initialize()
        session = client.begin_session()
        client.turn(client.reply(session, "run:true"))
        processes.forget_peak(client.pid)
        before = processes.peak(client.pid)
        started = time.monotonic_ns()
        answer = client.turn(client.reply(session, "run:flood"), FLOOD_SECONDS)
        taken = (answer.at - started) / 1e6
        more = processes.peak(client.pid) - before
    return {"flood": [taken], "flood_memory": [more]}
