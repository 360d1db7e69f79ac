"""Chat inside a real tmux, with the terminals that it and ssh give to programs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import LONGEST, Program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (apt-get install tmux)"),
]

ASKING = {"command": ["touch", "made.txt"], "with_escalated_permissions": True, "justification": "to see it made"}


class Tmux:
    """A server of its own, with one window."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", str(self._socket), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False, env=self._env())
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    @staticmethod
    def _env() -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"}

    def screen(self) -> str:
        return self("capture-pane", "-p", "-t", "0")

    def until(self, text: str) -> str:
        deadline = time.monotonic() + LONGEST
        while text not in (screen := self.screen()):
            assert time.monotonic() < deadline, f"{text!r} never came:\n{screen}"
            time.sleep(0.05)
        return screen


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    with tempfile.TemporaryDirectory(prefix="tmux-", dir="/tmp") as folder:  # the path of a socket has to be short
        yield Tmux(Path(folder))
        subprocess.run(["tmux", "-S", f"{folder}/tmux", "kill-server"], capture_output=True, timeout=LONGEST, check=False)


@pytest.mark.parametrize("terminal", ["tmux-256color", "screen", "xterm", "vt100"])
def test_chat_is_used_and_resized_in_tmux(program: Program, tmux: Tmux, terminal: str) -> None:
    program.script(
        {"say": "Hello **you**, from a *long* enough line to be broken where the window is narrow."},
        {"call": "shell", "arguments": ASKING},
        {"say": "It is made."},
    )
    variables = {**program.environment(), "TERM": terminal, "LANG": "C.UTF-8"}
    settings = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    ours = [sys.executable, "-m", "understudy", "chat"]
    tmux("new-session", "-d", "-x", "100", "-y", "30", "-c", str(program.cwd), *settings, "env", f"TERM={terminal}", *ours)
    tmux.until("scripted ·")
    tmux("send-keys", "-t", "0", "-l", "greet me")
    tmux("send-keys", "-t", "0", "Enter")
    assert "Hello you" in tmux.until("is narrow.")
    tmux("resize-window", "-x", "50", "-y", "24")
    tmux("send-keys", "-t", "0", "-l", "make a file")
    tmux.until("make a file")
    tmux("send-keys", "-t", "0", "Enter")
    assert "Allow the agent to run `touch made.txt`" in tmux.until("[y]")
    tmux("send-keys", "-t", "0", "y")
    tmux.until("It is made.")
    assert (program.cwd / "made.txt").exists()
    [listed] = program.json("conversations", "--json")
    assert "greet me" in json.dumps(listed)
