"""Recordings of codex 0.153.4 with tools of other servers, and how ours differs, with the reasons."""

from __future__ import annotations

import json
from typing import Any, cast

from tests.golden.edits import event_like, index_of
from tests.golden.matchers import SOMETHING, AtLeast, Mentions
from tests.golden.modern import NUMBER
from tests.golden.recording import Json, Recording, Step

HEAD = "Wall time: <seconds> seconds\nOutput:"
FAILURES = {
    "bad name": Mentions("must match pattern"),
    "dies": Mentions("exit code 3", "no licence"),
    "gone": "No such file or directory (os error 2)",
}


def bodies(recording: Recording) -> list[Json]:
    return [step.value["body"] for step in recording.steps if step.kind == "model"]


def told_once(recording: Recording) -> None:
    """One event tells which servers there are and which are missing, once they were waited for, and in words that help."""
    complete = next(step for step in recording.steps if step.event == "mcp_startup_complete")
    kept = [step for step in recording.steps if step.event not in ("mcp_startup_update", "mcp_startup_complete")]
    recording.steps = kept
    begun = index_of(recording, "task_started")
    told = complete.value["msg"]
    for failed in told["failed"]:
        failed["error"] = FAILURES[failed["server"]]
    recording.steps.insert(begun + 1, event_like(recording.steps[begun], **told))


def flat_names(recording: Recording) -> None:
    """A tool has one name, with its server in it: no other provider takes namespaces. In a call they are understood."""
    for item in items(recording, "function_call"):
        namespace = item.pop("namespace", None)
        if namespace:
            item["name"] = f"{namespace}__{item['name']}"


def plain_outputs(recording: Recording) -> None:
    """The model is given what the tool gave: no time, and a text rather than parts."""
    for item in items(recording, "function_call_output"):
        item["output"] = _plain(item["output"])


def _plain(output: Any) -> Any:
    if isinstance(output, str):
        return output.removeprefix(f"{HEAD}\n")
    parts = [cast(Json, part) for part in output if part.get("text") != HEAD]
    texts = "\n".join(part["text"] for part in parts if part["type"] == "input_text") or "(the tool gave nothing)"
    images = [{"type": part["type"], "image_url": part["image_url"]} for part in parts if part["type"] == "input_image"]
    return [{"type": "input_text", "text": texts}, *images] if images else texts


def hints_that_say_yes(recording: Recording) -> None:
    """That a tool is not read-only is what everybody assumes."""
    for step in recording.steps:
        if step.kind == "event" and step.value["msg"].get("read_only_hint") is False:
            del step.value["msg"]["read_only_hint"]


def items(recording: Recording, kind: str) -> list[Json]:
    return [item for body in bodies(recording) for item in body["input"] if item["type"] == kind]


def output_of(call_id: str, output: Any) -> Any:
    def change(recording: Recording) -> None:
        for item in items(recording, "function_call_output"):
            if item["call_id"] == call_id:
                item["output"] = output

    return change


def result_of(call_id: str, result: Any) -> Any:
    def change(recording: Recording) -> None:
        for step in recording.steps:
            if step.event == "mcp_tool_call_end" and step.value["msg"]["call_id"] == call_id:
                step.value["msg"]["result"] = result

    return change


def text(said: str) -> Json:
    return {"Ok": {"content": [{"type": "text", "text": said}]}}


def flat_call_runs(recording: Recording) -> None:
    """A model may also use the flat name, which older releases offered."""
    like = recording.steps[index_of(recording, "mcp_tool_call_end", 2)]
    about = {"call_id": "call4", "invocation": {"server": "srv", "tool": "ok", "arguments": {"s": "x"}}, "read_only_hint": True}
    began = event_like(like, type="mcp_tool_call_begin", **about)
    ended = event_like(like, type="mcp_tool_call_end", **about, duration={"secs": 0, "nanos": 0}, result=text('got {"s": "x"}'))
    after = [index for index, step in enumerate(recording.steps) if step.event == "token_count"][3]
    recording.steps[after:after] = [began, ended]


def no_two_alike(recording: Recording) -> None:
    """`-` is a character that providers take, so `dup-x` and `dup.x` do not meet, and need no hash."""
    events = cast(list[Any], recording.model[1]["events"])
    events[1]["item"]["name"] = "dup-x"
    for item in items(recording, "function_call"):
        item["name"] = item["name"].replace("dup_x_4618d77cab87", "dup-x")


def asked_like_a_command(recording: Recording) -> None:
    """The question goes to the client, so nothing hangs; nothing begins before its answer; a cancelled call is answered."""
    asked = index_of(recording, "elicitation_request")
    like = recording.steps[asked]
    begun = index_of(recording, "mcp_tool_call_begin", 2)
    message = "Allow Codex to call the tool `deletes` of the MCP server `srv`?"
    question: Json = {
        "codex_arguments": {},
        "codex_call_id": "call2",
        "codex_elicitation": "mcp-tool-approval",
        "codex_event_id": "1",
        "codex_mcp_tool_call_id": "1",
        "codex_reason": SOMETHING,
        "codex_server": "srv",
        "codex_tool": "deletes",
        "message": message,
        "requestedSchema": {"type": "object", "properties": {}},
        "threadId": "<uuid-1>",
    }
    recording.steps[asked] = event_like(like, type="approval_request", call_id="call2", kind="mcp-tool-approval", message=message)
    put = Step("request", {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": question})
    recording.steps.insert(asked + 1, put)
    del recording.steps[begun]
    del recording.steps[index_of(recording, "token_count", 2)]  # calls run while the answer is read, and its end was not heard
    aborted = recording.steps[index_of(recording, "turn_aborted")]
    told = {key: aborted.value["msg"][key] for key in ("type", "turn_id", "reason")}
    aborted.value["msg"] = {**told, "completed_at": NUMBER}
    named = {"requestId": 0, "reason": "the question is no longer open"}
    withdrawn = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": named}
    recording.steps.insert(recording.steps.index(aborted), Step("notification", withdrawn))
    answer = AtLeast({"isError": True, "error": "Turn interrupted"})
    recording.steps.append(Step("response", {"jsonrpc": "2.0", "id": 1, "result": answer}))


AFTER = json.dumps({"s": "after"})
NEXT = json.dumps({"s": "next turn"})
CRASHED = Mentions("tool call failed for `srv/crashes`", "the program ended with exit code 9")
SAID_TO_FAIL = "The tool says that it failed:\nit failed"

EVERY = (told_once, flat_names, plain_outputs, hints_that_say_yes)
TABLE: dict[str, tuple[Any, ...]] = {
    "mcp_approval": (*EVERY, asked_like_a_command),
    "mcp_bad_servers": EVERY,
    "mcp_crash": (  # a server that crashed is started again for the next call
        *EVERY,
        output_of("call1", CRASHED),
        result_of("call1", {"Err": CRASHED}),
        output_of("call2", f"got {AFTER}"),
        result_of("call2", text(f"got {AFTER}")),
        output_of("call3", f"got {NEXT}"),
        result_of("call3", text(f"got {NEXT}")),
    ),
    "mcp_errors": (  # the model is told that a tool failed; a name is given back as it was understood
        *EVERY,
        output_of("call1", SAID_TO_FAIL),
        output_of("call3", "unsupported call: mcp__srv__nosuch"),
        output_of("call4", 'got {"s": "x"}'),
        flat_call_runs,
    ),
    "mcp_image": EVERY,
    "mcp_never": EVERY,
    "mcp_odd": (*EVERY, no_two_alike),
    "mcp_ok": (*EVERY, output_of("call2", '{"n": 1}')),  # the text says what is structured, as the server wrote it
    "mcp_timeout": EVERY,
}
