"""From the spawn of a process to its first words, and to the first finished turn."""

from benchmarks.bench import Bench, Samples


def starting(bench: Bench) -> Samples:
    hello: list[float] = []
    first: list[float] = []
    for _ in range(bench.times(4)):
        with bench.fresh() as client:
            hello.append((client.initialize().at - client.spawned_at) / 1e6)
            first.append((client.turn(client.open("say")).at - client.spawned_at) / 1e6)
    return {"initialize": hello, "first_turn": first}
