"""Events as upstream's last server sent them: `codex/event` only, turn ids, base64 chunks, tagged changes."""

import base64
from collections import OrderedDict
from typing import Any
from urllib.parse import quote

import msgspec

from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.events import Duration
from understudy.protocol.items import FunctionCall, InputImage, Message, Usage
from understudy.protocol.records import (
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    Entry,
    ImageViewed,
    InputWritten,
    ItemReceived,
    Opened,
    OutputDelta,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    ReasoningDelta,
    Renamed,
    RequestSent,
    RetryScheduled,
    ServersChecked,
    TextDelta,
    TokensCounted,
    TurnEnded,
    TurnStarted,
    UndoEnded,
    UndoStarted,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.wire_events.event_codec import Encoded
from understudy.servers.wire_events.seed_events import SeedCodec, shown_reason, visible
from understudy.text import quote_command

_encode = msgspec.json.Encoder().encode
MOST_BEGUN = 256
USED_OF_WINDOW = 0.95  # the part of a model's window that codex's clients are told of: the rest is left for its answer

Begun = CommandStarted | PatchStarted


class ModernCodec:
    """For one viewer of a conversation: the end of a command repeats its beginning, and deltas name their item.

    So it must see the entries of the turn in order: earlier ones through `note`, then those that it encodes.
    """

    plain_method = False
    needs_past = True

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._seed = SeedCodec()
        self._begun: OrderedDict[tuple[str, str], Begun] = OrderedDict()  # by turn and call: models reuse their call ids
        self._window: int | None = None  # the window of the turn's model
        self._item_after = 0  # the record before the current item; it names the item in the same way for all viewers

    def note(self, entry: Entry) -> None:
        """Process an entry that the viewer has, or that came before what it is shown."""
        match entry.record:
            case TurnStarted(window=window):
                self._item_after = entry.seq
                self._window = None if window is None else int(window * USED_OF_WINDOW)
            case RequestSent() | ItemReceived(item=Message() | FunctionCall()):
                self._item_after = entry.seq
            case CommandStarted() | PatchStarted() as begun:
                self._begun[entry.turn, begun.call_id] = begun
                if len(self._begun) > MOST_BEGUN:
                    self._begun.popitem(last=False)
            case _:
                pass

    def events(self, live: LiveEntry) -> tuple[Encoded, ...]:
        self.note(live.entry)  # even if another viewer has already encoded it
        found = live.encoded.get(ModernCodec)
        if found is None:
            messages = self._project(live.entry)
            found = self._seed.events(live) if messages is None else tuple(map(_encoded, messages))
            live.encoded[ModernCodec] = found
        return found

    def delta(self, live: LiveDelta) -> Encoded:
        found = live.encoded.get(ModernCodec)
        if found is None:
            found = live.encoded[ModernCodec] = self._encode_delta(live)
        return found

    def _encode_delta(self, live: LiveDelta) -> Encoded:
        delta = live.delta
        if isinstance(delta, OutputDelta):
            chunk = base64.b64encode(delta.chunk).decode()
            return _encoded({"type": "exec_command_output_delta", "call_id": delta.call_id, "stream": delta.stream, "chunk": chunk})
        item = self._item_after
        where = {"thread_id": self._thread_id, "turn_id": live.turn}
        match delta:
            case TextDelta(text=text):
                return _encoded({"type": "agent_message_content_delta", **where, "item_id": f"msg_{item}", "delta": text})
            case ReasoningDelta(text=text, raw=False):
                told = {**where, "item_id": f"rs_{item}", "delta": text, "summary_index": 0}
                return _encoded({"type": "reasoning_content_delta", **told})
            case ReasoningDelta(text=text):
                told = {**where, "item_id": f"rs_{item}", "delta": text, "content_index": 0}
                return _encoded({"type": "reasoning_raw_content_delta", **told})

    def _project(self, entry: Entry) -> list[dict[str, Any]] | None:
        """None: the same events as in the seed's time."""
        turn = entry.turn
        match entry.record:
            case Opened() as opened:
                return [_session_configured(opened)]
            case TurnStarted():
                return [
                    {"type": "task_started", "turn_id": turn, "started_at": int(entry.at), "model_context_window": self._window}
                ]
            case TurnEnded() as ended:
                return _turn_ended(ended, turn, entry.at)
            case ItemReceived(item=Message(content=content)):
                texts = [part.text for part in content if not isinstance(part, InputImage) and part.text]
                return [{"type": "agent_message", "message": text, "phase": None, "memory_citation": None} for text in texts]
            case TokensCounted(cut=True):
                return []  # codex does not report it here either; the turn's report has it
            case TokensCounted() as counted:
                return [_token_count(counted.usage, counted.total, self._window)]
            case Compacted() as compacted:  # the count comes first, as in the recordings
                left = Usage(0, 0, compacted.tokens_after)
                return [_token_count(left, compacted.total or Usage(0, 0, 0), self._window), {"type": "context_compacted"}]
            case ServersChecked() as checked:
                failed = [{"server": server, "error": why} for server, why in checked.missing.items()]
                return [{"type": "mcp_startup_complete", "ready": checked.ready, "failed": failed, "cancelled": []}]
            case RetryScheduled() as retry:
                return [_retry(retry)]
            case CommandStarted() as started:
                message = {"type": "exec_command_begin", "call_id": started.call_id, "turn_id": turn, **_process(started)}
                return [message | {"started_at_ms": _milliseconds(entry), **_command(started)}]
            case InputWritten() as written:
                told = {"call_id": written.call_id, "process_id": str(written.session), "stdin": written.text}
                return [{"type": "terminal_interaction", **told}]
            case ImageViewed(call_id=call_id, path=path):
                return [{"type": "view_image_tool_call", "call_id": call_id, "path": _file_url(path)}]
            case CommandEnded() as ended:
                return [self._command_end(ended, entry)]
            case CommandApprovalAsked() as asked:
                message = {"type": "exec_approval_request", "call_id": asked.call_id, "turn_id": turn, **_command(asked)}
                return [message | ({"reason": shown_reason(asked.reason)} if asked.reason else {})]
            case PatchApprovalAsked() as asked:
                message = {"type": "apply_patch_approval_request", "call_id": asked.call_id, "turn_id": turn}
                return [
                    message
                    | {"changes": changes_on_wire(asked.changes)}
                    | ({"reason": shown_reason(asked.reason)} if asked.reason else {})
                ]
            case PatchStarted() as started:
                message = {"type": "patch_apply_begin", "call_id": started.call_id, "turn_id": turn}
                return [message | {"auto_approved": started.auto_approved, "changes": changes_on_wire(started.changes)}]
            case PatchEnded() as ended:
                return [self._patch_end(ended, entry)]
            case Renamed(title=title):
                return [{"type": "thread_name_updated", "thread_id": self._thread_id, "thread_name": title}]
            case UndoStarted(undone=undone):
                return [{"type": "undo_started", "message": f"undoing turn {undone}"}]
            case UndoEnded() as ended:
                return [{"type": "undo_completed", "success": ended.complete, "message": visible(ended.describe())}]
            case _:
                return None

    def _command_end(self, ended: CommandEnded, entry: Entry) -> dict[str, Any]:
        begun = self._begun.pop((entry.turn, ended.call_id), None)
        if ended.started is not None:  # of a session, which may have begun many turns ago
            begun = ended.started
        output = ended.stdout + ended.stderr
        return {
            "type": "exec_command_end",
            "call_id": ended.call_id,
            "turn_id": entry.turn,
            **_process(ended.started),
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
        begun = self._begun.pop((entry.turn, ended.call_id), None)
        return {
            "type": "patch_apply_end",
            "call_id": ended.call_id,
            "turn_id": entry.turn,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "success": ended.success,
            "changes": changes_on_wire(begun.changes) if isinstance(begun, PatchStarted) else {},
            "status": "completed" if ended.success else "failed",
        }


def _milliseconds(entry: Entry) -> int:
    return int(entry.at * 1000)


def _encoded(message: dict[str, Any]) -> Encoded:
    return Encoded(message["type"].encode(), _encode(message))


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


def _retry(retry: RetryScheduled) -> dict[str, Any]:
    info = {"response_stream_disconnected": {"http_status_code": retry.status}}
    told = {"message": f"Reconnecting... {retry.attempt}/{retry.of}", "codex_error_info": info, "additional_details": retry.why}
    return {"type": "stream_error", **told}


def _turn_ended(ended: TurnEnded, turn: str, at: float) -> list[dict[str, Any]]:
    complete = {"type": "task_complete", "turn_id": turn, "last_agent_message": None, "completed_at": int(at)}
    if ended.reason == "completed":
        return [complete | {"last_agent_message": ended.message}]
    if ended.reason == "interrupted":
        return [{"type": "turn_aborted", "turn_id": turn, "reason": "interrupted", "completed_at": int(at)}]
    error = {"message": ended.message or "the turn failed"}
    return [{"type": "error", **error}, complete | {"error": error}]


def _token_count(last: Usage, total: Usage | None, window: int | None) -> dict[str, Any]:
    info = {
        "total_token_usage": _usage(total or last),
        "last_token_usage": _usage(last),
        "model_context_window": window,
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


def _process(started: CommandStarted | None) -> dict[str, str]:
    return {} if started is None or started.session is None else {"process_id": str(started.session)}


def _command(command: CommandStarted | CommandApprovalAsked) -> dict[str, Any]:
    if isinstance(command, CommandStarted) and command.session is not None:
        script = command.command[-1]
        told = {"command": command.command, "cwd": _file_url(command.cwd)}
        return told | {"parsed_cmd": [{"type": "unknown", "cmd": script}], "source": "unified_exec_startup"}
    return {
        "command": command.command,
        "cwd": command.cwd,
        "parsed_cmd": [{"type": "unknown", "cmd": quote_command(command.command)}],
        "source": "agent",
    }


def _file_url(path: str) -> str:
    return "file://" + quote(path)


def changes_on_wire(changes: dict[str, FileChange]) -> dict[str, Any]:
    return {path: _change(change) for path, change in changes.items()}


def _change(change: FileChange) -> dict[str, Any]:
    match change:
        case AddFile(content=content):
            return {"type": "add", "content": content}
        case DeleteFile(content=content):
            return {"type": "delete", "content": content}
        case UpdateFile(unified_diff=diff, move_path=move_path):
            return {"type": "update", "unified_diff": diff, "move_path": move_path}
