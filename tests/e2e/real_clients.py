"""A server for other people's clients, and running those clients in their own environments."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.testing import SERVER_COMMAND, Script, call, provider_settings, say, write_config
from understudy.testing.waiting import WAIT_SECONDS

CLIENTS = Path(__file__).parent / "clients"
TOOLS = ["codex", "codex-reply"]

# a command that has to be approved, the answer, and the answer to a reply
SCRIPT: Script = [call("shell", command=["touch", "made.txt"]), say("made it"), say("still there")]
ANSWERS = ["made it", "still there"]


def server_task(tmp_path: Path, model_url: str, **config: Any) -> dict[str, Any]:
    """`command`, `args`, `env` and `cwd` that start our server on that model. Clients pass on little else of their environment."""
    home, work = tmp_path / "home" / ".codex", tmp_path / "work"
    home.mkdir(parents=True)
    work.mkdir()
    write_config(home / "config.toml", provider_settings(model_url) | {"approval_policy": "untrusted"} | config)
    kept = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("UNDERSTUDY_")}
    env = {**kept, "HOME": str(home.parent), "CODEX_HOME": str(home)}
    return {"command": SERVER_COMMAND[0], "args": list(SERVER_COMMAND[1:]), "env": env, "cwd": str(work)}


async def run_client(command: Sequence[str | Path], *, env: dict[str, str] | None = None, cwd: Path | None = None) -> Any:
    """What a client printed, as JSON. Fails with its stderr if it did not end well."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **(env or {})}, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(12 * WAIT_SECONDS):  # these start slowly
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"the client failed ({process.returncode})\n{out.decode()}\n{err.decode()}"
    return json.loads(out)


async def run_python_client(python: Path, script: str, task: dict[str, Any], **env: str) -> Any:
    return await run_client([python, CLIENTS / script, json.dumps(task)], env={"PYTHONPATH": "", **env})


def question_in(cwd: str) -> str:
    return f"Allow Codex to run `touch made.txt` in `{cwd}`?"
