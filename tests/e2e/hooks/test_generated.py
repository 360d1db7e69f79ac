"""Hook programs that crash, hang, flood, fork, lie, change the call and race each other: nothing runs that the guard did not see.

Each seed makes a turn of calls, and for each call what the other hooks do to it. The guard writes down every command that it is
shown; each command that runs writes down itself.
"""

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.e2e.hooks.stage import AppDoor, HookStage
from understudy.testing import CodexHome, LineProcess, McpProcess, Script, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

RUNS = ("fine", "lies_allow", "rewrite", "words")  # what may run, as the guard saw it
STOPPED = ("crash", "hang", "flood", "fork", "lies_json", "lies_event", "race", "denied", "killed", "list")
CALLS = 7

OTHERS = """
import json, os, subprocess, sys, time
said = json.load(sys.stdin)
me, command = sys.argv[1], said["tool_input"]["command"]
def change(text):
    more = {{"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {{"command": text}}}}
    print(json.dumps({{"hookSpecificOutput": more}}))
if "crash" in command: sys.exit(3)
if "hang" in command: time.sleep(60)
if "flood" in command: sys.stdout.write("x" * 5_000_000)
if "killed" in command: os.kill(os.getpid(), 9)
if "list" in command: print("[1]")
if "lies_json" in command: print('{{"permission": "granted"}}')
if "lies_event" in command: print('{{"hookSpecificOutput": {{"hookEventName": "Stop", "permissionDecision": "allow"}}}}')
if "lies_allow" in command: print('{{"decision": "approve"}}')
if "words" in command: print("all is well")
if "fork" in command:
    for _ in range(5):
        subprocess.Popen(["sh", "-c", "sleep 3; echo escaped >> {ran}"], start_new_session=True)
    sys.exit(1)
if "rewrite" in command and "altered" not in command: change(command.replace("rewrite", "rewrite-altered"))
if "race" in command: change(command + " #" + me)
"""

Door = Callable[[HookStage, ScriptedModel], Awaitable[None]]


async def by_mcp(stage: HookStage, model: ScriptedModel) -> None:
    async with McpProcess(cwd=stage.work, home=stage.home, wait_seconds=4 * WAIT_SECONDS) as client:
        await client.codex("go")


async def by_exec(stage: HookStage, model: ScriptedModel) -> None:
    await asyncio.to_thread(Program(stage.home, stage.work).run, "exec", "--json", "--skip-git-repo-check", "go")


async def by_app_server(stage: HookStage, model: ScriptedModel) -> None:
    env = CodexHome(stage.home).environment()
    async with LineProcess((sys.executable, "-m", "understudy", "app-server"), cwd=stage.work, env=env) as server:
        door = AppDoor(server)
        await door.ask("initialize", clientInfo={"name": "t", "version": "0"})
        thread = (await door.ask("thread/start", cwd=str(stage.work)))["thread"]["id"]
        await door.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
        async with asyncio.timeout(4 * WAIT_SECONDS):
            await door.until("turn/completed")


DOORS: dict[str, Door] = {"mcp": by_mcp, "exec": by_exec, "app-server": by_app_server}


def commands_of(seed: int, ran: Path) -> list[str]:
    chosen = random.Random(seed)
    tags = [*chosen.sample(RUNS, 2), *chosen.sample(STOPPED, CALLS - 2)]
    chosen.shuffle(tags)
    return [f"echo {tag}-{number} >> {ran}" for number, tag in enumerate(tags)]


def calls_of(seed: int, commands: list[str]) -> Script:
    chosen = random.Random(seed)
    made: list[Any] = []
    for number, command in enumerate(commands):
        if chosen.random() < 0.5:
            made.append(call("shell", call_id=f"c{number}", command=["bash", "-c", command]))
        else:
            made.append(call("exec_command", call_id=f"c{number}", cmd=command, login=False))
    return [*made, say("done")]


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_runs_that_a_guard_did_not_see(tmp_path: Path, seed: int, door: str) -> None:
    stage = HookStage(tmp_path)
    ran = tmp_path / "ran"
    others = tmp_path / "others.py"
    others.write_text(OTHERS.format(ran=ran))
    guard = stage.program("if 'denied' in said['tool_input']['command']: sys.exit(2)", "guard")
    for number, (file, timeout) in enumerate(((".claude/settings.json", 5), (".codex/hooks.json", 5))):
        stage.install("PreToolUse", f"{sys.executable} {others} h{number}", "Bash", file=file, timeout=timeout)
    stage.install("PreToolUse", guard, "Bash", timeout=30)
    commands = commands_of(seed, ran)
    async with ScriptedModel(calls_of(seed, commands)) as model:
        CodexHome(stage.home, model)
        await DOORS[door](stage, model)
    seen = {said["tool_input"]["command"] for said in stage.told("guard")}
    lines = ran.read_text().splitlines() if ran.exists() else []
    shown = {json.dumps(command) for command in seen}
    for line in lines:
        assert any(f"echo {line} >>" in command for command in shown), (line, shown)
        assert line.rpartition("-")[0].removesuffix("-altered") in RUNS, line
    wanted = [command.split()[1] for command in commands if command.split()[1].rpartition("-")[0] in RUNS]
    assert [line.replace("-altered", "") for line in lines] == wanted
    assert all("rewrite-altered" in line for line in lines if "rewrite" in line)
