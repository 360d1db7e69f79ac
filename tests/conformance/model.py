"""The model of the fixture: it does what the last message says, on a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from understudy.testing import Answer, ReceivedRequest, ScriptedModel, call, say, status
from understudy.testing.script import Entry


def start_model() -> str:
    """Its address. It serves until the process ends."""
    model = ScriptedModel(_answer)
    started = threading.Event()

    async def serve() -> None:
        async with model.serving():
            started.set()
            await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    assert started.wait(60), "the model did not start"
    return model.url


def _answer(request: ReceivedRequest) -> Entry:
    messages: list[dict[str, Any]] = request.body["messages"]
    text = next(str(message["content"]) for message in reversed(messages) if message["role"] == "user")
    if messages[-1]["role"] == "tool":
        return say(f"done: {text}")
    return _begin(*text.split(maxsplit=1))


def _begin(word: str, rest: str = "") -> Answer | Any:
    match word:
        case "wait":
            return call("shell", command=["sleep", rest], timeout=100_000)
        case "delete":
            return call("shell", command=["rm", "-f", rest])
        case "fail":
            return status(400, "this model fails for testing")
        case _:
            return say(f"{word} {rest}")
