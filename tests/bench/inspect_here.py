"""The agent of docs/evaluation.md in the base class of inspect-swe, on this machine: argv is the task as JSON.

Inspect's sandbox and bridge need their own program in a container. What stands for them here runs the command on this machine, and
says where the scripted model is.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

task = json.loads(sys.argv[1])
sys.path.insert(0, task["folder"])
util: Any = importlib.import_module("inspect_ai.util")
base: Any = importlib.import_module("inspect_swe.acp.agent")
schema: Any = importlib.import_module("acp.schema")
agent_state: Any = importlib.import_module("inspect_ai.agent").AgentState
messages: Any = importlib.import_module("inspect_ai.model")
base.sample_active = lambda: object()  # what a solver has
page: Any = importlib.import_module("understudy_agent")


class Process:
    """A command on this machine, as `ExecRemoteProcess` has it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def write_stdin(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def close_stdin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def __aiter__(self) -> AsyncIterator[Any]:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(65536):
            yield util.ExecStdout(data=chunk.decode())
        yield util.ExecCompleted(exit_code=await self._process.wait(), success=True, stdout="", stderr="")


class Here:
    def __init__(self, name: str | None) -> None: ...

    async def write_file(self, file: str, contents: str) -> None:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(contents)

    async def exec_remote(self, cmd: list[str], options: Any) -> Process:
        assert options.stdin_open
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), asyncio.subprocess.PIPE)
        return Process(await asyncio.create_subprocess_exec(*cmd, cwd=options.cwd, env=task["env"] | options.env, **pipes))


@asynccontextmanager
async def bridge(state: Any, **more: Any) -> AsyncGenerator[Any]:
    yield SimpleNamespace(port=task["port"], state=state, mcp_server_configs=[])


async def main() -> None:
    page.sandbox, page.sandbox_agent_bridge, page.store = Here, bridge, lambda: SimpleNamespace(get=_get, set=_get)
    page.Understudy.command, page.Understudy.home = task["command"], task["home"]
    model = messages.get_model("mockllm/model")
    agent = page.Understudy(cwd=task["cwd"], model=model, system_prompt="Be brief.")
    running = asyncio.ensure_future(agent(agent_state(messages=[])))
    while agent.conn is None:  # it makes a new `ready` when it is started
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)
    prompt = [schema.TextContentBlock(type="text", text="make a file")]
    answer = await agent.conn.prompt(session_id=agent.session_id, prompt=prompt)
    running.cancel()
    await asyncio.wait([running])
    print(json.dumps({"stop": answer.stop_reason}))


def _get(name: str, value: Any = None) -> Any:
    return value


async def within(seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await main()


asyncio.run(within(task["seconds"]))
