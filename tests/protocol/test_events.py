"""The event catalogue, byte for byte: clients of the seed era parse exactly this."""

import json

import msgspec
import pytest

from understudy.protocol import events
from understudy.protocol.events import Duration, Event

SESSION = "67e55044-10b1-426f-9247-bb680e5fe0c8"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            events.SessionConfigured(SESSION, "m"),
            f'{{"type":"session_configured","session_id":"{SESSION}","model":"m","history_log_id":0,"history_entry_count":0}}',
        ),
        (events.TaskStarted(), '{"type":"task_started"}'),
        (events.TaskComplete(None), '{"type":"task_complete","last_agent_message":null}'),
        (events.TaskComplete("x"), '{"type":"task_complete","last_agent_message":"x"}'),
        (events.Error("x"), '{"type":"error","message":"x"}'),
        (events.BackgroundEvent("x"), '{"type":"background_event","message":"x"}'),
        (
            events.TokenCount(1, None, 2, None, 3),
            '{"type":"token_count","input_tokens":1,"cached_input_tokens":null,"output_tokens":2,'
            '"reasoning_output_tokens":null,"total_tokens":3}',
        ),
        (events.AgentMessage("x"), '{"type":"agent_message","message":"x"}'),
        (events.AgentMessageDelta("x"), '{"type":"agent_message_delta","delta":"x"}'),
        (events.AgentReasoning("x"), '{"type":"agent_reasoning","text":"x"}'),
        (events.AgentReasoningDelta("x"), '{"type":"agent_reasoning_delta","delta":"x"}'),
        (events.AgentReasoningRawContent("x"), '{"type":"agent_reasoning_raw_content","text":"x"}'),
        (events.AgentReasoningRawContentDelta("x"), '{"type":"agent_reasoning_raw_content_delta","delta":"x"}'),
        (
            events.ExecCommandBegin("c", ("ls", "-l"), "/w"),
            '{"type":"exec_command_begin","call_id":"c","command":["ls","-l"],"cwd":"/w"}',
        ),
        (
            events.ExecCommandOutputDelta("c", "stdout", [104, 105, 10]),
            '{"type":"exec_command_output_delta","call_id":"c","stream":"stdout","chunk":[104,105,10]}',
        ),
        (
            events.ExecCommandEnd("c", "hi\n", "", 0, Duration(1, 234000000)),
            '{"type":"exec_command_end","call_id":"c","stdout":"hi\\n","stderr":"","exit_code":0,'
            '"duration":{"secs":1,"nanos":234000000}}',
        ),
        (
            events.ExecApprovalRequest("c", ("ls",), "/w"),
            '{"type":"exec_approval_request","call_id":"c","command":["ls"],"cwd":"/w"}',
        ),
        (
            events.ExecApprovalRequest("c", ("ls",), "/w", "why"),
            '{"type":"exec_approval_request","call_id":"c","command":["ls"],"cwd":"/w","reason":"why"}',
        ),
        (
            events.ApplyPatchApprovalRequest("c", {"/w/a": "delete"}),
            '{"type":"apply_patch_approval_request","call_id":"c","changes":{"/w/a":"delete"}}',
        ),
        (
            events.PatchApplyBegin("c", False, {"/w/a": {"add": {"content": "x\n"}}}),
            '{"type":"patch_apply_begin","call_id":"c","auto_approved":false,"changes":{"/w/a":{"add":{"content":"x\\n"}}}}',
        ),
        (
            events.PatchApplyEnd("c", "o", "e", True),
            '{"type":"patch_apply_end","call_id":"c","stdout":"o","stderr":"e","success":true}',
        ),
        (events.TurnDiffEvent("d"), '{"type":"turn_diff","unified_diff":"d"}'),
        (
            events.McpToolCallBegin("c", events.McpInvocation("s", "t")),
            '{"type":"mcp_tool_call_begin","call_id":"c","invocation":{"server":"s","tool":"t","arguments":null}}',
        ),
        (
            events.McpToolCallEnd("c", events.McpInvocation("s", "t", {"a": 1}), Duration(0, 1500000), {"Err": "no"}),
            '{"type":"mcp_tool_call_end","call_id":"c","invocation":{"server":"s","tool":"t","arguments":{"a":1}},'
            '"duration":{"secs":0,"nanos":1500000},"result":{"Err":"no"}}',
        ),
        (
            events.PlanUpdate(None, (events.PlanStepEvent("Look", "in_progress"),)),
            '{"type":"plan_update","explanation":null,"plan":[{"step":"Look","status":"in_progress"}]}',
        ),
        (
            events.GetHistoryEntryResponse(1, 2),
            '{"type":"get_history_entry_response","offset":1,"log_id":2}',
        ),
        (events.ShutdownComplete(), '{"type":"shutdown_complete"}'),
    ],
)
def test_an_event_has_exactly_these_members(event: Event, text: str) -> None:
    assert json.loads(msgspec.json.encode(event)) == json.loads(text)
    assert msgspec.json.encode(event).decode() == text


def test_the_catalogue_is_the_seed_s_and_two_of_ours() -> None:
    known = {str(kind.__struct_config__.tag) for kind in Event.__subclasses__()}
    assert len(known - {"user_message", "approval_request"}) == 25
    assert {"user_message", "approval_request"} <= known


@pytest.mark.parametrize(
    ("seconds", "duration"),
    [(0.0, Duration(0, 0)), (1.5, Duration(1, 500_000_000)), (0.25, Duration(0, 250_000_000)), (3600.0, Duration(3600, 0))],
)
def test_a_duration_is_seconds_and_nanoseconds(seconds: float, duration: Duration) -> None:
    assert Duration.of(seconds) == duration
