"""A user's house for hostile tests: a home with secrets, a project, and things beside it that must stay as they are.

It lies below /var/tmp: commands have a /tmp of their own, and what they cannot see there proves nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.testing import Answer, McpProcess, Script, ScriptedModel, call, say

KEY = "sk-house-0123456789abcdefghijklmnop"  # the provider's
TOKEN = "ghp_house9876543210zyxwvutsrqponml"  # some other service's
SSH_KEY = "PRIVATE-KEY-OF-THE-HOUSE"
LOGIN = "login-of-the-house-1234567890"

KEY_VARIABLE = "HOUSE_MODEL_KEY"
ENV = {KEY_VARIABLE: KEY, "GITHUB_TOKEN": TOKEN, "COPY_OF_IT": KEY, "PLAIN": "kept"}
NEVER: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
UNTRUSTED: dict[str, Any] = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
ON_REQUEST: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
WITH_KEY = {"model_providers.mock.env_key": KEY_VARIABLE}


Attack = tuple[str, Any]  # a tool and its arguments, as a value or as the text the model sends


@dataclass(frozen=True)
class House:
    home: Path  # of the user

    @property
    def settings(self) -> Path:
        return self.home / ".codex"

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def outside(self) -> Path:
        return self.home / "outside"

    def snapshot(self) -> dict[str, str]:
        """Every file but those in the store, by its content or where it leads."""
        found: dict[str, str] = {}
        for folder, folders, files in os.walk(self.home):  # empty folders may go meanwhile: what holds a place for a command does
            for path in sorted(Path(folder, name) for name in (*folders, *files)):
                name = path.relative_to(self.home).as_posix()
                if path.is_symlink():
                    found[name] = f"-> {path.readlink()}"
                elif path.is_file() and not name.startswith(".codex/understudy/"):
                    found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


@contextmanager
def house() -> Generator[House]:
    with tempfile.TemporaryDirectory(prefix="house-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        place = House(Path(folder).resolve())
        for path in (place.settings, place.project / "src", place.outside, place.home / ".ssh", place.home / ".aws"):
            path.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(place.project)], check=True)
        (place.project / "a.txt").write_text("one\n")
        (place.outside / "kept.txt").write_text("kept\n")
        (place.home / ".ssh" / "id_ed25519").write_text(SSH_KEY)
        (place.home / ".aws" / "credentials").write_text(SSH_KEY)
        (place.settings / "auth.json").write_text(f'{{"OPENAI_API_KEY": "{LOGIN}"}}')
        yield place


@asynccontextmanager
async def besieged(
    script: Script, place: House, config: Mapping[str, Any] = NEVER, **options: Any
) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
    """The real server in the house's project, with a model that plays `script`."""
    options.setdefault("env", ENV)
    settings = {**WITH_KEY, **config}
    async with (
        ScriptedModel(script) as model,
        McpProcess(model.url, cwd=place.project, home=place.settings, config=settings, **options) as client,
    ):
        yield model, client


def attacks(calls: Mapping[str, tuple[str, dict[str, Any]]]) -> list[Answer]:
    """A model that makes these calls, one after the other, each under its own name, and then is done."""
    return [
        *(call(tool, call_id=name, arguments_text=json.dumps(arguments)) for name, (tool, arguments) in calls.items()),
        say("done"),
    ]


def shell(*command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "shell", {"command": list(command), **more}


def script(text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return shell("bash", "-c", text, **more)


def patch(*lines: str) -> tuple[str, dict[str, Any]]:
    return "apply_patch", {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


def told(request: Mapping[str, Any]) -> dict[str, str]:
    """What a Chat request says of the outcome of each call."""
    return {message["tool_call_id"]: message["content"] for message in request["messages"] if message["role"] == "tool"}
