"""Machine instructions of the server itself, by valgrind, which is slow. A unit costs the difference of two runs."""

import re
import shutil
from collections.abc import Callable

from benchmarks.client import BenchError
from benchmarks.counting.counted import Counted
from benchmarks.counting.scenarios import WARM, Run, Stage

COUNT = "instructions_k"
_TOOL = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_REFERENCES = re.compile(r"I\s+refs:\s+([\d,]+)")
_UNITS = {"reply": (20, 120), "new_session": (10, 40), "shell": (5, 15), "deltas_2000": (1, 5)}


def available() -> bool:
    return shutil.which(_TOOL[0]) is not None


def measure_instructions(run: Run) -> None:
    if run.wanted("start"):
        run.note("start", COUNT, _instructions(run, lambda _: None, 0) / 1000)
    for each in WARM:
        if each.name in _UNITS and run.wanted(each.name):
            few, many = _UNITS[each.name]
            less, more = (_instructions(run, each.do, times) for times in (few, many))
            run.note(each.name, COUNT, (more - less) / (many - few) / 1000)


def _instructions(run: Run, do: Callable[[Stage], object], times: int) -> int:
    with run.server(wrapper=_TOOL) as counted:
        stage = _warmed(counted)
        for _ in range(times):
            do(stage)
        counted.settle()
        said = counted.client.home.parent / "stderr"
    found = _REFERENCES.search(said.read_text(errors="replace"))
    if found is None:
        raise BenchError("valgrind did not tell its count: the server was killed before it could")
    return int(found[1].replace(",", ""))


def _warmed(counted: Counted) -> Stage:
    stage = Stage(counted)
    stage.client.initialize()
    stage.session = stage.open()
    counted.settle()
    return stage
