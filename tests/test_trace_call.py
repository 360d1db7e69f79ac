"""The script that shows the way of one call through the files."""

import subprocess
import sys
from pathlib import Path

import pytest

MOST_CHANGES = 20  # somebody who reads along is to keep the thread
SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "trace_call.py"


@pytest.mark.slow
def test_the_way_of_a_call_begins_at_the_command_line_and_ends_where_its_answer_is_made() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    stretches = [line.split()[1] for line in done.stdout.splitlines() if line[:3].strip().isdigit() and line[3:5] == "  "]
    assert (stretches[0], stretches[-1]) == ("cli", "servers")
    assert {"servers", "engine", "config", "places", "models", "tools", "store"} < set(stretches)
    elsewhere = "only on other threads: nothing" not in done.stdout  # that thread is gone to and come back from
    assert f"{len(stretches) - 1 + 2 * elsewhere} changes of folder; " in done.stdout
    assert len(stretches) - 1 + 2 * elsewhere <= MOST_CHANGES
