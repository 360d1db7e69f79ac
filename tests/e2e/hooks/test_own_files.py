"""The user's own hooks run with the user's rights, so no model may write them: neither their files nor what they run, wherever
these lie, and whatever folder it works in."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import told_to_model
from understudy.testing import CodexHome, McpProcess, ScriptedModel, call, say

SETTLED: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}


class Person:
    """A home with the folders of both programs, and projects in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "user"
        self.codex, self.claude = self.home / ".codex", self.home / ".claude"
        self.work, self.other = self.home / "work", self.home / "other"
        for each in (self.codex, self.claude, self.work, self.other):
            each.mkdir(parents=True)
        self.ran_outside = folder / "ran-outside"  # where no command may write

    @property
    def canary(self) -> str:
        return f"echo outside >>{self.ran_outside}"

    def hook(self, command: str) -> str:
        return json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}})

    async def write_and_begin_again(
        self, cwd: Path, file: str, content: str, *, patch: bool = False, env: Mapping[str, str] = {}, again: Mapping[str, Any] = {}
    ) -> str:
        """What the model was told of its try to write; a conversation began after that."""
        text = f"*** Begin Patch\n*** Add File: {file}\n+{content}\n*** End Patch"
        words = ["apply_patch", text] if patch else ["sh", "-c", 'printf "%s\n" "$1" >"$2"', "sh", content, file]
        async with ScriptedModel([call("shell", command=words), say("done"), say("again")]) as model:
            home = CodexHome(self.codex, model, config=SETTLED)
            async with McpProcess(cwd=cwd, home=home.path, env={"HOME": str(self.home), **env}) as client:
                await client.codex("Write it.")
                await client.codex("Begin again.", **again)
            return told_to_model(model.requests[1])


@pytest.mark.quick(4)
@pytest.mark.parametrize("patch", [False, True], ids=["command", "patch"])
@pytest.mark.parametrize("where", ["home of codex", "home of claude", "named", "linked file", "linked folder", "above"])
async def test_no_model_writes_the_files_of_the_user_s_own_hooks(tmp_path: Path, where: str, patch: bool) -> None:
    person = Person(tmp_path)
    env: dict[str, str] = {}
    cwd, file = person.work, "kept/settings.json"
    match where:
        case "home of codex":
            cwd, file = person.codex, "hooks.json"
        case "home of claude":
            cwd, file = person.claude, "settings.json"
        case "named":
            (person.work / "kept").mkdir()
            env = {"CLAUDE_CONFIG_DIR": str(person.work / "kept")}
        case "above":
            cwd, file = tmp_path, "user/.claude/settings.json"
        case "linked file":
            (person.work / "kept").mkdir()
            (person.work / file).write_text("{}")
            (person.claude / "settings.json").symlink_to(person.work / file)
        case _:
            (person.work / "kept").mkdir()
            (person.work / file).write_text("{}")
            person.claude.rmdir()
            person.claude.symlink_to(person.work / "kept")
    await person.write_and_begin_again(cwd, file, person.hook(person.canary), patch=patch, env=env)
    assert not person.ran_outside.exists()


@pytest.mark.parametrize("spelled", ["WORK/guard.sh", '"$HOME"/work/guard.sh', "${HOME}/work/guard.sh", "~/work/guard.sh"])
async def test_what_such_a_hook_runs_in_any_folder_cannot_be_written_in_its_own(tmp_path: Path, spelled: str) -> None:
    person = Person(tmp_path)
    (person.work / "guard.sh").write_text("true\n")
    (person.claude / "settings.json").write_text(person.hook("sh " + spelled.replace("WORK", str(person.work))))
    told = await person.write_and_begin_again(person.work, "guard.sh", person.canary, again={"cwd": str(person.other)})
    assert not person.ran_outside.exists()
    assert "Read-only file system" in told


@pytest.mark.parametrize("command", ["sh guard.sh", 'sh "$PWD/guard.sh"'])
async def test_what_such_a_hook_finds_where_it_is_started_runs_contained_in_every_mode(tmp_path: Path, command: str) -> None:
    person = Person(tmp_path)
    (person.work / "guard.sh").write_text("true\n")
    (person.claude / "settings.json").write_text(person.hook(command))
    await person.write_and_begin_again(person.work, "guard.sh", person.canary, again={"sandbox": "read-only"})
    assert os.path.getsize(person.work / "guard.sh") > len("true\n")
    assert not person.ran_outside.exists()
