"""What a recording is in `wire = "modern"`: its events in the shapes of codex 0.153.4, from what the seed's server said.

The recordings are of the seed's server. That the shapes are right was seen on the real 0.153.4, which speaks only one of the
model wires and so could not be recorded in the same scenarios. Times, and what only our log knows, are left open.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from tests.golden.matchers import SOMETHING, Begins, Matcher
from tests.golden.recording import Json, Recording, Step
from understudy.models.families import FAMILIES
from understudy.servers.wire_events.modern_events import USED_OF_WINDOW

SETTING = '\n[understudy]\nwire = "modern"\n'
RENAMED = {
    "agent_message_delta": "agent_message_content_delta",
    "agent_reasoning_delta": "reasoning_content_delta",
    "agent_reasoning_raw_content_delta": "reasoning_raw_content_delta",
}
INTERRUPTED = "Turn interrupted"
CLOSED_EARLY = "stream error: stream disconnected before completion: "


class _Number(Matcher):
    def fits(self, value: Any) -> bool:
        return type(value) is int and value > 0

    def __repr__(self) -> str:
        return "<a number>"


class _AtLeast(Matcher):
    """Tokens so far, where a turn was interrupted: what its cut answer used counts, too, though no event told of it."""

    def __init__(self, told: int) -> None:
        self._told = told

    def fits(self, value: Any) -> bool:
        return type(value) is int and value >= self._told

    def __repr__(self) -> str:
        return f"<{self._told} or more>"


class _Window(Matcher):
    """What is told of a model's window: nothing of a model that nobody knows, else as codex does."""

    def fits(self, value: Any) -> bool:
        return value is None or value in {int(family.window * USED_OF_WINDOW) for family in FAMILIES if family.window}

    def __repr__(self) -> str:
        return "<a window>"


class _TurnId(Matcher):
    """Of a streamed event: the seed's streams did not tell."""

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and value.isdecimal()

    def __repr__(self) -> str:
        return "<a turn>"


class _Spells(Matcher):
    """A line that a shell takes for these words; how it quotes them is tested elsewhere."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and shlex.split(value) == self._words

    def __repr__(self) -> str:
        return shlex.join(self._words)


NUMBER, SOME_TURN, WINDOW = _Number(), _TurnId(), _Window()


def apply(recording: Recording) -> None:
    """Change what is expected of the server; what the client and the model say is the same."""
    face = _Face(recording)
    steps: list[Step] = []
    for step in recording.steps:
        match step.kind:
            case "event":
                meta, turn = step.value["_meta"], step.value["id"]
                steps += [Step("event", event) for event in face.events(meta, turn, step.value["msg"])]
            case "notification" if step.value["method"] == "notifications/initial_state":
                steps.append(Step("notification", face.snapshot(step.value)))
            case "notification" if "msg" in step.value["params"]:
                meta = {"threadId": face.streamed}
                steps += [Step("event", event) for event in face.events(meta, SOME_TURN, step.value["params"]["msg"])]
            case "request" if "codex_changes" in step.value["params"]:
                steps.append(Step("request", face.patch_question(step.value)))
            case _:
                steps.append(step)
    recording.steps = steps


class _Face:
    def __init__(self, recording: Recording) -> None:
        self._files: Json = recording.setup.get("files", {})
        self._begun: dict[tuple[str, str], Json] = {}  # commands and patches, by conversation and call
        self._totals: dict[str, Json] = {}
        self._interrupted: set[str] = set()
        self._cut: set[str] = set()  # conversations with a turn that was interrupted
        self.streamed = ""  # the conversation that is streamed

    def snapshot(self, frame: Json) -> Json:
        params = frame["params"]
        self.streamed = params["_meta"]["conversationId"]
        meta = {"threadId": self.streamed}
        events = [event for told in params["initial_state"]["events"] for event in self.events(meta, SOME_TURN, told["msg"])]
        return {**frame, "params": {**params, "initial_state": {"events": events}}}

    def patch_question(self, frame: Json) -> Json:
        params = frame["params"]
        return {**frame, "params": {**params, "codex_changes": self._changes(params["codex_changes"])}}

    def events(self, meta: Json, turn: Any, message: Json) -> list[Json]:
        thread = meta["threadId"]
        told = self._message(thread, turn, message)
        number = "" if message["type"] == "session_configured" else turn
        return [{"_meta": meta, "id": number, "msg": told}] if told is not None else []

    def _message(self, thread: str, turn: Any, message: Json) -> Json | None:
        kind = message["type"]
        match kind:
            case "session_configured":
                kept = {key: message[key] for key in ("type", "session_id", "model")}
                open_ = dict.fromkeys(("model_provider_id", "approval_policy", "cwd"), SOMETHING)
                return {**kept, "thread_id": message["session_id"], "approvals_reviewer": "user", **open_}
            case "task_started":
                return {"type": kind, "turn_id": turn, "started_at": NUMBER, "model_context_window": WINDOW}
            case "task_complete":
                return self._complete(thread, turn, message)
            case "error":
                return self._error(thread, message)
            case "background_event":
                return _retry(message["message"]) or message
            case "agent_message":
                return {**message, "phase": None, "memory_citation": None}
            case "agent_message_delta" | "agent_reasoning_delta" | "agent_reasoning_raw_content_delta":
                return _delta(thread, turn, message)
            case "token_count":
                return self._tokens(thread, message)
            case "exec_command_begin":
                self._begun[thread, message["call_id"]] = _command(message)
                return {**message, "turn_id": turn, "started_at_ms": NUMBER, **_command(message)}
            case "exec_command_end":
                return self._command_end(thread, turn, message)
            case "exec_approval_request":
                return {**message, "turn_id": turn, **_command(message)}
            case "apply_patch_approval_request":
                return {**message, "turn_id": turn, "changes": self._changes(message["changes"])}
            case "patch_apply_begin":
                self._begun[thread, message["call_id"]] = {"changes": self._changes(message["changes"])}
                return {**message, "turn_id": turn, **self._begun[thread, message["call_id"]]}
            case "patch_apply_end":
                status = "completed" if message["success"] else "failed"
                return {**message, "turn_id": turn, **self._begun[thread, message["call_id"]], "status": status}
            case _:
                return message

    def _error(self, thread: str, message: Json) -> Json | None:
        self._interrupted.discard(thread)
        if message["message"] != INTERRUPTED:
            self._begun[thread, "error"] = {"error": {"message": message["message"]}}
            return message
        self._interrupted.add(thread)
        return None

    def _complete(self, thread: str, turn: Any, message: Json) -> Json:
        if thread in self._interrupted:
            self._interrupted.discard(thread)
            self._cut.add(thread)
            return {"type": "turn_aborted", "turn_id": turn, "reason": "interrupted", "completed_at": NUMBER}
        failure = self._begun.pop((thread, "error"), {})
        return {**message, "turn_id": turn, "completed_at": NUMBER, **failure}

    def _tokens(self, thread: str, message: Json) -> Json:
        last = {key: value or 0 for key, value in message.items() if key != "type"}
        total = self._totals.get(thread, dict.fromkeys(last, 0))
        self._totals[thread] = total = {key: total[key] + value for key, value in last.items()}
        if thread in self._cut:
            total = {key: _AtLeast(value) for key, value in total.items()}
        info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": WINDOW}
        return {"type": "token_count", "info": info, "rate_limits": None}

    def _command_end(self, thread: str, turn: Any, message: Json) -> Json:
        output = message["stdout"] + message["stderr"] if isinstance(message["stderr"], str) else SOMETHING
        status = "completed" if message["exit_code"] == 0 else "failed"
        said = {"aggregated_output": output, "formatted_output": output, "status": status}
        return {**message, "turn_id": turn, "completed_at_ms": NUMBER, **self._begun[thread, message["call_id"]], **said}

    def _changes(self, changes: Json) -> Json:
        return {path: self._change(path, change) for path, change in changes.items()}

    def _change(self, path: str, change: Any) -> Json:
        if change == "delete":
            return {"type": "delete", "content": self._files.get(path.removeprefix("<work>/"), "")}
        [(kind, members)] = change.items()
        return {"type": kind, **members}


def _retry(notice: str | Matcher) -> Json | None:
    """The event of a request that is put again; None where the notice is another one."""
    if notice == f"{CLOSED_EARLY}…":  # it leaves open why
        return _stream_error(Begins("Reconnecting... 1/"), Begins(CLOSED_EARLY.removeprefix("stream error: ")))
    found = re.fullmatch(r"stream error: (.*); retrying (\d+/\d+) in [^;]*", str(notice), re.DOTALL)
    return found and _stream_error(f"Reconnecting... {found[2]}", found[1])


def _stream_error(message: str | Matcher, why: str | Matcher) -> Json:
    status = re.search(r"(?:HTTP|status:?) (\d{3})\b", str(why))
    info = {"response_stream_disconnected": {"http_status_code": int(status[1]) if status else None}}
    return {"type": "stream_error", "message": message, "codex_error_info": info, "additional_details": why}


def _command(message: Json) -> Json:
    parsed = [{"type": "unknown", "cmd": _Spells(message["command"])}]
    return {"command": message["command"], "cwd": message["cwd"], "parsed_cmd": parsed, "source": "agent"}


def _delta(thread: str, turn: Any, message: Json) -> Json:
    kind = message["type"]
    item = Begins("msg_" if kind == "agent_message_delta" else "rs_")
    told: Json = {"type": RENAMED[kind], "thread_id": thread, "turn_id": turn, "item_id": item, "delta": message["delta"]}
    index = {"agent_reasoning_delta": "summary_index", "agent_reasoning_raw_content_delta": "content_index"}.get(kind)
    return told | ({index: 0} if index else {})
