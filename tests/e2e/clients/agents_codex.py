"""The Agents SDK's Codex: threads by a program named `codex`, and the tool made of it. argv is the task as JSON."""

import asyncio
import dataclasses
import importlib
import json
import sys
from typing import Any

agents: Any = importlib.import_module("agents")  # of this script's environment, not of the one that checks its types
sdk: Any = importlib.import_module("agents.extensions.experimental.codex")
testing: Any = importlib.import_module("agents.testing")

task = json.loads(sys.argv[1])
settings: dict[str, Any] = {
    "codex_path_override": task["codex"],
    "base_url": task["url"],
    "api_key": "sk-of-a-test",
    "env": task["env"],
}
options: dict[str, Any] = {
    "model": "gpt-5.5",
    "sandbox_mode": "workspace-write",
    "working_directory": task["cwd"],
    "skip_git_repo_check": True,
    "approval_policy": "never",
    "additional_directories": [task["more"]],
}


def plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


async def main() -> None:
    seen: dict[str, Any] = {}
    codex = sdk.Codex(**settings)
    thread = codex.start_thread(sdk.ThreadOptions(**options))
    first = await thread.run("first")
    seen["first"] = {"answer": first.final_response, "items": [plain(item) for item in first.items], "usage": plain(first.usage)}
    image = {"type": "local_image", "path": task["image"]}
    texts = [{"type": "text", "text": "second"}, {"type": "text", "text": "part"}]
    second = await thread.run([*texts, image, image], sdk.TurnOptions(output_schema=task["schema"]))
    seen["second"] = second.final_response
    again = codex.resume_thread(thread.id, sdk.ThreadOptions(**options))
    streamed = await again.run_streamed([{"type": "text", "text": "third"}, image])
    seen["third"] = [plain(event) async for event in streamed.events]
    seen["ids"] = [thread.id, again.id]
    try:
        await again.run("fourth")
    except Exception as error:
        seen["failure"] = str(error)
    stop = asyncio.Event()
    try:
        other = codex.start_thread(sdk.ThreadOptions(**{**options, "sandbox_mode": "danger-full-access"}))
        aborted = await other.run_streamed("fifth", sdk.TurnOptions(signal=stop))
        async for event in aborted.events:
            if plain(getattr(event, "item", None)) and event.item.type == "command_execution":
                stop.set()
        seen["aborted"] = "ended"
    except Exception as error:
        seen["aborted"] = type(error).__name__
    tool = sdk.codex_tool(codex=codex, default_thread_options=sdk.ThreadOptions(**options))
    called = testing.function_call("codex", {"inputs": [{"type": "text", "text": "sixth"}]}, call_id="c1")
    model = testing.ScriptedModel([[called], [testing.assistant_message("told")]])
    ran = await agents.Runner.run(agents.Agent(name="boss", model=model, tools=[tool]), "go")
    seen["tool"] = [item.output for item in ran.new_items if item.type == "tool_call_output_item"]
    print(json.dumps(seen, default=str))


asyncio.run(main())
