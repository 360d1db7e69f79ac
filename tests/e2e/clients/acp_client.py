"""PyPI `agent-client-protocol` drives an agent as an editor would: argv is the task as JSON."""

import asyncio
import importlib
import json
import sys
from typing import Any

acp: Any = importlib.import_module("acp")  # of this script's environment, not of the one that checks its types
schema: Any = importlib.import_module("acp.schema")

task = json.loads(sys.argv[1])
seen: dict[str, Any] = {"asked": [], "updates": []}


class Editor:
    """Allows everything, and keeps what it is told. The library checks each message by the protocol's schema."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.question = asyncio.Event()
        self.answers = True

    def on_connect(self, connection: Any) -> None: ...

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        seen["asked"].append([option.kind for option in options])
        self.question.set()
        if not self.answers:
            await asyncio.Event().wait()
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        told = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        seen["updates"].append(told)
        if told["sessionUpdate"] == "tool_call" and told["title"].startswith("sleep"):
            self.began.set()

    async def ext_method(self, method: str, params: Any) -> Any:
        raise AssertionError(method)

    async def ext_notification(self, method: str, params: Any) -> None: ...


def say(text: str) -> Any:
    return schema.TextContentBlock(type="text", text=text)


def spawn(editor: Editor) -> Any:
    return acp.spawn_agent_process(editor, task["command"], *task["args"], env=task["env"], cwd=task["cwd"])


async def main() -> None:
    editor = Editor()
    async with spawn(editor) as (agent, process):
        hello = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        seen["version"] = hello.protocol_version
        made = await agent.new_session(cwd=task["cwd"], mcp_servers=[])
        session = seen["session"] = made.session_id
        seen["modes"] = [mode.id for mode in made.modes.available_modes]
        seen["first"] = (await agent.prompt(session_id=session, prompt=[say("edit")])).stop_reason
        waiting = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[say("wait")]))
        await editor.began.wait()
        await agent.cancel(session_id=session)
        seen["second"] = (await waiting).stop_reason
        await agent.set_session_mode(session_id=session, mode_id="untrusted")
        editor.answers = False
        editor.question.clear()
        waiting = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[say("ask")]))
        await editor.question.wait()
        process.kill()
        await process.wait()
        waiting.cancel()
    seen["before"], seen["updates"] = seen["updates"], []
    editor = Editor()
    async with spawn(editor) as (agent, process):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        seen["listed"] = [row.session_id for row in (await agent.list_sessions()).sessions]
        await agent.load_session(cwd=task["cwd"], session_id=session, mcp_servers=[])
        await editor.question.wait()  # the one that was open: it is allowed this time
        seen["replayed"], seen["updates"] = seen["updates"], []
        seen["third"] = (await agent.prompt(session_id=session, prompt=[say("more")])).stop_reason
    print(json.dumps(seen))


async def within(seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await main()


asyncio.run(within(task["seconds"]))
