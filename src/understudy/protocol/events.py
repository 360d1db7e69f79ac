"""The event catalogue of the wire, in the shapes that clients of the seed era know.

Members that default to `UNSET` are left out if they have no value; members that may be `None` are always sent.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Event(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Duration(msgspec.Struct, frozen=True):
    secs: int
    nanos: int

    @classmethod
    def of(cls, seconds: float) -> "Duration":
        whole = int(seconds)
        return cls(whole, int((seconds - whole) * 1_000_000_000))


class SessionConfigured(Event, frozen=True, tag="session_configured"):
    session_id: str
    model: str
    history_log_id: int = 0
    history_entry_count: int = 0


class TaskStarted(Event, frozen=True, tag="task_started"):
    pass


class TaskComplete(Event, frozen=True, tag="task_complete"):
    last_agent_message: str | None


class Error(Event, frozen=True, tag="error"):
    message: str


class BackgroundEvent(Event, frozen=True, tag="background_event"):
    message: str


class TokenCount(Event, frozen=True, tag="token_count"):
    input_tokens: int
    cached_input_tokens: int | None
    output_tokens: int
    reasoning_output_tokens: int | None
    total_tokens: int


class AgentMessage(Event, frozen=True, tag="agent_message"):
    message: str


class AgentMessageDelta(Event, frozen=True, tag="agent_message_delta"):
    delta: str


class AgentReasoning(Event, frozen=True, tag="agent_reasoning"):
    text: str


class AgentReasoningDelta(Event, frozen=True, tag="agent_reasoning_delta"):
    delta: str


class AgentReasoningRawContent(Event, frozen=True, tag="agent_reasoning_raw_content"):
    text: str


class AgentReasoningRawContentDelta(Event, frozen=True, tag="agent_reasoning_raw_content_delta"):
    delta: str


class ExecCommandBegin(Event, frozen=True, tag="exec_command_begin"):
    call_id: str
    command: tuple[str, ...]
    cwd: str


class ExecCommandOutputDelta(Event, frozen=True, tag="exec_command_output_delta"):
    call_id: str
    stream: Literal["stdout", "stderr"]
    chunk: list[int]


class ExecCommandEnd(Event, frozen=True, tag="exec_command_end"):
    call_id: str
    stdout: str
    stderr: str
    exit_code: int
    duration: Duration


class ExecApprovalRequest(Event, frozen=True, tag="exec_approval_request"):
    call_id: str
    command: tuple[str, ...]
    cwd: str
    reason: str | UnsetType = UNSET


class ApplyPatchApprovalRequest(Event, frozen=True, tag="apply_patch_approval_request"):
    call_id: str
    changes: dict[str, Any]
    reason: str | UnsetType = UNSET
    grant_root: str | UnsetType = UNSET


class ApprovalRequest(Event, frozen=True, tag="approval_request"):
    """A question for which the old wire has no event of its own."""

    call_id: str
    kind: Literal["budget", "mcp-tool-approval", "hook", "user-input"]  # `codex_elicitation` of its question has the same values
    message: str


class PatchApplyBegin(Event, frozen=True, tag="patch_apply_begin"):
    call_id: str
    auto_approved: bool
    changes: dict[str, Any]


class PatchApplyEnd(Event, frozen=True, tag="patch_apply_end"):
    call_id: str
    stdout: str
    stderr: str
    success: bool


class TurnDiffEvent(Event, frozen=True, tag="turn_diff"):
    unified_diff: str


class McpInvocation(msgspec.Struct, frozen=True):
    server: str
    tool: str
    arguments: Any = None


class McpToolCallBegin(Event, frozen=True, tag="mcp_tool_call_begin"):
    call_id: str
    invocation: McpInvocation
    read_only_hint: bool | UnsetType = UNSET


class McpToolCallEnd(Event, frozen=True, tag="mcp_tool_call_end"):
    call_id: str
    invocation: McpInvocation
    duration: Duration
    result: dict[str, Any]  # {"Ok": …} or {"Err": …}
    read_only_hint: bool | UnsetType = UNSET


class PlanStepEvent(msgspec.Struct, frozen=True):
    step: str
    status: str


class PlanUpdate(Event, frozen=True, tag="plan_update"):
    explanation: str | None
    plan: tuple[PlanStepEvent, ...]


class HistoryEntry(msgspec.Struct, frozen=True):
    session_id: str
    ts: int
    text: str


class GetHistoryEntryResponse(Event, frozen=True, tag="get_history_entry_response"):
    offset: int
    log_id: int
    entry: HistoryEntry | UnsetType = UNSET


class ShutdownComplete(Event, frozen=True, tag="shutdown_complete"):
    pass


class UserMessageEvent(Event, frozen=True, tag="user_message"):
    """Our own event: only viewers that ask with a sequence number get it."""

    message: str
    message_id: str
    images: tuple[str, ...] = ()
    parent_message_id: str | UnsetType = UNSET
