"""The conversation tools in few words, for tests."""

from __future__ import annotations

import json
from typing import Any

from understudy.testing import Call, McpProcess


def structured(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a conversation tool, which is also its text."""
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert "isError" in result
    return dict(result["structuredContent"])


async def create(client: McpProcess, **arguments: Any) -> str:
    return str(structured(await client.call_tool("conversationCreate", arguments))["conversation_id"])


def send(client: McpProcess, conversation: str, text: str, **more: Any) -> Call:
    content = [{"type": "text", "text": text}]
    return client.call_tool("conversationSendMessage", conversation_id=conversation, content=content, **more)


async def listed(client: McpProcess, **arguments: Any) -> list[dict[str, Any]]:
    return list(structured(await client.call_tool("conversationsList", arguments))["conversations"])


class Stream:
    """A `conversationStream` and all that it has given: its snapshot and the live events after it.

    Events of a stream with `after` are told apart by the conversation in `_meta`; of one without by having no `_meta`.
    """

    def __init__(self, client: McpProcess, conversation: str, *, after: int | None = None) -> None:
        self.client = client
        self.conversation = conversation
        self.after = after
        arguments: dict[str, Any] = {"conversation_id": conversation}
        if after is not None:
            arguments["after"] = after
        self.began = len(client.frames)
        self.call = client.call_tool("conversationStream", arguments)

    async def snapshot(self) -> list[dict[str, Any]]:
        """The events of `initial_state`, once it has come. The answer to the call comes before it."""
        frame = await self.client.wait_for_frame(self._is_snapshot, f"the snapshot of {self.conversation}", self.began)
        assert self.call.done
        return list(frame["params"]["initial_state"]["events"])

    def live(self) -> list[dict[str, Any]]:
        """The `params` of live events, from the snapshot on."""
        frames = self.client.frames[self.began :]
        start = next((n for n, frame in enumerate(frames) if self._is_snapshot(frame)), len(frames))
        return [frame["params"] for frame in frames[start + 1 :] if self._is_live(frame)]

    async def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        """The `count`-th event of that type, in the snapshot or live."""

        def find(_: dict[str, Any]) -> bool:
            return len([one for one in self.messages() if one["type"] == kind]) >= count

        await self.client.wait_for_frame(find, f"event {count} of type {kind} in a stream", self.began)
        return [one for one in self.messages() if one["type"] == kind][count - 1]

    def events(self) -> list[dict[str, Any]]:
        """Snapshot and live, as they came."""
        frames = self.client.frames[self.began :]
        snapshots: list[list[dict[str, Any]]] = [
            frame["params"]["initial_state"]["events"] for frame in frames if self._is_snapshot(frame)
        ]
        return [*(snapshots[0] if snapshots else ()), *self.live()]

    def messages(self) -> list[dict[str, Any]]:
        return [event["msg"] for event in self.events()]

    def kinds(self, *left_out: str) -> list[str]:
        return [one["type"] for one in self.messages() if one["type"] not in left_out]

    async def cancel(self) -> None:
        await self.client.cancel(self.call)

    def _is_snapshot(self, frame: dict[str, Any]) -> bool:
        return (
            frame.get("method") == "notifications/initial_state" and frame["params"]["_meta"]["conversationId"] == self.conversation
        )

    def _is_live(self, frame: dict[str, Any]) -> bool:
        params: dict[str, Any] = frame.get("params") or {}
        if "id" in frame or "msg" not in params or frame["method"] == "codex/event":
            return False
        meta: dict[str, Any] = params.get("_meta", {})
        if "requestId" in meta:
            return False  # an event of a call
        return meta.get("conversationId", self.conversation) == self.conversation and (self.after is not None) == bool(meta)
