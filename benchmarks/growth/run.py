"""Runs the curves one after another on our server, and writes them down."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.client import BenchError
from benchmarks.growth import capacity, conversations, idle, streams
from benchmarks.growth.curve import Curve
from benchmarks.model.process import Model, measure_ceiling
from benchmarks.report import machine
from benchmarks.run import scratch_folder
from benchmarks.servers import ServerSpec

CURVES: dict[str, Callable[[Bench], list[Curve]]] = {
    "history": conversations.history,
    "sessions": conversations.sessions,
    "at-once": conversations.at_once,
    "store": conversations.store,
    "long-conversation": conversations.long_conversation,
    "delta-size": streams.delta_size,
    "many-streams": streams.many_streams,
    "viewers": streams.viewers,
    "idle-cpu": idle.idle_cpu,
    "slow-disk": idle.slow_disk,
    "capacity": capacity.capacity,
}


def run_growth(spec: ServerSpec, names: list[str], scale: float, path: Path) -> int:
    curves: list[Curve] = []
    failures: list[str] = []
    before = machine()
    with Model() as model, scratch_folder() as folder:
        ceiling = measure_ceiling(model)
        for name in names:
            started = time.monotonic()
            try:
                curves += CURVES[name](Bench(spec, model, folder / name, scale))
            except (BenchError, OSError) as error:
                failures.append(f"{name}: {error}")
                print(f"{name}: {error}", file=sys.stderr)
            print(f"  {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    document = {
        "before": before,
        "after": machine(),
        "model_ceiling": ceiling._asdict(),
        "curves": [
            {
                "name": curve.name,
                "title": curve.title,
                "x": curve.x_title,
                "unit": curve.unit,
                "lines": curve.points,
                "notes": curve.notes,
            }
            for curve in curves
        ],
        "failures": failures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    load = f"load {before['load'][0]:.2f} before, {machine()['load'][0]:.2f} after"
    print(f"{before['date']}, {before['system']}, {before['cores']} cores; {load}\n")
    print("\n\n".join(curve.text() for curve in curves))
    print(f"\nsamples: {path}")
    return 1 if failures else 0
