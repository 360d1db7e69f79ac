"""Counting a real server: the same again is the same, and more is more."""

from pathlib import Path

import pytest
from benchmarks.counting.counted import has_tracer
from benchmarks.counting.measure import measure
from benchmarks.counting.scenarios import Run
from benchmarks.model.process import Model


@pytest.mark.slow
def test_a_reply_is_counted_and_a_flood_of_an_awaited_command_meets_no_timer(tmp_path: Path) -> None:
    with Model() as model:
        run = Run(tmp_path, model, only=frozenset({"reply", "output_10mb_exec_command"}))
        measure(run)
    reply, flood = run.found["reply"], run.found["output_10mb_exec_command"]
    assert 200 < reply["python_calls"] < 2_000
    assert reply["frames"] == int(reply["frames"]) > 5
    assert reply["bytes_to_model"] > 1_000
    assert flood["timer_ms_a_mb"] < 38  # a rest of 10 ms after each 256 KB
    if has_tracer():
        assert reply["sys.fdatasync"] >= 1
        assert flood["sys.execve"] >= 3
    else:
        assert run.left_out == ["system calls: there is no strace here"]
