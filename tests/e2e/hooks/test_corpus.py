"""Hook files in the shapes in which people publish them, run unchanged: `corpus/LIST.json` names the pattern of each."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.config.hooks.entries import Family, HookFile, read_json
from understudy.engine.hooks.answers import HookAnswer, read_answer
from understudy.engine.hooks.matching import is_about, matches
from understudy.engine.hooks.running import run_hook
from understudy.sandbox.runner import Sandbox

FOLDER = Path(__file__).with_name("corpus")
LIST: list[dict[str, Any]] = json.loads((FOLDER / "LIST.json").read_text())
ALSO = {"apply_patch": ("apply_patch", "Edit", "Write"), "Edit": ("Edit", "apply_patch"), "Write": ("Write", "apply_patch")}
PATTERNS = ("formatter", "secret scanner", "path guard", "commit rules", "notifier", "test gate", "logger")


def test_all_files_are_listed_with_the_pattern_that_they_stand_for() -> None:
    assert {row["name"] for row in LIST} == {file.stem for file in FOLDER.glob("*.json")} - {"LIST"}
    assert len(LIST) >= 60
    for pattern in PATTERNS:
        assert any(row["pattern"].startswith(pattern) for row in LIST), pattern


@pytest.mark.slow
async def test_each_does_what_it_is_published_for(tmp_path: Path) -> None:
    sandbox = Sandbox()
    room = asyncio.Semaphore(4)
    try:
        found = await asyncio.gather(*(_did(row, sandbox, tmp_path, room) for row in LIST))
    finally:
        await sandbox.close()
    wrong = [(row["name"], did) for row, did in zip(LIST, found, strict=True) if did != row["code"]]
    assert wrong == []


async def _did(row: dict[str, Any], sandbox: Sandbox, cwd: Path, room: asyncio.Semaphore) -> int:
    """As `understudy hooks test` says it: 0 allows, 1 is broken, 2 blocks or asks."""
    family: Family = row["program"]
    entries = read_json(HookFile(f"/{row['name']}.json", family, "user"), (FOLDER / f"{row['name']}.json").read_bytes())
    if entries.problems:
        return 1
    given = row["given"]
    name = given.get("tool_name") or given.get("source") or given.get("trigger") or ""
    names = ALSO.get(name, (name,))
    hooks = [
        hook
        for hook in entries.hooks
        if hook.event == given["hook_event_name"] and matches(hook, names) and is_about(hook, names, given.get("tool_input", {}))
    ]
    answers: list[HookAnswer] = []
    for hook in hooks:
        async with room:
            payload = msgspec.json.encode({"session_id": "s", "cwd": str(cwd), **given})
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(cwd), "TMPDIR": str(cwd)}
            ran = await run_hook(hook, payload, sandbox=sandbox, cwd=str(cwd), env=env, containment=None, owner="test")
        answers.append(read_answer(hook.event, family, ran))
    if not hooks or any(answer.status == "failed" for answer in answers):
        return 1
    return 2 if any(answer.decision in ("deny", "ask") for answer in answers) else 0
