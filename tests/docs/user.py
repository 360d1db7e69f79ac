"""A user who tries what the documents say: a home, a project, our program, and stand-ins for the programs of others."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.testing.waiting import WAIT_SECONDS

OTHERS = ("claude", "uv", "pipx", "docker", "npx", "make")
CONVERSATION = "6d53fcc0-0000-4000-8000-000000000001"  # as the pages call it: 6d53
OLD_SESSION = "5973b6c0-94b8-487b-a530-2aeb6098ae0e"
STAND_IN = """#!{python}
import json, sys
with open({record!r}, "a") as record:
    print(json.dumps([{name!r}, *sys.argv[1:]]), file=record)
"""
OURS = """#!{python}
import json, subprocess, sys
code = subprocess.run([{python!r}, "-m", "understudy", *sys.argv[1:]]).returncode
with open({record!r}, "a") as record:
    print(json.dumps([sys.argv[1:], code]), file=record)
sys.exit(code)
"""
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+hello\n*** End Patch\n"


@dataclass(frozen=True)
class User:
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "user" / ".codex"

    @property
    def project(self) -> Path:
        return self.folder / "user" / "project"

    @property
    def answers(self) -> Path:
        return self.folder / "user" / "answers.toml"

    def run(
        self, argv: Sequence[str], *, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR") or name.startswith("UNDERSTUDY_")}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        own = {
            "HOME": str(self.home.parent),
            "CODEX_HOME": str(self.home),
            "PATH": path,
            "OPENAI_API_KEY": "sk-of-a-user-who-reads",
        }
        return subprocess.run(
            argv,
            input=stdin,
            cwd=self.project,
            env={**kept, **own, **(env or {})},
            capture_output=True,
            text=True,
            timeout=12 * WAIT_SECONDS,
            check=False,
        )

    def our_calls(self) -> list[tuple[list[str], int]]:
        """What `understudy` was called with, and how it ended."""
        return [(words, code) for words, code in _lines(self.folder / "ours")]

    def their_calls(self) -> list[list[str]]:
        return _lines(self.folder / "theirs")


def _lines(record: Path) -> list[Any]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def make_user(folder: Path) -> User:
    user = User(folder)
    for place in (user.home, user.project, user.project.parent / "cache", folder / "bin"):
        place.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=user.project, check=True, capture_output=True)
    for name in OTHERS:
        _program(folder / "bin" / name, STAND_IN.format(python=sys.executable, record=str(folder / "theirs"), name=name))
    _program(folder / "bin" / "understudy", OURS.format(python=sys.executable, record=str(folder / "ours")))
    user.answers.write_text('loop = true\n[[answers]]\nsay = "A word from the script."\n')
    (user.home / "config.toml").write_text(f'model_provider = "scripted"\n[understudy]\nscripted_model = "{user.answers}"\n')
    (user.project / "change.patch").write_text(PATCH)
    _old_session(user)
    return user


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _old_session(user: User) -> None:
    """A session of codex, which the pages import, and one that is imported already."""
    for session, place in ((OLD_SESSION, user.home / "sessions" / "2025" / "08" / "03"), (CONVERSATION, user.folder)):
        place.mkdir(parents=True, exist_ok=True)
        first = {"id": session, "timestamp": "2025-08-03T12:00:00.000Z", "instructions": None}
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
        lines = "".join(json.dumps(line) + "\n" for line in (first, said, answer))
        (place / f"rollout-2025-08-03T12-00-00-{session}.jsonl").write_text(lines)
    done = user.run(["understudy", "import", str(user.folder / f"rollout-2025-08-03T12-00-00-{CONVERSATION}.jsonl")])
    assert done.returncode == 0, done.stderr
    (user.folder / "ours").unlink()
