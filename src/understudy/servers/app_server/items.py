"""Items of a thread as clients of the app server see them. Pure: parts of records in, JSON out.

Also the ids of turns and items. They depend only on the log, so that every process gives the same ids. Item ids are unique in their
thread, although models reuse the ids of calls and messages.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence

from understudy.engine.activity.steps import ToolCall
from understudy.protocol.ids import read_uuid
from understudy.protocol.items import InputImage, Message, Usage
from understudy.protocol.records import CommandEnded, HookRan, ToolCallEnded
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.app_server.wire import Json, milliseconds
from understudy.text import quote_command


def uuid_of(*parts: str) -> str:
    """A UUID that is determined by these texts, and different for any others."""
    digest = bytearray(hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80  # version 8: a custom scheme
    digest[8] = digest[8] & 0x3F | 0x80
    return read_uuid(digest.hex())


class ItemIds:
    """Gives out ids in the order of the log: the model's id if it is free, otherwise with a number appended."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._messages = 0
        self._thoughts = 0

    def message(self) -> str:
        self._messages += 1
        return self._take(f"msg_{self._messages}")

    def reasoning(self) -> str:
        self._thoughts += 1
        return self._take(f"rs_{self._thoughts}")

    def call(self, call_id: str) -> str:
        return self._take(call_id)

    def _take(self, wanted: str) -> str:
        found, number = wanted, 1
        while found in self._used:
            number += 1
            found = f"{wanted}-{number}"
        self._used.add(found)
        return found


_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})


def user_message(item_id: str, message: Message) -> Json:
    content: list[Json] = [
        {"type": "image", "url": part.image_url, "detail": None}
        if isinstance(part, InputImage)
        else {"type": "text", "text": part.text, "text_elements": []}
        for part in message.content
    ]
    return {"type": "userMessage", "id": item_id, "clientId": None, "content": content}


def agent_message(item_id: str, text: str) -> Json:
    more: Json = {"phase": None, "memoryCitation": None, "delivery": None, "questions": None}
    return {"type": "agentMessage", "id": item_id, "text": text, **more}


def reasoning(item_id: str, summary: Sequence[str] = (), content: Sequence[str] = ()) -> Json:
    return {"type": "reasoning", "id": item_id, "summary": list(summary), "content": list(content)}


def command(item_id: str, argv: Sequence[str], cwd: str, process: int | None = None) -> Json:
    return {
        "type": "commandExecution",
        "id": item_id,
        "pluginId": None,
        "scriptPath": None,
        "command": quote_command(tuple(argv)),
        "cwd": cwd,
        "processId": None if process is None else str(process),
        "source": "agent" if process is None else "unifiedExecStartup",
        "status": "inProgress",
        "commandActions": command_actions(argv),
        "aggregatedOutput": None,
        "exitCode": None,
        "durationMs": None,
    }


def command_actions(argv: Sequence[str]) -> list[Json]:
    """A one-word description of the command, without further guesses. A shell around a script is left out."""
    wrapped = len(argv) == 3 and os.path.basename(argv[0]) in _SHELLS and argv[1] in ("-c", "-lc")
    return [{"type": "unknown", "command": argv[2] if wrapped else quote_command(tuple(argv))}]


def ended_command(item: Json, ended: CommandEnded, output: str) -> Json:
    status = "completed" if ended.exit_code == 0 else "failed"
    spent = max(0, int(ended.duration * 1000))
    return {**item, "status": status, "aggregatedOutput": output or None, "exitCode": ended.exit_code, "durationMs": spent}


def file_change(item_id: str, changes: Sequence[Json], status: str = "inProgress") -> Json:
    return {"type": "fileChange", "id": item_id, "changes": list(changes), "status": status}


def changes_of(changes: Mapping[str, FileChange], cwd: str) -> list[Json]:
    return [_change(os.path.normpath(os.path.join(cwd, path)), changes[path], cwd) for path in sorted(changes)]


def _change(path: str, change: FileChange, cwd: str) -> Json:
    match change:
        case AddFile(content=content):
            return {"path": path, "kind": {"type": "add"}, "diff": content}
        case DeleteFile(content=content):
            return {"path": path, "kind": {"type": "delete"}, "diff": content}
        case UpdateFile(unified_diff=diff, move_path=None):
            return {"path": path, "kind": {"type": "update", "move_path": None}, "diff": diff}
        case UpdateFile(unified_diff=diff, move_path=str(target)):
            target = os.path.normpath(os.path.join(cwd, target))
            return {"path": path, "kind": {"type": "update", "move_path": target}, "diff": f"{diff}\n\nMoved to: {target}"}
        case _:
            raise AssertionError(change)


def relative_diff(diff: str, cwd: str) -> str:
    """A turn's diff with files below the working directory as relative paths."""
    lines: list[str] = []
    in_head = False
    for line in diff.split("\n"):
        in_head = line.startswith("diff --git ") or (in_head and not line.startswith("@@"))
        lines.append(line.replace(f"a/{cwd}/", "a/").replace(f"b/{cwd}/", "b/") if in_head else line)
    return "\n".join(lines)


def tool_call(item_id: str, call: ToolCall) -> Json:
    return {
        "type": "mcpToolCall",
        "id": item_id,
        "server": call.server,
        "tool": call.tool,
        "status": "inProgress",
        "arguments": call.arguments or {},
        "appContext": None,
        "mcpAppUi": None,
        "pluginId": None,
        "readOnlyHint": None,
        "result": None,
        "error": None,
        "durationMs": None,
    }


def ended_tool_call(item: Json, ended: ToolCallEnded) -> Json:
    item = {**item, "status": "failed" if ended.failed else "completed", "durationMs": max(0, int(ended.seconds * 1000))}
    result = ended.result
    if result is None:
        return {**item, "error": {"message": ended.error or "the tool gave no result"}}
    told = {"content": result.get("content", []), "structuredContent": result.get("structuredContent"), "_meta": None}
    return {**item, "result": told}


def image_view(item_id: str, path: str) -> Json:
    return {"type": "imageView", "id": item_id, "path": path}


def compaction(item_id: str) -> Json:
    return {"type": "contextCompaction", "id": item_id}


def token_counts(usage: Usage) -> Json:
    return {
        "totalTokens": usage.total_tokens,
        "inputTokens": usage.input_tokens,
        "cachedInputTokens": usage.cached_input_tokens or 0,
        "cacheWriteInputTokens": usage.cache_write_input_tokens or 0,
        "outputTokens": usage.output_tokens,
        "reasoningOutputTokens": usage.reasoning_output_tokens or 0,
    }


def hook_run(ran: HookRan, *, over: bool) -> Json:
    """A hook in the form of `hook/started` and `hook/completed`."""
    kinds: dict[str, str] = {"blocked": "feedback", "failed": "error", "stopped": "stop"}
    entries: list[Json] = [{"kind": kinds[ran.status], "text": ran.reason}] if ran.status in kinds else []
    if ran.context and ran.status == "completed":
        entries.append({"kind": "context", "text": ran.context})
    if ran.warning:
        entries.append({"kind": "warning", "text": ran.warning})
    return {
        "id": ran.run_id,
        "eventName": f"{ran.event[0].lower()}{ran.event[1:]}",
        "handlerType": "command",
        "executionMode": "async" if ran.detached else "sync",
        "scope": "thread" if ran.event == "SessionStart" else "turn",
        "sourcePath": ran.file,
        "source": ran.source,
        "displayOrder": ran.order,
        "status": ran.status if over else "running",
        "statusMessage": ran.status_message,
        "startedAt": milliseconds(ran.began_at),
        "completedAt": milliseconds(ran.began_at + ran.seconds) if over else None,
        "durationMs": round(ran.seconds * 1000) if over else None,
        "entries": entries if over else [],
    }
