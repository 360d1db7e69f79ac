"""How far one process goes: what a reply costs it while more and more conversations are at work, and what they take of memory."""

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.growth.curve import Curve
from benchmarks.measures.crowds import open_sessions, reply_in_turn

AT_WORK = (1, 10, 50, 200, 500, 1000)
SETTLE_SECONDS = 2.0  # what opening them has left to do
MOST_SECONDS = 10.0


def capacity(bench: Bench) -> list[Curve]:
    """Processor time is of the server and its helper, in all threads: unlike the rate, it says something on a busy machine too."""
    cost = Curve("capacity_cost", "Processor time of a reply", "conversations at work", "µs")
    rate = Curve("capacity_rate", "Replies", "conversations at work", "replies/s")
    memory = Curve("capacity_memory", "Memory", "conversations open", "MB")
    with bench.fresh() as client:
        client.initialize()
        opened: list[str] = []
        for goal in AT_WORK:
            opened += open_sessions(client, goal - len(opened), at_once=50)[0]
            client.pump(lambda: False, SETTLE_SECONDS)
            memory.add("server and helper", goal, processes.memory(client.pid).held)
            before = processes.cpu_seconds(client.pid)
            tally = reply_in_turn(client, opened, max(goal, bench.times(4000)), MOST_SECONDS)
            spent = processes.cpu_seconds(client.pid) - before
            rate.add("all together", goal, tally.per_second)
            cost.add("all together", goal, spent * 1e6 / max(1, len(tally.latencies)))
    return [cost, rate, memory]
