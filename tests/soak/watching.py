"""A stream as a schedule sees it: from its snapshot on, until it is turned off, taken over or cut by the death of its server."""

from __future__ import annotations

from typing import Any

from tests.soak.truth import Seen
from understudy.testing import Call, McpProcess


class Watched:
    def __init__(self, server: McpProcess, conversation: str, after: int | None) -> None:
        self.server = server
        self.conversation = conversation
        self.after = after
        self.began = len(server.frames)
        self.ended: int | None = None  # the frame at which it was over
        self.cut = False  # over before its end: what comes last may be incomplete
        arguments: dict[str, Any] = {"conversation_id": conversation}
        if after is not None:
            arguments["after"] = after
        self.call: Call = server.call_tool("conversationStream", arguments)

    def finish(self, *, cut: bool) -> None:
        if self.ended is None:
            self.ended = len(self.server.frames)
            self.cut = cut

    @property
    def last_seen(self) -> int:
        return max((seq for seq, _ in self.events()), default=self.after or 0)

    def events(self) -> list[Seen]:
        """Records only, with their numbers; without numbers (a stream without `after`) these are 0."""
        return [(seq, msg) for seq, msg in self.everything() if not msg["type"].endswith("_delta")]

    def everything(self) -> list[Seen]:
        found: list[Seen] = []
        started = False
        for frame in self.server.frames[self.began : self.ended]:
            params: dict[str, Any] = frame.get("params") or {}
            method = frame.get("method")
            if method == "notifications/stream_disconnected" and params["_meta"].get("requestId") == self.call.id:
                break  # perhaps before its snapshot: the next one is that of the stream which took over
            if not started:
                if method == "notifications/initial_state" and params["_meta"]["conversationId"] == self.conversation:
                    started = True
                    found += [self._seen(event) for event in params["initial_state"]["events"]]
            elif self._is_ours(frame, params):
                found.append(self._seen(params))
        return found

    def _is_ours(self, frame: dict[str, Any], params: dict[str, Any]) -> bool:
        if "id" in frame or "msg" not in params or frame["method"] == "codex/event":
            return False
        meta: dict[str, Any] = params.get("_meta", {})
        if "requestId" in meta or bool(meta) != (self.after is not None):
            return False
        return not meta or meta["conversationId"] == self.conversation

    @staticmethod
    def _seen(event: dict[str, Any]) -> Seen:
        return event.get("_meta", {}).get("seq", 0), event["msg"]


def check_stream(stream: Watched, truth: list[Seen], *, whole: bool) -> None:
    """Snapshot and live together are the projection of the log after the cursor: each event once, in order."""
    seen = stream.events()
    expected = [(seq, msg) for seq, msg in truth if seq > (stream.after or 0)]
    if stream.after is None:
        expected = [(0, msg) for _, msg in expected]
    where = f"stream of {stream.conversation} after {stream.after}"
    assert seen == expected[: len(seen)], _difference(where, seen, expected)
    if whole:
        assert len(seen) == len(expected), (
            f"{where}: {len(seen)} of {len(expected)} events came; missing {expected[len(seen) :][:3]}"
        )
    _check_deltas(stream.everything(), where)


def _check_deltas(events: list[Seen], where: str) -> None:
    """Deltas before a message are a beginning of it; their numbers never go back."""
    told, numbers = "", [seq for seq, _ in events]
    assert numbers == sorted(numbers), f"{where}: numbers go back"
    for _, event in events:
        match event["type"]:
            case "agent_message_delta":
                told += event["delta"]
            case "agent_message":
                assert event["message"].startswith(told), f"{where}: {told!r} was shown of {event['message']!r}"
                told = ""
            case "error" | "task_complete":
                told = ""  # it was cut off
            case "background_event" if not event["message"].startswith("stream error"):
                told = ""  # it went another way
            case _:
                pass


def _difference(where: str, seen: list[Seen], expected: list[Seen]) -> str:
    for number, (one, other) in enumerate(zip(seen, expected, strict=False)):
        if one != other:
            return f"{where}: event {number} is {one}, not {other}; before it {seen[max(0, number - 3) : number]}"
    return f"{where}: {len(seen) - len(expected)} events too many, beginning with {seen[len(expected)]}"
