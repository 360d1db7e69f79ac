"""From records to wire events: nothing else decides what a client is shown."""

import json
from typing import Any

import pytest

from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    SummaryText,
    Usage,
)
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    DiffChanged,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanStep,
    PlanUpdated,
    ReasoningDelta,
    Record,
    RequestSent,
    TextDelta,
    TokensCounted,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.protocol.records.files import AddFile, DeleteFile, UpdateFile
from understudy.servers.wire_events.seed_events import SeedCodec, encode_user_message

CHANGES = {"/w/a": AddFile("x\n"), "/w/b": DeleteFile("gone"), "/w/c": UpdateFile("@@ -1 +1 @@\n-a\n+b\n", "/w/d")}
ON_WIRE = {
    "/w/a": {"add": {"content": "x\n"}},
    "/w/b": "delete",
    "/w/c": {"update": {"unified_diff": "@@ -1 +1 @@\n-a\n+b\n", "move_path": "/w/d"}},
}
INTERRUPTED = [{"type": "error", "message": "Turn interrupted"}, {"type": "task_complete", "last_agent_message": None}]


INVOCATION = {"server": "srv", "tool": "ok", "arguments": {"s": "x"}}
NOTHING_SAID: dict[str, Any] = {"content": []}
CALL_ENDED: dict[str, Any] = {
    "type": "mcp_tool_call_end",
    "call_id": "c",
    "invocation": INVOCATION,
    "duration": {"secs": 1, "nanos": 500000000},
}


@pytest.mark.parametrize(
    ("record", "events"),
    [
        (TurnStarted("1"), [{"type": "task_started"}]),
        (TurnEnded("completed", "x"), [{"type": "task_complete", "last_agent_message": "x"}]),
        (TurnEnded("completed"), [{"type": "task_complete", "last_agent_message": None}]),
        (TurnEnded("interrupted", "Turn interrupted", "half"), INTERRUPTED),
        (TurnEnded("failed", "no"), [{"type": "error", "message": "no"}, INTERRUPTED[1]]),
        (ItemReceived(Message("assistant", (OutputText("x"),))), [{"type": "agent_message", "message": "x"}]),
        (ItemReceived(Message("assistant", (OutputText(""),))), []),
        (ItemReceived(FunctionCall("shell", "{}", "c")), []),
        (
            ItemReceived(Reasoning((SummaryText("a"), SummaryText("b")), (ReasoningText("raw"),))),
            [{"type": "agent_reasoning", "text": "a"}, {"type": "agent_reasoning", "text": "b"}],
        ),
        (
            ItemReceived(Reasoning((), (ReasoningText("raw"),)), show_raw=True),
            [{"type": "agent_reasoning_raw_content", "text": "raw"}],
        ),
        (
            CommandStarted("c", ("ls",), "/w", contained=True),
            [{"type": "exec_command_begin", "call_id": "c", "command": ["ls"], "cwd": "/w"}],
        ),
        (
            CommandEnded("c", "o", "e", 3, 1.5, denied=True),
            [
                {
                    "type": "exec_command_end",
                    "call_id": "c",
                    "stdout": "o",
                    "stderr": "e",
                    "exit_code": 3,
                    "duration": {"secs": 1, "nanos": 500000000},
                }
            ],
        ),
        (
            CommandApprovalAsked("c", ("ls",), "/w", "why"),
            [{"type": "exec_approval_request", "call_id": "c", "command": ["ls"], "cwd": "/w", "reason": "why"}],
        ),
        (
            PatchApprovalAsked("c", CHANGES),  # pyright: ignore[reportArgumentType]
            [{"type": "apply_patch_approval_request", "call_id": "c", "changes": ON_WIRE}],
        ),
        (
            PatchStarted("c", CHANGES, auto_approved=True),  # pyright: ignore[reportArgumentType]
            [{"type": "patch_apply_begin", "call_id": "c", "auto_approved": True, "changes": ON_WIRE}],
        ),
        (
            PatchEnded("c", "o", "e", success=False),
            [{"type": "patch_apply_end", "call_id": "c", "stdout": "o", "stderr": "e", "success": False}],
        ),
        (
            ToolCallBegan("c", "srv", "ok", {"s": "x"}, read_only=True),
            [{"type": "mcp_tool_call_begin", "call_id": "c", "invocation": INVOCATION, "read_only_hint": True}],
        ),
        (
            ToolCallBegan("c", "srv", "ok"),
            [{"type": "mcp_tool_call_begin", "call_id": "c", "invocation": INVOCATION | {"arguments": None}}],
        ),
        (
            ToolCallEnded("c", "srv", "ok", 1.5, {"s": "x"}, result=NOTHING_SAID),
            [CALL_ENDED | {"result": {"Ok": NOTHING_SAID}}],
        ),
        (
            ToolCallEnded("c", "srv", "ok", 1.5, {"s": "x"}, read_only=True, error="no"),
            [CALL_ENDED | {"result": {"Err": "no"}, "read_only_hint": True}],
        ),
        (DiffChanged("d"), [{"type": "turn_diff", "unified_diff": "d"}]),
        (Noticed("n"), [{"type": "background_event", "message": "n"}]),
        (
            PlanUpdated((PlanStep("s", "pending"),), "e"),
            [{"type": "plan_update", "explanation": "e", "plan": [{"step": "s", "status": "pending"}]}],
        ),
        (
            Opened("id", "m", Overrides()),
            [{"type": "session_configured", "session_id": "id", "model": "m", "history_log_id": 0, "history_entry_count": 0}],
        ),
        (RequestSent(("m",)), []),
        (ToolAnswered(FunctionCallOutput("c", "x")), []),
        (ApprovalDecided("c", "approved", "client"), []),
        (UserMessage("m", Message("user", (InputText("x"),))), []),
    ],
)
def test_a_record_stands_for_these_events(record: Record, events: list[dict[str, Any]]) -> None:
    shown = LiveEntry(Entry(1, 0, "1", 0.0, record))
    encoded = SeedCodec().events(shown)
    assert [json.loads(event.msg) for event in encoded] == events
    assert [event.type.decode() for event in encoded] == [event["type"] for event in events]
    assert SeedCodec().events(shown) is encoded, "many viewers share one encoding"


def test_usage_is_told_as_token_count() -> None:
    shown = LiveEntry(Entry(1, 0, "1", 0.0, TokensCounted(Usage(10, 5, 15, cached_input_tokens=4))))
    [event] = SeedCodec().events(shown)
    assert json.loads(event.msg) == {
        "type": "token_count",
        "input_tokens": 10,
        "cached_input_tokens": 4,
        "output_tokens": 5,
        "reasoning_output_tokens": None,
        "total_tokens": 15,
    }


@pytest.mark.parametrize(
    ("delta", "event"),
    [
        (TextDelta('say "é"\n'), {"type": "agent_message_delta", "delta": 'say "é"\n'}),
        (ReasoningDelta("x"), {"type": "agent_reasoning_delta", "delta": "x"}),
        (ReasoningDelta("x", raw=True), {"type": "agent_reasoning_raw_content_delta", "delta": "x"}),
        (
            OutputDelta("c", "stderr", b"\x00\xff"),
            {"type": "exec_command_output_delta", "call_id": "c", "stream": "stderr", "chunk": [0, 255]},
        ),
    ],
)
def test_a_delta_is_one_event(delta: TextDelta | ReasoningDelta | OutputDelta, event: dict[str, Any]) -> None:
    encoded = SeedCodec().delta(LiveDelta(delta, "1", 0))
    assert json.loads(encoded.msg) == event
    assert encoded.type.decode() == event["type"]


def test_a_user_s_message_is_shown_with_its_images_and_parent() -> None:
    message = Message("user", (InputText("a"), InputImage("data:x"), InputText("b")))
    assert json.loads(encode_user_message(UserMessage("m", message, None, "p")).msg) == {
        "type": "user_message",
        "message": "ab",
        "message_id": "m",
        "images": ["data:x"],
        "parent_message_id": "p",
    }
