"""Runs the real program, with a configuration folder of its own and little of our environment."""

import asyncio
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from understudy.cli.commands import run as run_command
from understudy.testing import McpProcess
from understudy.testing.waiting import WAIT_SECONDS

CTRL_C = "\x03"
CTRL_D = "\x04"
LONGEST = 4 * WAIT_SECONDS

Answer = tuple[str, str | Callable[[], object]]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Program:
    home: Path
    cwd: Path

    def run(
        self,
        *words: str,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        seconds: float = LONGEST,
    ) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "understudy", *words],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd or self.cwd,
            env=self.environment(env),
            timeout=seconds,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="surrogateescape"))

    async def run_aside(self, *words: str, env: Mapping[str, str] | None = None, seconds: float = LONGEST) -> Ended:
        """`run`, while this process answers as the model."""
        return await asyncio.to_thread(self.run, *words, env=env, seconds=seconds)

    def call(self, *words: str, stdin: str | bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Ended:
        """The same in this process, which is many times faster; for commands that need no event loop or terminal."""
        kept = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(stream, encoding="utf-8", write_through=True) for stream in kept)
        given = io.TextIOWrapper(io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin), encoding="utf-8")
        surroundings = patch.dict(os.environ, self.environment(env), clear=True)
        with surroundings, chdir(cwd or self.cwd), patch("sys.stdin", given), redirect_stdout(out), redirect_stderr(err):
            try:
                code = run_command(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Ended(code, *(stream.getvalue().decode() for stream in kept))

    def json(self, *words: str) -> Any:
        ended = self.call(*words)
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    def at_terminal(self, *words: str, answers: Sequence[Answer] = (), columns: int = 200) -> Ended:
        """In a terminal of its own. Each answer is a text to wait for and what is typed or done then. Both streams are in `out`."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "understudy", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.cwd,
            env=self.environment({"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50"}),
        )
        os.close(theirs)
        try:
            seen = _converse(ours, process, list(answers))
            return Ended(process.wait(LONGEST), seen, "")
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "UNDERSTUDY_STORE_URL_FILE") if name in os.environ}
        return {**kept, "HOME": str(self.home.parent), "CODEX_HOME": str(self.home), **(more or {})}

    def configure(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    def script(self, *answers: Any, **settings: str) -> None:
        """Make a scripted model that gives these answers the configured one."""
        path = self.home / "answers.json"
        path.write_text(json.dumps(answers))
        more = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        self.configure(f'model_provider = "scripted"\n{more}[understudy]\nscripted_model = {json.dumps(str(path))}\n')

    async def begin(self, prompt: str, **arguments: str) -> str:
        """A conversation, by `codex` of the real server; its id."""
        async with McpProcess(cwd=self.cwd, home=self.home) as client:
            result = await client.call_tool("codex", {"prompt": prompt, "cwd": str(self.cwd), **arguments})
            assert "structuredContent" in result, f"{result}\n{client.stderr}"
            return str(result["structuredContent"]["threadId"])


def _converse(terminal: int, process: subprocess.Popen[bytes], answers: list[Answer]) -> str:
    seen, given = "", 0
    deadline = time.monotonic() + LONGEST
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"waited in vain after\n{seen}"
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side is gone
            chunk = b""
        if not chunk:
            assert not answers, f"never asked for {answers[0][0]!r}:\n{seen}"
            return seen
        seen += chunk.decode(errors="replace")
        if answers and answers[0][0] in seen[given:]:
            given = len(seen)
            typed = answers.pop(0)[1]
            if not isinstance(typed, str):
                typed()
            elif typed == CTRL_C:
                process.send_signal(signal.SIGINT)  # as the terminal would, were it the program's own
            else:
                os.write(terminal, typed.encode())
