"""A Python client over HTTP plays a scene: `python python_http.py TASK`, as typescript_http.mjs has it."""

import asyncio
import json
import re
import sys
from typing import Any

from python_lines import LINES, Connection, Program

TASK: dict[str, Any] = json.loads(sys.argv[1])
progress: list[str] = []


def tell(**happened: Any) -> None:
    print(json.dumps(happened), flush=True)


def on_progress(message: str) -> None:
    if not progress:
        tell(word="progress")
    progress.append(message)


async def read_line() -> None:
    await asyncio.to_thread(sys.stdin.readline)


async def reply(client: Connection) -> dict[str, Any]:
    unasked = {"approval-policy": "never"} if TASK["line"] == "agents" else {}
    first, _ = await client.call("codex", {"prompt": "make a file", **unasked})
    second, _ = await client.call("codex-reply", {"threadId": first["threadId"], "prompt": "and now?"})
    return {"answers": [first["content"], second["content"]]}


async def once(client: Connection) -> dict[str, Any]:
    result, failed = await client.call("codex", {"prompt": "x"})
    return {"answers": [result["content"]], "failed": failed}


async def cancel(client: Connection) -> dict[str, Any]:
    running = asyncio.ensure_future(client.call("codex", {"prompt": "x"}))
    await read_line()
    running.cancel()
    await asyncio.wait([running], timeout=60)
    return {"answers": []}


async def pause(client: Connection) -> dict[str, Any]:
    """Something happens to the server between two calls."""
    first, _ = await client.call("codex", {"prompt": "x"})
    tell(word="between")
    await read_line()
    second, failed = await client.call("codex-reply", {"threadId": first["threadId"], "prompt": "and now?"})
    return {"answers": [first["content"], second["content"]], "failed": failed}


async def broken(client: Connection) -> dict[str, Any]:
    """Something happens in the middle of a call. A program that is told so comes back for the answer; then both go on."""
    error = None
    try:
        result, failed = await client.call("codex", {"prompt": "x"})
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        if client.connect_again is not None:
            await client.connect_again()
        result, failed = await client.call("codex-reply", {"threadId": await thread_of_call(client)})
    again, _ = await client.call("codex-reply", {"threadId": result["threadId"], "prompt": "go on"})
    return {"answers": [result["content"], again["content"]], "failed": failed, "error": error}


async def thread_of_call(client: Connection) -> str:
    """As the first word of progress names it; without progress, the conversation that was begun last."""
    if progress:
        named = re.search(r"\(thread ([^)]+)\)", progress[0])
        assert named, progress
        return named[1]
    listed, _ = await client.call("conversationsList", {})
    return listed["conversations"][0]["conversation_id"]


async def main() -> None:
    program = Program(TASK["url"], TASK["token"], TASK["era"], TASK.get("seconds"), on_progress)
    scenes = {"reply": reply, "once": once, "cancel": cancel, "pause": pause, "broken": broken}
    async with LINES[TASK["line"]](program) as client:
        tell(word="connected")
        happened = await scenes[TASK["scene"]](client)
        tools = client.tools
    tell(tools=tools, questions=program.questions, progress=progress, **happened)


asyncio.run(main())
