"""What may be submitted over `proto`: `{id, op}`, with ops of codex's protocol and additional ones of ours."""

import json
from typing import Any

import msgspec

from understudy.errors import BadRequest
from understudy.protocol.choices import ApprovalPolicy, SandboxMode
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.jsonrpc import why_unreadable
from understudy.protocol.records import Overrides


class _Op(msgspec.Struct, tag_field="type", kw_only=True):
    pass


class SandboxPolicy(msgspec.Struct, kw_only=True):
    mode: SandboxMode
    writable_roots: list[str] | None = None
    network_access: bool | None = None


class ConfigureSession(_Op, tag="configure_session", kw_only=True):
    """Begin a new conversation with these settings; the previous one stays as it is."""

    model: str | None = None
    model_reasoning_effort: str | None = None
    model_reasoning_summary: str | None = None
    base_instructions: str | None = None
    user_instructions: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox_policy: SandboxPolicy | None = None
    cwd: str | None = None


class UserInput(_Op, tag="user_input", kw_only=True):
    items: list[Any]


class OverrideTurnContext(_Op, tag="override_turn_context", kw_only=True):
    """Settings from the next message on."""

    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox_policy: SandboxPolicy | None = None
    model: str | None = None
    effort: str | None = None
    summary: str | None = None


class UserTurn(OverrideTurnContext, tag="user_turn", kw_only=True):
    items: list[Any]


class Interrupt(_Op, tag="interrupt", kw_only=True):
    pass


class ExecApproval(_Op, tag="exec_approval", kw_only=True):
    """`id`: of the call, or of the event that asked."""

    id: str
    decision: Any


class PatchApproval(_Op, tag="patch_approval", kw_only=True):
    id: str
    decision: Any


class Decide(_Op, tag="decide", kw_only=True):
    """An answer to a question of any kind, by the id of its call."""

    call_id: str
    decision: Any


class Compact(_Op, tag="compact", kw_only=True):
    pass


class Resume(_Op, tag="resume", kw_only=True):
    """Continue with another conversation: it is shown from its beginning, and followed."""

    conversation_id: str


class Fork(_Op, tag="fork", kw_only=True):
    """Continue with a new conversation that begins like this one."""

    message_id: str | None = None


class Archive(_Op, tag="archive", kw_only=True):
    archived: bool = True


class Delete(_Op, tag="delete", kw_only=True):
    pass


class AddToHistory(_Op, tag="add_to_history", kw_only=True):
    """For a terminal's line editor: nothing is stored here."""

    text: str = ""


class GetHistoryEntry(_Op, tag="get_history_entry_request", kw_only=True):
    offset: int = 0
    log_id: int = 0


class ListMcpTools(_Op, tag="list_mcp_tools", kw_only=True):
    pass


class ListCustomPrompts(_Op, tag="list_custom_prompts", kw_only=True):
    pass


class Shutdown(_Op, tag="shutdown", kw_only=True):
    pass


Op = (
    ConfigureSession
    | UserInput
    | UserTurn
    | OverrideTurnContext
    | Interrupt
    | ExecApproval
    | PatchApproval
    | Decide
    | Compact
    | Resume
    | Fork
    | Archive
    | Delete
    | AddToHistory
    | GetHistoryEntry
    | ListMcpTools
    | ListCustomPrompts
    | Shutdown
)


class Submission(msgspec.Struct):
    id: str
    op: Op


class _Envelope(msgspec.Struct):
    id: Any = None
    op: Any = None


_IS_NONE = "this is not a submission {id, op}"

_decode = msgspec.json.Decoder(Submission).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class NotUnderstood(BadRequest):
    """A line that is not a submission, with its id if that could be read."""

    def __init__(self, reason: str, submission_id: str = "") -> None:
        super().__init__(reason)
        self.id = submission_id


def read_submission(line: bytes) -> Submission:
    """Raises `NotUnderstood`."""
    try:
        return _decode(line)
    except msgspec.ValidationError as error:  # JSON, but not a submission
        reason = visible(str(error)).replace("`$.", "`").replace("`$`", "the line")
        raise NotUnderstood(f"{_IS_NONE}: {reason}", _id_of(_decode_envelope_of(line))) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason = visible(why_unreadable(line, error))
        raise NotUnderstood(f"{_IS_NONE}: {reason}", _id_of(_read_leniently(line))) from None


def _decode_envelope_of(line: bytes) -> Any:
    try:
        return {"id": _decode_envelope(line).id}
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # the error comes before the id
        return _read_leniently(line)


def _read_leniently(line: bytes) -> Any:
    """Read JSON whose text we cannot take; None if it is not JSON."""
    try:
        return json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _id_of(envelope: Any) -> str:
    found: Any = envelope.get("id") if isinstance(envelope, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found if isinstance(found, str) and is_unicode(found) else ""


def overrides_of(op: ConfigureSession | OverrideTurnContext) -> Overrides | None:
    """The chosen overrides; None if there are none."""
    settings: dict[str, Any] = {}
    configures = isinstance(op, ConfigureSession)
    effort, summary = (op.model_reasoning_effort, op.model_reasoning_summary) if configures else (op.effort, op.summary)
    if effort is not None:
        settings["model_reasoning_effort"] = effort
    if summary is not None:
        settings["model_reasoning_summary"] = summary
    policy = op.sandbox_policy
    if policy is not None and policy.mode == "workspace-write":
        settings["sandbox_workspace_write.writable_roots"] = policy.writable_roots or []
        settings["sandbox_workspace_write.network_access"] = bool(policy.network_access)
    chosen = Overrides(
        model=op.model,
        cwd=op.cwd,
        approval_policy=op.approval_policy,
        sandbox=None if policy is None else policy.mode,
        config=settings or None,
        base_instructions=op.base_instructions if configures else None,
        developer_instructions=op.user_instructions if configures else None,
    )
    return None if chosen == Overrides() else chosen
