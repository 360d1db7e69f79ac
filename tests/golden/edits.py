"""Small changes to a recording, from which the differences are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, cast

from tests.golden.matchers import Begins
from tests.golden.recording import OUTPUT_DELTA, Json, Recording, Step

Change = Callable[[Recording], None]


def exec_output(text: str, exit_code: int = 0) -> str:
    """A command's result as the model is given it."""
    parts = {"output": text, "metadata": {"exit_code": exit_code, "duration_seconds": 0.0}}
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def reword(*pairs: tuple[str, str]) -> Change:
    """Each first text replaced by its second, wherever it stands in what the server and the model are seen to say."""

    def change(recording: Recording) -> None:
        for step in recording.steps:
            if step.kind != "client":
                step.value = _reworded(step.value, pairs)

    return change


def _reworded(value: Any, pairs: Iterable[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        for before, after in pairs:
            value = value.replace(before, after)
        return value
    if isinstance(value, list):
        return [_reworded(item, pairs) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: _reworded(item, pairs) for key, item in cast(Json, value).items()}
    return value


def hints(*calls: int) -> Change:
    """The failed results of these calls go on after the recorded text."""

    def change(recording: Recording) -> None:
        for call in calls:
            for part in response_to(recording, call).value["result"]["content"]:
                part["text"] = Begins(part["text"])

    return change


def hinted(text: str) -> Change:
    """Wherever the server says `text`, a hint follows on a line of its own."""

    def change(recording: Recording) -> None:
        for step in recording.steps:
            if step.kind not in ("client", "model"):
                step.value = _hinted(step.value, text)

    return change


def _hinted(value: Any, text: str) -> Any:
    if value == text:
        return Begins(f"{text}\n")
    if isinstance(value, list):
        return [_hinted(item, text) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: _hinted(item, text) for key, item in cast(Json, value).items()}
    return value


def tool_output(call_id: str, output: Any) -> Change:
    """What the model is given for a call, in every request that shows it."""

    def change(recording: Recording) -> None:
        for step in recording.steps:
            if step.kind != "model":
                continue
            for message in step.value["body"].get("messages", ()):
                if message.get("tool_call_id") == call_id:
                    message["content"] = output
            for item in step.value["body"].get("input", ()):
                if item["type"] == "function_call_output" and item["call_id"] == call_id:
                    item["output"] = output

    return change


def command_end(call_id: str, **fields: Any) -> Change:
    """Members of a command's first end event."""

    def change(recording: Recording) -> None:
        ends = [step for step in recording.events("exec_command_end") if step.value["msg"]["call_id"] == call_id]
        ends[0].value["msg"].update(fields)

    return change


def without_events(*kinds: str, call_id: str | None = None) -> Change:
    def change(recording: Recording) -> None:
        def keep(step: Step) -> bool:
            return step.event not in kinds or (call_id is not None and step.value["msg"].get("call_id") != call_id)

        recording.steps = [step for step in recording.steps if keep(step)]

    return change


def script(*answers: Any) -> Change:
    """Another script for the model, where ours asks more or less often."""

    def change(recording: Recording) -> None:
        recording.model = list(answers)

    return change


def files(**after: str | None) -> Change:
    """Files afterwards; None for one that is not there. `__` stands for a dot in a name."""

    def change(recording: Recording) -> None:
        for name, content in after.items():
            name = name.replace("__", ".")
            if content is None:
                recording.files.pop(name, None)
            else:
                recording.files[name] = content

    return change


# for changes that are made by hand


def response_to(recording: Recording, call: int | str) -> Step:
    return next(step for step in recording.steps if step.kind == "response" and step.value["id"] == call)


def index_of(recording: Recording, event: str, count: int = 1) -> int:
    """Where the `count`-th event (from 1) of that type stands."""
    found = [index for index, step in enumerate(recording.steps) if step.event == event]
    return found[count - 1]


def index_of_kind(recording: Recording, kind: str, count: int = 1) -> int:
    found = [index for index, step in enumerate(recording.steps) if step.kind == kind]
    return found[count - 1]


def event_like(step: Step, **msg: Any) -> Step:
    """Another event of the same turn."""
    return Step("event", {**deepcopy(step.value), "msg": msg})


def command_events(
    like: Step, call_id: str, command: list[str], stdout: str = "", stderr: str = "", exit_code: int = 0
) -> list[Step]:
    """What is shown of a command that ran."""
    steps = [event_like(like, type="exec_command_begin", call_id=call_id, command=command, cwd="<work>")]
    for stream, text in (("stdout", stdout), ("stderr", stderr)):
        if text:
            steps.append(event_like(like, type=OUTPUT_DELTA, call_id=call_id, stream=stream, chunk=list(text.encode())))
    told = {"call_id": call_id, "stdout": stdout, "stderr": stderr, "exit_code": exit_code}
    return [*steps, event_like(like, type="exec_command_end", **told, duration={"secs": 0, "nanos": 0})]


def chat_answer(text: str) -> Json:
    """A model's answer on the Chat wire."""
    return {"events": [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}], "done": True}


def chat_call(call_id: str, arguments: str) -> Json:
    """A call of the shell, as the history on the Chat wire holds it."""
    function = {"name": "shell", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def chat_output(call_id: str, output: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": output}


def requests(recording: Recording) -> list[Json]:
    """The bodies of the model requests."""
    return [step.value["body"] for step in recording.steps if step.kind == "model"]
