"""How the program ends where its surroundings are odd: readers that leave, Ctrl-C, closed streams, poor encodings, Windows."""

import asyncio
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.program import LONGEST, Program

ROOT = Path(__file__).parents[2]


def _with_a_reader_that_leaves(program: Program, words: Sequence[str], lines: int) -> tuple[int, str, list[bytes]]:
    """Exit code, standard error and what the reader has taken."""
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", *words],
        cwd=program.cwd,
        env=program.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    taken = [process.stdout.readline() for _ in range(lines)]
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    return process.wait(LONGEST), said, taken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("demo",), 1),
        (("demo", "--wire"), 3),
        (("conversations",), 0),
        (("conversations", "--json"), 0),
        (("show", "ID"), 0),
        (("show", "ID", "--json"), 1),
        (("export", "ID"), 0),
        (("resume", "ID", "Once more"), 0),
        (("resume", "ID", "Once more", "--json"), 1),
        (("doctor",), 0),
        (("completion", "bash"), 1),
    ],
)
def test_a_reader_that_leaves_ends_a_command_quietly(program: Program, words: tuple[str, ...], lines: int) -> None:
    program.script({"say": "Hello."}, [{"say": f"{number}\n"} for number in range(2000)])
    one = asyncio.run(program.begin("Greet me"))
    for _ in range(3):
        asyncio.run(program.begin("And me " * 40))
    code, said, taken = _with_a_reader_that_leaves(program, [one if word == "ID" else word for word in words], lines)
    assert (code, said, all(taken)) == (0, "", True)


@pytest.mark.slow
def test_a_disk_that_is_full_is_said(program: Program) -> None:
    program.script({"say": "Hello."})
    one = asyncio.run(program.begin("Greet me"))
    for words in (("conversations",), ("show", one), ("show", one, "--json"), ("export", one), ("doctor",), ("resume", one, "Hi")):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "understudy", *words],
                cwd=program.cwd,
                env=program.environment(),
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=LONGEST,
                check=False,
            )
        assert (done.returncode, done.stderr) == (1, b"understudy: No space left on device\n"), words


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_streams_may_be_closed(program: Program, closed: tuple[int, ...]) -> None:
    """The store must not be opened as one of them."""
    program.script({"say": "Hello."}, {"say": "Hello."})
    one = asyncio.run(program.begin("Greet me"))
    closing = " ".join(f"{number}>&-" if number else "<&-" for number in closed)
    for words in ("conversations", f"show {one}", "doctor", f"resume {one} Hi", f"conversations delete {one}"):
        script = f"{sys.executable} -m understudy {words} {closing}"
        done = subprocess.run(
            ["sh", "-c", script], cwd=program.cwd, env=program.environment(), capture_output=True, timeout=LONGEST, check=False
        )
        assert done.returncode == (1 if "delete" in words else 0), done
        assert b"Traceback" not in done.stderr
    assert program.call("show", one).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1", "TERM": "dumb"},
        {"NO_COLOR": "1", "TERM": "xterm-256color"},
        {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "LC_ALL": "C"},
    ],
)
def test_every_encoding_and_terminal_gets_something_readable(program: Program, env: Mapping[str, str]) -> None:
    program.script({"say": "Grüße, 世界."}, {"say": "Noch einmal."})
    one = asyncio.run(program.begin("Begrüße [bold]alle[/bold] 🎭"))
    for words in (("conversations",), ("show", one), ("doctor",), ("show", "ffff"), ("resume", one, "Noch einmal"), ("--help",)):
        ended = program.run(*words, env=env)
        assert ended.code == (1 if "ffff" in words else 0), ended
        assert "Traceback" not in ended.err
        assert "\x1b" not in ended.out
    shown = program.run("show", one, env=env).out
    assert "[bold]alle[/bold]" in shown
    if env.get("PYTHONIOENCODING") == "ascii":
        assert "> Begr\\u{fc}\\u{df}e [bold]alle[/bold] \\u{1f3ad}" in shown


def test_a_home_that_cannot_be_used_is_said_in_one_line(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for env in ({"CODEX_HOME": str(file)}, {"CODEX_HOME": str(tmp_path / "missing")}, {"CODEX_HOME": "\udcff"}):
        for words in (("conversations",), ("show", "abcd"), ("backup", "x"), ("trust", "--list")):
            ended = program.call(*words, env=env)
            assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1), ended
            assert "CODEX_HOME" in ended.err


def test_without_a_home_in_the_environment_the_users_own_is_used(program: Program) -> None:
    env = {name: value for name, value in program.environment().items() if name not in ("HOME", "CODEX_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "understudy", "conversations", "--limit", "1"],
        cwd=program.cwd,
        env=env,
        capture_output=True,
        timeout=LONGEST,
        check=False,
    )
    own = Path(pwd.getpwuid(os.getuid()).pw_dir, ".codex")
    assert done.returncode == 0 or os.fsencode(own) in done.stderr, done.stderr  # a store of another version may be there


@pytest.mark.quick(1)
@pytest.mark.parametrize("words", [("demo",), ("resume", "ID", "Think"), ("sandbox", "--", "sleep", "600")])
def test_ctrl_c_ends_with_130_and_no_traceback(program: Program, tmp_path: Path, words: tuple[str, ...]) -> None:
    program.script({"say": "Hello."}, [{"say": "Thinking.\n", "unfinished": True}, {"hang": True}])
    one = asyncio.run(program.begin("Greet me"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", *(one if word == "ID" else word for word in words)],
        cwd=program.cwd,
        env=program.environment({"TMPDIR": str(temporary)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    if words[0] != "sandbox":
        assert process.stdout.readline()
    else:
        _wait_for_handler(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, said = process.communicate(timeout=LONGEST)
    assert (process.returncode, said) == (130, b"")
    assert list(temporary.iterdir()) == []


def _wait_for_handler(pid: int) -> None:
    """Until the program listens to SIGTERM, which it does from then on to SIGINT as well."""
    deadline = time.monotonic() + LONGEST
    bit = 1 << (signal.SIGTERM - 1)
    while time.monotonic() < deadline:
        caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) & bit:
            return
        os.sched_yield()
    raise AssertionError("it never listened")


PRETENDING_WINDOWS = """
import sys
sys.platform = "win32"
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "pty", "resource", "termios", "pwd", "grp"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
sys.argv = ["understudy", *sys.argv[1:]]
from understudy.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("words", [(), ("mcp-server",), ("doctor",)])
def test_windows_is_said_not_to_be_supported(program: Program, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRETENDING_WINDOWS, *words], env=program.environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("understudy: Windows is not supported")
    assert "WSL 2" in done.stderr


def test_setting_up_can_be_stopped_without_a_traceback(tmp_path: Path) -> None:
    """A `uv` that tells by a pipe when it is at work, and then takes its time."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    uv = f"#!/bin/sh\n[ $1 = --version ] && exec echo uv 0.13.0\necho at work > {begun}\nexec sleep 600\n"
    (tmp_path / "uv").write_text(uv)
    (tmp_path / "uv").chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "set_up.py")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert begun.read_text() == "at work\n"
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=LONGEST)
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "set-up: stopped; run it again to go on"
    assert b"Traceback" not in said
