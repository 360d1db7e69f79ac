"""Recordings of codex 0.153.4 compacting its context and looking at images, and how ours differs, with the reasons.

That release has one face of events (`codex/event`) and only the Responses wire. What is left after these changes matches exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.golden import agent_servers
from tests.golden.matchers import SOMETHING, AtLeast, Begins, Matcher
from tests.golden.modern import NUMBER
from tests.golden.normalise import comparable_request
from tests.golden.recording import Json, Recording, Step, fold_frames, join_deltas

FOLDER = Path(__file__).parent / "agent_recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

# The event stream says things twice, and opens with what concerns other parts: one face by configuration.
SAID_TWICE = ("raw_response_item", "raw_response_completed", "item_started", "item_completed", "user_message")
# That a model is unknown, that no other servers are configured, that a summary costs accuracy: nothing that a client could act on.
NOT_SAID = ("warning", "mcp_startup_complete")
ENVIRONMENT: Json = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": Begins("<environment_context>")}],
}
SHELL = {"type": "function_call", "id": "fc_call1", "call_id": "call1", "name": "shell", "arguments": '{"command": ["echo", "hi"]}'}
OUTPUT = '{"output":"hi\\n","metadata":{"exit_code":0,"duration_seconds":0.0}}'


class EndsWith(Matcher):
    def __init__(self, end: str) -> None:
        self._end = end

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and value.endswith(self._end)

    def __repr__(self) -> str:
        return f"<…>{self._end}"


def load(name: str) -> Recording:
    return read(name, json.loads((FOLDER / f"{name}.json").read_text()))


def read(name: str, data: Json) -> Recording:
    steps: list[Step] = []
    for entry in data["exchange"]:
        if "server" in entry:
            steps += fold_frames([entry["server"]], twins=False)
        else:
            kind, value = next(iter(entry.items()))
            steps.append(Step("client" if kind == "client" else "model", value))
    return Recording(name, data["setup"], data["model"], list(join_deltas(steps)), {})


def apply(recording: Recording) -> None:
    table = next(table for table in (agent_servers.TABLE, IMAGES, TABLE) if recording.name in table)
    for change in (*EVERYWHERE, *table[recording.name]):
        change(recording)


def _one_face(recording: Recording) -> None:
    not_said = NOT_SAID if recording.name not in agent_servers.TABLE else NOT_SAID[:1]
    recording.steps = [step for step in recording.steps if step.event not in (*SAID_TWICE, *not_said)]


def _our_turn_ids(recording: Recording) -> None:
    """A turn has a number, not a uuid; the event that opens a session has none."""
    turns: dict[str, str] = {"": ""}
    for step in recording.steps:
        if step.kind == "event":
            value = step.value
            value["id"] = turns.setdefault(value["id"], str(len(turns)))
            if "turn_id" in value["msg"]:
                value["msg"]["turn_id"] = value["id"]


def _our_events(recording: Recording) -> None:
    """Without what only that server knows: profile, files, rate limits, modes. The window of an unknown model is not guessed."""
    for step in recording.steps:
        if step.kind == "event":
            step.value["msg"] = _event(step.value["msg"])


def _event(message: Json) -> Json:
    match message["type"]:
        case "session_configured":
            return {key: value for key, value in message.items() if key not in ("permission_profile", "rollout_path")}
        case "task_started":
            return {"type": "task_started", "turn_id": message["turn_id"], "started_at": NUMBER, "model_context_window": None}
        case "task_complete":
            kept = {key: message[key] for key in ("type", "turn_id", "last_agent_message")}
            return {**kept, "completed_at": NUMBER}
        case "token_count":
            info = {key: _usage(message["info"][key]) for key in ("total_token_usage", "last_token_usage")}
            return {"type": "token_count", "info": {**info, "model_context_window": None}, "rate_limits": None}
        case _:
            return message


def _usage(usage: Json) -> Json:
    return {key: value for key, value in usage.items() if key != "cache_write_input_tokens"}


def _our_answers(recording: Recording) -> None:
    """Our name; results are a superset: a report, and the thread id as text."""
    for step in recording.steps:
        result = step.value.get("result")
        if step.kind != "response" or result is None:
            continue
        if "serverInfo" in result:
            result |= {"serverInfo": AtLeast({"name": "understudy"}), "capabilities": AtLeast(result["capabilities"])}
        else:
            step.value["result"] = AtLeast(result)


def _plain_requests(recording: Recording) -> None:
    """Instructions and environment in our words, at the beginning of every request: the prefix stays first, for the provider's
    cache. There the environment comes after the summary once a turn has begun with one.
    """
    for body in _bodies(recording):
        items = [
            {key: value for key, value in item.items() if key != "id" or item["type"] == "function_call"} for item in body["input"]
        ]
        told = [item for item in items if item.get("role") != "developer" and "environment_context" not in json.dumps(item)]
        body["input"] = [ENVIRONMENT, *told]
        body["tools"] = []  # which of them are offered is tested elsewhere


def _bodies(recording: Recording) -> list[Json]:
    return [step.value["body"] for step in recording.steps if step.kind == "model"]


EVERYWHERE = (_one_face, _our_turn_ids, _our_events, _our_answers, _plain_requests)


def _counts_once(recording: Recording) -> None:
    """What was counted before is not counted again when the summary is asked for. The estimate after it is our own."""
    before: Any = None
    steps: list[Step] = []
    for step in recording.steps:
        if step.event == "token_count":
            info = step.value["msg"]["info"]
            if info == before:
                continue
            before = info
            if info["last_token_usage"]["input_tokens"] == 0:
                info["last_token_usage"]["total_tokens"] = NUMBER
        steps.append(step)
    recording.steps = steps


def _our_words(recording: Recording) -> None:
    """What the model is asked is prose, each server's own, unless a call gave it."""
    for body in _bodies(recording):
        part = body["input"][-1].get("content", [{}])[0]
        if part.get("text") == "<compaction prompt>":
            part["text"] = SOMETHING


def _note() -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": EndsWith("\n\nSUMMARY")}]}


def _keeps_the_last_exchange(recording: Recording) -> None:
    """The most recent exchange stays whole, behind the summary: there only the user's words stay, before it."""
    asked, last = _bodies(recording)[-2:]
    earlier = asked["input"][1:-1]
    later = [item for item in last["input"][1:] if item not in earlier and "SUMMARY" not in json.dumps(item)]
    last["input"] = [ENVIRONMENT, _note(), *deepcopy(earlier), *later]


def _runs_by_shell(recording: Recording) -> None:
    """The command is run by the tool that both eras have had; its events are as elsewhere."""
    events = recording.model[0]["events"]
    events[1]["item"] = SHELL
    for body in _bodies(recording):
        body["input"] = [_shell_item(item) for item in body["input"]]
    for step in recording.steps:
        if step.event.startswith("exec_command"):
            step.value["msg"] = _command_event(step.value["msg"])


def _shell_item(item: Json) -> Json:
    match item["type"]:
        case "function_call":
            return SHELL
        case "function_call_output":
            return {**item, "output": OUTPUT}
        case _:
            return item


def _command_event(message: Json) -> Json:
    words = {"command": ["echo", "hi"], "cwd": "<work>", "parsed_cmd": [{"type": "unknown", "cmd": "echo hi"}], "source": "agent"}
    kept = {key: value for key, value in message.items() if key != "process_id"}
    match message["type"]:
        case "exec_command_begin":
            return {**kept, **words, "started_at_ms": NUMBER}
        case "exec_command_end":
            return {**kept, **words, "completed_at_ms": NUMBER}
        case _:
            return kept


TABLE: dict[str, tuple[Callable[[Recording], None], ...]] = {
    "compact_auto": (_counts_once, _our_words, _keeps_the_last_exchange),
    "compact_mid_turn": (_counts_once, _our_words, _runs_by_shell, _keeps_the_last_exchange),
}


def _reasons_in_our_words(recording: Recording) -> None:
    """Why there is no image is told in the words of `read_file`, with the path as the model wrote it."""
    said = {
        "call1": "t.txt cannot be read: it is no image that models can see: PNG, JPEG, GIF or WebP",
        "call2": "missing.png cannot be read: No such file or directory",
        "call3": ". may not be read: <work>/. is not a regular file",
    }
    for body in _bodies(recording):
        for item in body["input"]:
            if item["type"] == "function_call_output":
                item["output"] = said.get(item["call_id"], item["output"])


def _no_detail(recording: Recording) -> None:
    """How closely an image is looked at is left to the provider."""
    for body in _bodies(recording):
        for item in body["input"]:
            if item.get("call_id") == "call0" and item["type"] == "function_call_output":
                item["output"] = [{key: value for key, value in part.items() if key != "detail"} for part in item["output"]]


IMAGES: dict[str, tuple[Callable[[Recording], None], ...]] = {"view_image": (_reasons_in_our_words, _no_detail)}


def asked_in(recording: Recording) -> list[Json]:
    return [comparable_request(step.value) for step in recording.steps if step.kind == "model"]
