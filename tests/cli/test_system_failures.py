"""Arguments that are no text, and a folder that is gone: every command says so in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import Program
from understudy.cli.system_failures import FOLDER_GONE

ODD = os.fsdecode(b"\xff")


@pytest.mark.parametrize(
    "words",
    [
        ("exec", "--skip-git-repo-check", "-m", ODD, "hello"),
        ("exec", "--skip-git-repo-check", "-C", ODD, "hello"),
        ("mcp", "add", "name", "--", ODD),
        ("mcp", "add", "name", "--env", f"A={ODD}", "--", "true"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_an_argument_that_is_no_text_is_named(program: Program, words: tuple[str, ...]) -> None:
    program.script({"say": "never asked"})
    before = (program.home / "config.toml").read_text()
    ended = program.run(*words)
    assert (ended.code, ended.out) == (1, "")
    assert "Traceback" not in ended.err
    assert r"\udcff" in ended.err
    assert "is not valid UTF-8" in ended.err
    assert (program.home / "config.toml").read_text() == before


@pytest.mark.parametrize("words", [("exec", "hello"), ("review",), ("mcp", "list")], ids=" ".join)
def test_a_folder_that_is_gone_is_said_to_be(program: Program, words: tuple[str, ...], tmp_path: Path) -> None:
    program.script({"say": "never asked"})
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'rmdir "$PWD" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, "-m", "understudy", *words],
        cwd=gone,
        env=program.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"understudy: {FOLDER_GONE}\n")
