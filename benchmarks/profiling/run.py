"""Runs the profiles, prints them, and draws the flame graphs where py-spy is to be had."""

import sys
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.model.process import Model
from benchmarks.profiling.flames import find_py_spy, flame_graph, record
from benchmarks.profiling.functions import WORK, profile
from benchmarks.profiling.imports import startup
from benchmarks.run import scratch_folder
from benchmarks.servers import ServerSpec

KINDS = ("startup", *WORK)


def run_profiles(spec: ServerSpec, kinds: list[str], scale: float, py_spy: str | None, flames: Path) -> int:
    py_spy = py_spy or find_py_spy()
    with Model() as model, scratch_folder() as folder:
        for kind in kinds:
            bench = Bench(spec, model, folder / kind, scale)
            print(startup(bench) if kind == "startup" else profile(bench, kind), end="\n\n", flush=True)
            if kind == "startup":
                continue
            if py_spy is None:
                print("no flame graph: py-spy is not on the PATH", file=sys.stderr)
                continue
            path = flames / f"flame-{kind}.svg"
            flame_graph(record(bench, kind, py_spy), WORK[kind][0], path)
            print(f"flame graph: {path}\n", flush=True)
    return 0
