"""Events as the last server that upstream shipped sent them: `codex/event` only, turn ids, base64 chunks, tagged changes."""

import base64
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from understudy.engine.feed import LiveDelta, Shown
from understudy.policy.quoting import quote_command
from understudy.protocol.changes import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.protocol.events import Duration
from understudy.protocol.items import Usage
from understudy.protocol.records import (
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Delta,
    Entry,
    Opened,
    OutputDelta,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    ReasoningDelta,
    TextDelta,
    TokensCounted,
    TurnEnded,
    TurnStarted,
)
from understudy.servers.codec import Encoded, SeedCodec, shown_reason

_encode = msgspec.json.Encoder().encode
MOST_BEGUN = 256
READ_BACK = 256  # records, at once, in search of a beginning

Begun = CommandStarted | PatchStarted


class ReadsEntries(Protocol):
    def read(self, after: int, limit: int | None = None) -> Sequence[Entry]: ...


class ModernCodec:
    """For viewers of one conversation: the end of a command repeats what its beginning said."""

    plain_method = False

    def __init__(self, conversation: ReadsEntries) -> None:
        self._conversation = conversation
        self._seed = SeedCodec()
        self._begun: OrderedDict[tuple[str, str], Begun] = OrderedDict()  # by turn and call: models use their call ids again

    def events(self, shown: Shown) -> tuple[Encoded, ...]:
        found = shown.encoded.get(ModernCodec)
        if found is None:
            messages = self._project(shown.entry)
            found = self._seed.events(shown) if messages is None else tuple(_encoded(message) for message in messages)
            shown.encoded[ModernCodec] = found
        return found

    def delta(self, live: LiveDelta) -> Encoded:
        found = live.encoded.get(ModernCodec)
        if found is None:
            found = live.encoded[ModernCodec] = _encode_delta(live.delta, live.turn)
        return found

    def _project(self, entry: Entry) -> list[dict[str, Any]] | None:
        """None: as in the seed's time."""
        turn = entry.turn
        match entry.record:
            case Opened() as opened:
                return [_session_configured(opened)]
            case TurnStarted():
                return [{"type": "task_started", "turn_id": turn, "started_at": int(entry.at), "model_context_window": None}]
            case TurnEnded() as ended:
                return _turn_ended(ended, turn, entry.at)
            case TokensCounted() as counted:
                return [_token_count(counted)]
            case CommandStarted() as started:
                self._remember(started, turn)
                message = {"type": "exec_command_begin", "call_id": started.call_id, "turn_id": turn}
                return [message | {"started_at_ms": _milliseconds(entry), **_command(started)}]
            case CommandEnded() as ended:
                return [self._command_end(ended, entry)]
            case CommandApprovalAsked() as asked:
                message = {"type": "exec_approval_request", "call_id": asked.call_id, "turn_id": turn, **_command(asked)}
                return [message | ({"reason": shown_reason(asked.reason)} if asked.reason else {})]
            case PatchApprovalAsked() as asked:
                message = {"type": "apply_patch_approval_request", "call_id": asked.call_id, "turn_id": turn}
                return [
                    message
                    | {"changes": _changes(asked.changes)}
                    | ({"reason": shown_reason(asked.reason)} if asked.reason else {})
                ]
            case PatchStarted() as started:
                self._remember(started, turn)
                message = {"type": "patch_apply_begin", "call_id": started.call_id, "turn_id": turn}
                return [message | {"auto_approved": started.auto_approved, "changes": _changes(started.changes)}]
            case PatchEnded() as ended:
                return [self._patch_end(ended, entry)]
            case _:
                return None

    def _remember(self, begun: Begun, turn: str) -> None:
        self._begun[turn, begun.call_id] = begun
        if len(self._begun) > MOST_BEGUN:
            self._begun.popitem(last=False)

    def _beginning(self, call_id: str, entry: Entry) -> Begun | None:
        """Of what has ended: seen by this viewer, or else in the log, before its end."""
        begun = self._begun.pop((entry.turn, call_id), None)
        before = entry.seq
        while begun is None and before > 1:
            after = max(0, before - 1 - READ_BACK)
            for earlier in reversed(self._conversation.read(after, before - 1 - after)):
                record = earlier.record
                if earlier.turn == entry.turn and isinstance(record, CommandStarted | PatchStarted) and record.call_id == call_id:
                    return record
                if isinstance(record, TurnStarted) and record.turn_id == entry.turn:
                    return None
            before = after + 1
        return begun

    def _command_end(self, ended: CommandEnded, entry: Entry) -> dict[str, Any]:
        begun = self._beginning(ended.call_id, entry)
        output = ended.stdout + ended.stderr
        return {
            "type": "exec_command_end",
            "call_id": ended.call_id,
            "turn_id": entry.turn,
            "completed_at_ms": _milliseconds(entry),
            **(_command(begun) if isinstance(begun, CommandStarted) else {}),
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "aggregated_output": output,
            "exit_code": ended.exit_code,
            "duration": Duration.of(ended.duration),
            "formatted_output": output,
            "status": "completed" if ended.exit_code == 0 else "failed",
        }

    def _patch_end(self, ended: PatchEnded, entry: Entry) -> dict[str, Any]:
        begun = self._beginning(ended.call_id, entry)
        return {
            "type": "patch_apply_end",
            "call_id": ended.call_id,
            "turn_id": entry.turn,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "success": ended.success,
            "changes": _changes(begun.changes) if isinstance(begun, PatchStarted) else {},
            "status": "completed" if ended.success else "failed",
        }


def _milliseconds(entry: Entry) -> int:
    return int(entry.at * 1000)


def _encoded(message: dict[str, Any]) -> Encoded:
    return Encoded(message["type"].encode(), _encode(message))


def _encode_delta(delta: Delta, turn: str) -> Encoded:
    match delta:
        case TextDelta(text=text):
            return _encoded({"type": "agent_message_delta", "turn_id": turn, "delta": text})
        case ReasoningDelta(text=text, raw=raw):
            return _encoded({"type": "agent_reasoning_raw_content_delta" if raw else "agent_reasoning_delta", "delta": text})
        case OutputDelta() as output:
            chunk = base64.b64encode(output.chunk).decode()
            return _encoded(
                {"type": "exec_command_output_delta", "call_id": output.call_id, "stream": output.stream, "chunk": chunk}
            )


def _session_configured(opened: Opened) -> dict[str, Any]:
    chosen = opened.overrides
    return {
        "type": "session_configured",
        "session_id": opened.conversation_id,
        "thread_id": opened.conversation_id,
        "model": opened.model,
        "model_provider_id": opened.provider,
        "approval_policy": chosen.approval_policy,
        "approvals_reviewer": "user",
        "cwd": chosen.cwd,
    }


def _turn_ended(ended: TurnEnded, turn: str, at: float) -> list[dict[str, Any]]:
    complete = {"type": "task_complete", "turn_id": turn, "last_agent_message": None, "completed_at": int(at)}
    if ended.reason == "completed":
        return [complete | {"last_agent_message": ended.message}]
    if ended.reason == "interrupted":
        return [{"type": "turn_aborted", "turn_id": turn, "reason": "interrupted", "completed_at": int(at)}]
    error = {"message": ended.message or "the turn failed"}
    return [{"type": "error", **error}, complete | {"error": error}]


def _token_count(counted: TokensCounted) -> dict[str, Any]:
    info = {
        "total_token_usage": _usage(counted.total or counted.usage),
        "last_token_usage": _usage(counted.usage),
        "model_context_window": None,
    }
    return {"type": "token_count", "info": info, "rate_limits": None}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens or 0,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_output_tokens or 0,
        "total_tokens": usage.total_tokens,
    }


def _command(command: CommandStarted | CommandApprovalAsked) -> dict[str, Any]:
    return {
        "command": command.command,
        "cwd": command.cwd,
        "parsed_cmd": [{"type": "unknown", "cmd": quote_command(command.command)}],
        "source": "agent",
    }


def _changes(changes: dict[str, FileChange]) -> dict[str, Any]:
    return {path: _change(change) for path, change in changes.items()}


def _change(change: FileChange) -> dict[str, Any]:
    match change:
        case AddFile(content=content):
            return {"type": "add", "content": content}
        case DeleteFile(content=content):
            return {"type": "delete", "content": content}
        case UpdateFile(unified_diff=diff, move_path=move_path):
            return {"type": "update", "unified_diff": diff, "move_path": move_path}
