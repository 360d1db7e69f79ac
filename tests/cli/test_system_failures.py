"""Arguments that are no text, a folder that is gone, a disk that is full: every command says so in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import LONGEST, Program
from understudy.cli.ending import FOLDER_GONE

ODD = os.fsdecode(b"\xff")


@pytest.mark.quick(2)
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
        timeout=LONGEST,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"understudy: {FOLDER_GONE}\n")


# Starts a program that can write nothing to any file, as on a disk that is full.
WITHOUT_ROOM = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("token", "add", "bob"), "understudy/tokens.toml"),
        (("trust", "."), "understudy/trust.json"),
        (("login", "--with-api-key"), "understudy/credentials.json"),
        (("serve", "--port", "0"), "understudy/token"),
        (("mcp", "add", "name", "--", "true"), "config.toml"),
    ],
    ids=["token", "trust", "login", "serve", "mcp"],
)
def test_a_file_that_does_not_fit_on_the_disk_is_named_and_nothing_of_it_is_left(
    program: Program, words: tuple[str, ...], file: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROOM, sys.executable, "-m", "understudy", *words],
        cwd=program.cwd,
        env=program.environment({"PYTHONDONTWRITEBYTECODE": "1"}),
        input="sk-secret\n",
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"understudy: {program.home / file} cannot be written: File too large\n"
    left = [name for folder in (program.home, program.home / "understudy") for name in os.listdir(folder)]
    assert [name for name in left if name.startswith(".")] == []


# Starts a program that can start no thread: there is no room for a stack. So it is also for root, whom no limit on processes holds.
WITHOUT_THREADS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (1 << 36, resource.getrlimit(resource.RLIMIT_STACK)[1]))
resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere stacks are not bounded so")
@pytest.mark.parametrize("words", [("exec", "--skip-git-repo-check", "hi"), ("doctor",), ("mcp-server",)])
def test_where_no_thread_can_be_started_that_is_said_without_a_traceback(program: Program, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THREADS, sys.executable, "-m", "understudy", *words],
        cwd=program.cwd,
        env=program.environment(),
        input='{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "codex", "arguments": {"prompt": "hi"}}}\n',
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert words == ("doctor",) or "no more processes or threads can be started" in done.stdout + done.stderr, done
