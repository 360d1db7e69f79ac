"""What a server occupies while nothing happens, with every process that it has started."""

from benchmarks import processes
from benchmarks.bench import Bench, Samples

SETTLE_SECONDS = 1.0


def idle_memory(bench: Bench) -> Samples:
    with bench.fresh() as client:
        client.initialize()
        client.pump(lambda: False, SETTLE_SECONDS)
        hello = processes.memory(client.pid)
        client.begin_session()
        client.pump(lambda: False, SETTLE_SECONDS)
        turn = processes.memory(client.pid)
    return {"idle_memory": [hello.held], "turn_memory": [turn.held]}
