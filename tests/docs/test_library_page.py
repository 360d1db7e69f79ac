"""Every example of docs/library.md is a program that runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.test_testing_page import SETTINGS, run_pytest
from understudy.testing import CodexHome
from understudy.testing.waiting import WAIT_SECONDS

PAGE = ROOT / "docs" / "library.md"
DATA = '{"language": "none", "files": 0}'
ESCALATED = {"command": ["pip", "install", "nothing"], "with_escalated_permissions": True, "justification": "it is missing"}
# What the model says, and what the program prints, by a word of the example.
EXAMPLES: dict[str, tuple[list[Any], str]] = {
    "in one sentence": ([{"say": "A test."}], "A test.\n"),
    "List the files": ([{"call": "shell", "arguments": {"command": ["ls", "-a"]}}, {"say": "None."}], "$ ls -a -> 0\nNone.\n"),
    "Tell me a story": ([{"say": ["Once ", "upon ", "a time."]}], "Once upon a time.\n"),
    "def decide": ([{"call": "shell", "arguments": {**ESCALATED, "command": ["touch", "x"]}}, {"say": "Then not."}], "Then not.\n"),
    "SCHEMA =": ([{"say": DATA}], "none 0\n"),
    "range(100)": ([{"say": "It."}], "100 answers\n"),
    "#general": ([{"say": "Hello."}, {"say": "Hello again."}], "Hello.\nHello again.\n"),
    "Count to a million": ([{"say": "One."}], "done\n"),
    "cell": ([{"say": "Nothing."}, {"say": "All of it."}], "Nothing.\nAll of it.\n"),
    "start_response": ([{"say": "Nothing."}], "200 OK\nNothing.\n"),
}


def example(block: Block) -> tuple[list[Any], str]:
    if "understudy.sync import Understudy\n\nwith" in block.text:
        return EXAMPLES["cell"]
    [found] = [told for word, told in EXAMPLES.items() if word in block.text]
    return found


PROGRAMS = [block for block in blocks("python") if block.page == PAGE and "pytest" not in block.text]


def test_the_page_has_ten_examples() -> None:
    assert len(PROGRAMS) == len(EXAMPLES) == 10


@pytest.mark.quick(2)
@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.name)
def test_the_program_runs(block: Block, tmp_path: Path) -> None:
    answers, printed = example(block)
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    config = {"model_provider": "scripted", "understudy.scripted_model": str(tmp_path / "answers.json")}
    home = CodexHome(tmp_path / "home", config=config)
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "program.py").write_text(block.text)
    command = [sys.executable, "-W", "error", str(tmp_path / "program.py")]
    done = subprocess.run(
        command, cwd=work, env=home.environment(), capture_output=True, text=True, timeout=4 * WAIT_SECONDS, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)


@pytest.mark.slow
def test_the_fixture_works_in_somebody_elses_tests(tmp_path: Path) -> None:
    [block] = [block for block in blocks("python") if block.page == PAGE and "pytest" in block.text]
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_my_program.py").write_text(block.text)
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
