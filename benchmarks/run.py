"""Runs measures on several servers in turn, repetition by repetition, so that whatever disturbs the machine hits all alike."""

import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import Bench, Measure, Samples
from benchmarks.client import BenchError
from benchmarks.model.process import Model
from benchmarks.peers import default_folder
from benchmarks.servers import ServerSpec


@dataclass
class Results:
    """Samples by metric, then server; one list a repetition, `None` where it failed."""

    servers: list[str]
    samples: dict[str, dict[str, list[list[float] | None]]] = field(default_factory=dict[str, dict[str, list[list[float] | None]]])
    failures: list[str] = field(default_factory=list[str])

    def add(self, server: str, samples: Samples) -> None:
        for metric, values in samples.items():
            self.samples.setdefault(metric, {}).setdefault(server, []).append(values)


@contextmanager
def scratch_folder() -> Generator[Path]:
    """On a real disk: /tmp may be memory, where a durable log costs nothing, and a peer leaves out parts of itself there."""
    parent = default_folder()
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run_interleaved(
    specs: Sequence[ServerSpec], measures: Iterable[Measure], model: Model, *, repetitions: int | None = None, scale: float = 1.0
) -> Results:
    results = Results([spec.name for spec in specs])
    with scratch_folder() as folder:
        benches = [Bench(spec, model, folder, scale) for spec in specs]
        try:
            for measure in measures:
                _run(measure, benches, results, repetitions or measure.repetitions)
        finally:
            for bench in benches:
                bench.close()
    return results


def _run(measure: Measure, benches: Sequence[Bench], results: Results, repetitions: int) -> None:
    started = time.monotonic()
    failed: set[str] = set()
    for repetition in range(repetitions):
        turned = repetition % len(benches)
        for bench in (*benches[turned:], *benches[:turned]):  # nobody is always the one after a certain other
            if bench.spec.name in failed:
                continue
            try:
                results.add(bench.spec.name, measure.run(bench))
            except (BenchError, OSError) as error:
                failed.add(bench.spec.name)
                results.failures.append(f"{measure.name}: {error}")
                print(f"{measure.name}: {error}", file=sys.stderr)
                bench.drop_warm()
    print(f"  {measure.name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
