"""What the end-to-end tests share: a scripted model and the real program beside it, and words for what they expect."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.golden.matchers import AtLeast
from understudy.testing import Call, McpProcess, Script, ScriptedModel
from understudy.testing import text_of as text_of
from understudy.testing import thread_of as thread_of

FORBIDDING: dict[str, Any] = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
ANSWERS_NO_QUESTION: dict[str, Any] = {}  # the capabilities of a client that cannot be asked


@asynccontextmanager
async def scene(script: Script, cwd: Path, **options: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=cwd, **options) as client:
        yield model, client


def kinds(events: list[dict[str, Any]], *left_out: str) -> list[str]:
    return [event["type"] for event in events if event["type"] not in left_out]


ANY_REPORT = AtLeast({"files": [], "commands": []})  # of a turn, whatever it did


def answered(text: str, thread: str) -> dict[str, Any]:
    note = f"\n\nthreadId: {thread} (to continue this session, call codex-reply with it)"
    content = [{"text": text, "type": "text"}, {"text": note, "type": "text"}]
    return {"content": content, "structuredContent": {"threadId": thread, "content": text, "report": ANY_REPORT}}


def failed(text: str, thread: str) -> dict[str, Any]:
    return {**answered(text, thread), "isError": True, "error": text}


async def session_of(client: McpProcess, call: Call) -> str:
    return str((await client.event("session_configured", call))["session_id"])


def told_to_model(request: Mapping[str, Any], call_id: str = "call1") -> str:
    """What a Chat request says of the outcome of a call."""
    found = [message for message in request["messages"] if message["role"] == "tool" and message["tool_call_id"] == call_id]
    assert len(found) == 1, found
    return str(found[0]["content"])


def users_in(request: Mapping[str, Any]) -> list[str]:
    """The texts of user messages in a Chat request, without the context that goes before them."""
    texts = [message["content"] for message in request["messages"] if message["role"] == "user"]
    plain = [text if isinstance(text, str) else "".join(part.get("text", "") for part in text) for text in texts]
    return [text for text in plain if not text.startswith("<")]


def names_offered(request: dict[str, Any]) -> set[str]:
    """The tools of a request, on either wire."""
    return {tool["function"]["name"] if "function" in tool else tool["name"] for tool in request["tools"]}


def is_alive(pid: int) -> bool:
    """A process that runs; one that is dead and not yet reaped counts as gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
