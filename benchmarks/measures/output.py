"""A command that prints a great deal."""

import time

from benchmarks import processes
from benchmarks.bench import Bench, Samples

FLOOD_SECONDS = 150.0


def flood(bench: Bench) -> Samples:
    found: Samples = {}
    for tool in bench.spec.tools:
        if tool in ("shell", "exec_command"):
            found |= _flood(bench, tool)
    return found


def _flood(bench: Bench, tool: str) -> Samples:
    with bench.fresh() as client:
        client.initialize()
        session = client.begin_session()
        client.turn(client.reply(session, f"run:{tool}:true"))
        processes.forget_peak(client.pid)
        before = processes.peak(client.pid)
        started = time.monotonic_ns()
        answer = client.turn(client.reply(session, f"run:{tool}:flood"), FLOOD_SECONDS)
        taken = (answer.at - started) / 1e6
        more = processes.peak(client.pid) - before
    return {f"flood_{tool}": [taken], f"flood_memory_{tool}": [more]}
