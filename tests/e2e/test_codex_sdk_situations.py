"""What OpenAI's tests of its SDKs do with a `codex`, done with ours: the same requests sent, the same answers expected."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import CLIENTS, run_client
from tests.golden_exec.play import PNG
from tests.support.environments import node_with
from understudy.testing import ScriptedModel, provider_settings, say, write_config
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

SDK = "@openai/codex-sdk@0.163.0"


def watched_program(folder: Path) -> Path:
    """A program named codex, which is ours; the arguments of each start are written to the file that the environment names."""
    ours = folder / "ours" / "codex"
    ours.parent.mkdir()
    ours.symlink_to(Path(sys.executable).parent / "understudy")
    program = folder / "codex"
    kept = 'for word in "$@"; do printf "%s\\0" "$word"; done >> "$ARGV_FILE"; printf "\\0" >> "$ARGV_FILE"'
    program.write_text(f'#!/bin/sh\n{kept}\nexec "{ours}" "$@"\n')
    program.chmod(0o755)
    return program


async def test_the_situations_of_the_typescript_package(tmp_path: Path) -> None:
    folder = node_with(SDK, "--omit=optional")
    homes, work = tmp_path / "homes", tmp_path / "work"
    homes.mkdir()
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(work)], check=True)
    kept = {name: value for name, value in os.environ.items() if name.startswith("UNDERSTUDY_")}
    task: dict[str, Any] = {
        "codex": str(watched_program(tmp_path)),
        "homes": str(homes),
        "env": kept,
        "png": base64.b64encode(PNG).decode(),
        "patience": max(1.0, WAIT_SECONDS / 20),
    }
    seen = await run_client(["node", CLIENTS / "codex_sdk_situations.mjs", json.dumps(task), folder], cwd=work)
    assert {name: problem for name, problem in seen.items() if problem} == {}
    assert len(seen) == 30


PEM = """{glob_scan_max_depth=4,":root"="read","/repo/**/*.pem"="deny","/a b/.env"="deny","C:\\\\repo\\\\s.env"="deny"}"""
OVERRIDES = {
    "names with points in them": [
        'model_providers.mock.name="Mock provider"',
        "features.shell_snapshot=false",
        "features.plugins=false",
        "sandbox_workspace_write.network_access=true",
    ],
    "permissions of a profile": [f"permissions.worker.filesystem={PEM}"],
    "permissions of a profile whose name has a point": [f'permissions={{"scan.profile with spaces"={{filesystem={PEM}}}}}'],
    "a profile of permissions by default": [
        'permissions.sdk_test.filesystem={":root"="read","/tmp/codex-sdk-config.env"="write"}',
        'default_permissions="sdk_test"',
    ],
    "the same key more than once": ['approval_policy="never"', 'approval_policy="on-failure"', 'approval_policy="on-request"'],
    "a table and a key of it": [
        'openai_base_url="https://raw.example.test"',
        "sandbox_workspace_write={network_access=true}",
        'openai_base_url="https://managed.example.test"',
        "sandbox_workspace_write.network_access=false",
    ],
}


@pytest.mark.parametrize("overrides", OVERRIDES.values(), ids=OVERRIDES.keys())
async def test_overrides_as_the_package_writes_them_change_no_event(tmp_path: Path, overrides: list[str]) -> None:
    """Of a new session, and of one that is resumed."""
    async with ScriptedModel([say("one"), say("two")]) as model:
        write_config(tmp_path / "config.toml", provider_settings(model.url, "responses") | {"model_provider": "mock"})
        flags = [word for override in overrides for word in ("--config", override)]
        first = await _events(tmp_path, [*flags, "--skip-git-repo-check"])
        again = await _events(tmp_path, [*flags, "--skip-git-repo-check", "resume", first[0]["thread_id"]])
    kinds = ["thread.started", "turn.started", "item.completed", "turn.completed"]
    assert ([event["type"] for event in first], [event["type"] for event in again]) == (kinds, kinds)
    assert (first[2]["item"]["text"], again[2]["item"]["text"]) == ("one", "two")


async def test_overrides_that_nobody_knows_are_items_before_the_turn_as_with_codex(tmp_path: Path) -> None:
    unknown = ["--config", "retry_budget=3", "--config", 'tool_rules.allow=["git status", "git diff"]']
    async with ScriptedModel([say("one")]) as model:
        write_config(tmp_path / "config.toml", provider_settings(model.url, "responses"))
        started, *notes, _, answer, _ = await _events(tmp_path, [*unknown, "--skip-git-repo-check"])
    assert (started["type"], answer["item"]["text"]) == ("thread.started", "one")
    assert [note["item"]["type"] for note in notes] == ["error", "error"]


async def _events(home: Path, words: list[str]) -> list[dict[str, Any]]:
    program = Path(sys.executable).parent / "understudy"
    process = await asyncio.create_subprocess_exec(
        program,
        "exec",
        "--experimental-json",
        *words,
        cwd=home,
        env={**os.environ, "CODEX_HOME": str(home)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(4 * WAIT_SECONDS):
        out, err = await process.communicate(b"hi")
    assert process.returncode == 0, err.decode()
    return [json.loads(line) for line in out.splitlines()]
