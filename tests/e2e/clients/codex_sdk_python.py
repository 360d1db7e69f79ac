"""PyPI `openai-codex-sdk` runs threads by a program named `codex`: argv is the task as JSON."""

import asyncio
import importlib
import json
import sys
from typing import Any

sdk: Any = importlib.import_module("openai_codex_sdk")  # of this script's environment, not of the one that checks its types

task = json.loads(sys.argv[1])
options = {
    "model": "gpt-5.5",
    "sandbox_mode": "workspace-write",
    "working_directory": task["cwd"],
    "skip_git_repo_check": True,
    "approval_policy": "never",
    "additional_directories": [task["more"]],
}


async def main() -> None:
    seen: dict[str, Any] = {}
    codex = sdk.Codex(
        {"codex_path_override": task["codex"], "base_url": task["url"], "api_key": "sk-of-a-test", "env": task["env"]}
    )
    thread = codex.start_thread(options)
    first = await thread.run("first")
    seen["first"] = {
        "answer": first.final_response,
        "items": [item.model_dump() for item in first.items],
        "usage": first.usage.model_dump(),
    }
    image = {"type": "local_image", "path": task["image"]}
    texts = [{"type": "text", "text": "second"}, {"type": "text", "text": "part"}]
    second = await thread.run([*texts, image, image], {"output_schema": task["schema"]})
    seen["second"] = second.final_response
    again = codex.resume_thread(thread.id, options)
    streamed = await again.run_streamed([{"type": "text", "text": "third"}, image])
    seen["third"] = [event.model_dump() async for event in streamed.events]
    seen["ids"] = [thread.id, again.id]
    try:
        await again.run("fourth")
    except Exception as error:
        seen["failure"] = str(error)
    stop = sdk.AbortController()
    try:
        aborted = await codex.start_thread({**options, "sandbox_mode": "danger-full-access"}).run_streamed(
            "fifth", {"signal": stop.signal}
        )
        async for event in aborted.events:
            if getattr(getattr(event, "item", None), "type", "") == "command_execution":
                stop.abort()
        seen["aborted"] = "not at all"
    except Exception as error:
        seen["aborted"] = type(error).__name__
    print(json.dumps(seen, default=str))


asyncio.run(main())
