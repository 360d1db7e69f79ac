"""The modern face: what the last server that upstream shipped sent for the same things, record by record."""

import json
from typing import Any

import pytest

from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.items import FunctionCall, Message, OutputText, Reasoning, Usage
from understudy.protocol.records import (
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Delta,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    ReasoningDelta,
    Record,
    RequestSent,
    RetryScheduled,
    TextDelta,
    TokensCounted,
    ToolCallBegan,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.wire_events import modern_events
from understudy.servers.wire_events.modern_events import ModernCodec

AT = 1754913600.25
CHANGES: dict[str, FileChange] = {
    "/w/a": AddFile("x\n"),
    "/w/b": DeleteFile("gone"),
    "/w/c": UpdateFile("@@ -1 +1 @@\n-a\n+b\n", "/w/d"),
}
ON_WIRE = {
    "/w/a": {"type": "add", "content": "x\n"},
    "/w/b": {"type": "delete", "content": "gone"},
    "/w/c": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n", "move_path": "/w/d"},
}
LS: dict[str, Any] = {
    "command": ["ls", "a b"],
    "cwd": "/w",
    "parsed_cmd": [{"type": "unknown", "cmd": "ls 'a b'"}],
    "source": "agent",
}
STARTED = CommandStarted("c", ("ls", "a b"), "/w", contained=True)
COMPLETE: dict[str, Any] = {"type": "task_complete", "turn_id": "1", "last_agent_message": None, "completed_at": 1754913600}
FAILED: dict[str, Any] = {"type": "error", "message": "the turn failed"}


class Log:
    """A conversation's log."""

    def __init__(self, *records: tuple[Record, str]) -> None:
        self.entries = [Entry(seq, seq - 1, turn, AT, record) for seq, (record, turn) in enumerate(records, start=1)]

    def codec(self, after: int = 0) -> ModernCodec:
        """Of a viewer who begins there, and whose codec has been told of what was before."""
        codec = ModernCodec("thread")
        for entry in self.entries[:after]:
            codec.note(entry)
        return codec

    def told(self, codec: ModernCodec, *numbers: int) -> list[dict[str, Any]]:
        """The events of these entries; of all when none are named."""
        chosen = [self.entries[number - 1] for number in numbers] or self.entries
        encoded = [event for entry in chosen for event in codec.events(LiveEntry(entry))]
        assert [event.type.decode() for event in encoded] == [json.loads(event.msg)["type"] for event in encoded]
        return [json.loads(event.msg) for event in encoded]


def told(*records: Record) -> list[dict[str, Any]]:
    log = Log(*((record, "1") for record in records))
    return log.told(log.codec())


RECORDS: list[tuple[Record, list[dict[str, Any]]]] = [
    (
        Opened("id", "m", Overrides(cwd="/w", approval_policy="never"), "openai"),
        [
            {
                "type": "session_configured",
                "session_id": "id",
                "thread_id": "id",
                "model": "m",
                "model_provider_id": "openai",
                "approval_policy": "never",
                "approvals_reviewer": "user",
                "cwd": "/w",
            }
        ],
    ),
    (
        TurnStarted("1", window=10_000),
        [{"type": "task_started", "turn_id": "1", "started_at": 1754913600, "model_context_window": 9_500}],
    ),
    (
        TurnStarted("1"),
        [{"type": "task_started", "turn_id": "1", "started_at": 1754913600, "model_context_window": None}],
    ),
    (TurnEnded("completed", "x"), [COMPLETE | {"last_agent_message": "x"}]),
    (
        TurnEnded("interrupted", "Turn interrupted"),
        [{"type": "turn_aborted", "turn_id": "1", "reason": "interrupted", "completed_at": 1754913600}],
    ),
    (TurnEnded("failed", "no"), [{"type": "error", "message": "no"}, COMPLETE | {"error": {"message": "no"}}]),
    (
        TurnEnded("failed"),
        [{"type": "error", "message": "the turn failed"}, COMPLETE | {"error": {"message": "the turn failed"}}],
    ),
    (
        ItemReceived(Message("assistant", (OutputText("x"),))),
        [{"type": "agent_message", "message": "x", "phase": None, "memory_citation": None}],
    ),
    (Noticed("n"), [{"type": "background_event", "message": "n"}]),
    (
        RetryScheduled(2, 5, 1.752, "unexpected status 503 Busy; wait", 503),
        [
            {
                "type": "stream_error",
                "message": "Reconnecting... 2/5",
                "codex_error_info": {"response_stream_disconnected": {"http_status_code": 503}},
                "additional_details": "unexpected status 503 Busy; wait",
            }
        ],
    ),
    (UserMessage("m", Message("user", ())), []),
    (
        ToolCallBegan("c", "srv", "ok", {}, read_only=True),
        [
            {
                "type": "mcp_tool_call_begin",
                "call_id": "c",
                "invocation": {"server": "srv", "tool": "ok", "arguments": {}},
                "read_only_hint": True,
            }
        ],
    ),
    (STARTED, [{"type": "exec_command_begin", "call_id": "c", "turn_id": "1", "started_at_ms": 1754913600250, **LS}]),
    (
        CommandApprovalAsked("c", ("ls", "a b"), "/w", "why"),
        [{"type": "exec_approval_request", "call_id": "c", "turn_id": "1", **LS, "reason": "why"}],
    ),
    (
        CommandApprovalAsked("c", ("ls", "a b"), "/w"),
        [{"type": "exec_approval_request", "call_id": "c", "turn_id": "1", **LS}],
    ),
    (
        PatchApprovalAsked("c", CHANGES, "why"),
        [{"type": "apply_patch_approval_request", "call_id": "c", "turn_id": "1", "changes": ON_WIRE, "reason": "why"}],
    ),
    (PatchApprovalAsked("c", {}), [{"type": "apply_patch_approval_request", "call_id": "c", "turn_id": "1", "changes": {}}]),
    (
        PatchStarted("c", CHANGES, auto_approved=True),
        [{"type": "patch_apply_begin", "call_id": "c", "turn_id": "1", "auto_approved": True, "changes": ON_WIRE}],
    ),
]


@pytest.mark.parametrize(("record", "events"), RECORDS)
def test_a_record_stands_for_these_events(record: Record, events: list[dict[str, Any]]) -> None:
    assert told(record) == events


def test_tokens_are_told_for_the_answer_and_for_the_whole_conversation() -> None:
    last = {
        "input_tokens": 10,
        "cached_input_tokens": 4,
        "output_tokens": 5,
        "reasoning_output_tokens": 0,
        "total_tokens": 15,
    }
    total = dict.fromkeys(last, 0) | {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150}
    usage = Usage(10, 5, 15, cached_input_tokens=4)
    info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": None}
    assert told(TokensCounted(usage, Usage(100, 50, 150))) == [{"type": "token_count", "info": info, "rate_limits": None}]
    assert told(TokensCounted(usage)) == [{"type": "token_count", "info": info | {"total_token_usage": last}, "rate_limits": None}]


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (3, "failed")])
def test_the_end_of_a_command_repeats_its_beginning(code: int, status: str) -> None:
    ended = {
        "type": "exec_command_end",
        "call_id": "c",
        "turn_id": "1",
        "completed_at_ms": 1754913600250,
        **LS,
        "stdout": "o",
        "stderr": "e",
        "aggregated_output": "oe",
        "exit_code": code,
        "duration": {"secs": 1, "nanos": 500000000},
        "formatted_output": "oe",
        "status": status,
    }
    assert told(STARTED, CommandEnded("c", "o", "e", code, 1.5))[1] == ended


@pytest.mark.parametrize(("success", "status"), [(True, "completed"), (False, "failed")])
def test_the_end_of_a_patch_repeats_its_changes(success: bool, status: str) -> None:
    ended = {
        "type": "patch_apply_end",
        "call_id": "c",
        "turn_id": "1",
        "stdout": "o",
        "stderr": "e",
        "success": success,
        "changes": ON_WIRE,
        "status": status,
    }
    assert told(PatchStarted("c", CHANGES, auto_approved=False), PatchEnded("c", "o", "e", success=success))[1] == ended


def command(number: int) -> CommandStarted:
    return CommandStarted("call_1", ("echo", str(number)), "/w", contained=True)


ENDED = CommandEnded("call_1", "", "", 0, 0.0)


def test_two_conversations_and_two_turns_that_use_the_same_call_id_do_not_meet() -> None:
    one = Log((command(1), "1"), (command(2), "2"), (ENDED, "1"), (ENDED, "2"))
    two = Log((command(3), "1"), (ENDED, "1"))
    first, second = one.codec(), two.codec()
    one.told(first, 1, 2)
    two.told(second, 1)
    assert [event["command"] for event in one.told(first, 3, 4)] == [["echo", "1"], ["echo", "2"]]
    assert [event["command"] for event in two.told(second, 2)] == [["echo", "3"]]


def test_a_viewer_that_comes_after_the_beginning_is_told_of_it() -> None:
    log = Log((TurnStarted("1"), "1"), (command(1), "1"), (Noticed("x"), "1"), (ENDED, "1"))
    assert [event["command"] for event in log.told(log.codec(after=3), 4)] == [["echo", "1"]]


def test_a_beginning_that_another_viewer_has_encoded_is_known_too() -> None:
    log = Log((TurnStarted("1"), "1"), (command(1), "1"), (ENDED, "1"))
    first, second = log.codec(), log.codec()
    lives = [LiveEntry(entry) for entry in log.entries]
    for live in lives:
        encoded = first.events(live)
        assert second.events(live) is encoded
    assert [event["command"] for event in log.told(second, 2, 3)] == [["echo", "1"]] * 2


def test_a_beginning_of_another_turn_is_none() -> None:
    log = Log((command(1), "1"), (TurnStarted("2"), "2"), (ENDED, "2"), (PatchEnded("call_1", "", "", success=True), "2"))
    ended, patched = log.told(log.codec(after=2), 3, 4)
    assert "command" not in ended
    assert patched["changes"] == {}


def test_what_began_and_never_ended_is_forgotten() -> None:
    log = Log(*((CommandStarted(f"c{n}", ("x",), "/", contained=True), "1") for n in range(1000)))
    codec = log.codec()
    log.told(codec)
    assert len(codec._begun) <= modern_events.MOST_BEGUN  # pyright: ignore[reportPrivateUsage]


TOLD = {"thread_id": "thread", "turn_id": "7", "delta": "é"}


@pytest.mark.parametrize(
    ("delta", "event"),
    [
        (TextDelta("é"), {"type": "agent_message_content_delta", "item_id": "msg_0", **TOLD}),
        (ReasoningDelta("é"), {"type": "reasoning_content_delta", "item_id": "rs_0", "summary_index": 0, **TOLD}),
        (ReasoningDelta("é", raw=True), {"type": "reasoning_raw_content_delta", "item_id": "rs_0", "content_index": 0, **TOLD}),
        (
            OutputDelta("c", "stderr", b"\x00\xff"),
            {"type": "exec_command_output_delta", "call_id": "c", "stream": "stderr", "chunk": "AP8="},
        ),
    ],
)
def test_a_delta_is_one_event(delta: Delta, event: dict[str, Any]) -> None:
    live = LiveDelta(delta, "7", 0)
    encoded = Log().codec().delta(live)
    assert json.loads(encoded.msg) == event
    assert encoded.type.decode() == event["type"]
    assert Log().codec().delta(live) is encoded, "many viewers share one encoding"


SAYS = ItemReceived(Message("assistant", (OutputText("x"),)))
CALLS = ItemReceived(FunctionCall("shell", "{}", "c"))
THINKS = ItemReceived(Reasoning(()))
ITEMS: list[Record] = [TurnStarted("1"), RequestSent(), THINKS, Noticed("n"), SAYS, CALLS, STARTED, RequestSent(), Noticed("n")]
AFTER = [1, 2, 2, 2, 5, 6, 6, 8, 8]  # by the record that was last before the delta, the one that names its item


def item_id(codec: ModernCodec, after: int, turn: str = "1") -> str:
    return str(json.loads(codec.delta(LiveDelta(TextDelta("x"), turn, after)).msg)["item_id"])


def test_the_deltas_of_an_item_name_it_alike_for_every_viewer_and_those_of_the_next_do_not() -> None:
    log = Log(*((record, "1") for record in ITEMS))
    names = [f"msg_{after}" for after in AFTER]
    from_the_beginning = log.codec()
    for number, name in enumerate(names, start=1):
        log.told(from_the_beginning, number)
        assert item_id(from_the_beginning, number) == name
        assert item_id(log.codec(after=number), number) == name, "whenever it came"


def test_an_item_far_into_a_turn_is_named_by_its_beginning() -> None:
    log = Log((TurnStarted("1"), "1"), (RequestSent(), "1"), *((Noticed("x"), "1") for _ in range(600)))
    assert item_id(log.codec(after=602), 602) == "msg_2"
