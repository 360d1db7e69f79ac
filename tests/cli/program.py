"""Runs the real program, with a configuration folder of its own and little of our environment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST = 60.0


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Program:
    home: Path
    cwd: Path

    def run(self, *words: str, stdin: str | bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "understudy", *words],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd or self.cwd,
            env=self.environment(env),
            timeout=LONGEST,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="surrogateescape"))

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.home.parent), "CODEX_HOME": str(self.home), **(more or {})}

    def configure(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)
