"""`exec --json` as programs start it: to its first event, to the end of an instant turn, with many deltas, and its memory."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.bench import Bench, Samples
from benchmarks.client import BenchError
from benchmarks.processes import MB

DELTAS = 10_000
SECONDS = 60


def executing(bench: Bench) -> Samples:
    started: list[float] = []
    whole: list[float] = []
    peak: list[float] = []
    for _ in range(bench.times(4)):
        first, end, memory = _run(bench, "bench:say;")
        started.append(first)
        whole.append(end)
        peak.append(memory)
    _, streamed, _ = _run(bench, f"bench:burst:{DELTAS}:4;")
    return {"exec_started": started, "exec_turn": whole, "exec_memory": peak, "exec_deltas": [streamed]}


def _run(bench: Bench, prompt: str) -> tuple[float, float, float]:
    """Milliseconds to the first line and to the end, and the largest size of the process in megabytes."""
    folder = bench.folder()
    home, work = folder / "home" / ".codex", folder / "work"
    bench.spec.write_config(home, bench.model)
    work.mkdir()
    try:
        return _measure([bench.spec.command[0], "exec", "--json", "--skip-git-repo-check", prompt], home, work, bench.spec.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(command: list[str], home: Path, work: Path, name: str) -> tuple[float, float, float]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "CODEX_HOME": str(home)}
    began = time.perf_counter_ns()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=work, env=env
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    started = time.perf_counter_ns()
    rest = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    ended = time.perf_counter_ns()
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode or json.loads(first)["type"] != "thread.started" or b"turn.completed" not in rest:
        raise BenchError(f"{name}: `exec` ended with {process.returncode}: {(first + rest)[-300:]!r}")
    return (started - began) / 1e6, (ended - began) / 1e6, used.ru_maxrss * 1024 / MB
