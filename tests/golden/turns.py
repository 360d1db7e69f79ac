"""Differences in turns: what the model is asked and shown, and how calls are answered."""

from __future__ import annotations

from copy import deepcopy

from tests.golden.edits import (
    chat_answer,
    chat_call,
    chat_output,
    event_like,
    exec_output,
    index_of,
    index_of_kind,
    requests,
    response_to,
)
from tests.golden.matchers import SOMETHING, AtLeast, Begins, Mentions
from tests.golden.recording import Json, Recording, Step

SLEEP = '{"command": ["sleep", "30"]}'
CLOSED_EARLY = Begins("stream error: stream disconnected before completion: ")


def conversation_tools_answer(recording: Recording) -> None:
    missing = response_to(recording, 12).value["result"]
    missing["content"][0]["text"] = Begins('{"status":"error","message":"Session does not exist')
    missing["structuredContent"] = AtLeast({"status": "error"})
    bad_id = response_to(recording, 14).value
    bad_id["result"] = AtLeast({"content": [{"type": "text", "text": Mentions("conversation_id")}], "isError": True})
    response_to(recording, 15).value["result"] = AtLeast({"structuredContent": {"conversations": []}})


def keep_interrupted_call(recording: Recording) -> None:
    body = requests(recording)[1]
    told = Mentions("interrupted", '"exit_code":137')
    if recording.wire == "chat":
        body["messages"][3:3] = [chat_call("call1234", SLEEP), chat_output("call1234", told)]
        return
    call = {"type": "function_call", "id": "fc_0", "name": "shell", "arguments": SLEEP, "call_id": "call1234"}
    body["input"][2:2] = [call, {"type": "function_call_output", "call_id": "call1234", "output": told}]


def carry_the_call_that_ran(recording: Recording) -> None:
    arguments = '{"command": ["bash", "-c", "echo ran >> log"]}'
    call = {"type": "function_call", "id": "fc_1", "name": "shell", "arguments": arguments, "call_id": "call1"}
    output = {"type": "function_call_output", "call_id": "call1", "output": exec_output("")}
    for body in requests(recording)[1:]:
        body["input"][2:2] = [call, output]


def denied_by_error(recording: Recording) -> None:
    asked = index_of_kind(recording, "request")
    like = recording.steps[index_of(recording, "exec_approval_request")]
    notice = event_like(like, type="background_event", message=Begins("approval denied: the client answered"))
    recording.steps.insert(asked + 2, notice)
    requests(recording)[1]["messages"][-1]["content"] = Begins("exec command rejected: the client answered")
    refused = {"call_id": "call1234", "what": "touch made", "reason": Begins("the client answered")}
    next(step for step in recording.steps if step.kind == "response" and step.value["id"] == 1).value["result"]["refused"] = [
        refused
    ]


def answer_everything(recording: Recording) -> None:
    for index, step in reversed(list(enumerate(recording.steps))):
        if "_raw" in step.value:
            recording.steps.insert(index + 1, _error(None, -32700))
        elif step.value.get("method") == "no/such/method":
            recording.steps.insert(index + 1, _error(step.value["id"], -32601))


def _error(request_id: int | None, code: int) -> Step:
    return Step("response", {"id": request_id, "jsonrpc": "2.0", "error": AtLeast({"code": code, "message": SOMETHING})})


def more_tools(recording: Recording) -> None:
    result = response_to(recording, 3).value["result"]
    for tool in result["tools"]:
        if tool["name"] == "codex-reply":  # a session may be named in three ways, and without a prompt the call waits
            del tool["inputSchema"]["required"]
    recording.steps[recording.steps.index(response_to(recording, 3))].value["result"] = AtLeast(result)


def ask_once(recording: Recording) -> None:
    last_request = index_of_kind(recording, "model", 3)
    first_request = index_of_kind(recording, "model")
    del recording.steps[first_request + 1 : last_request + 1]
    del recording.model[1:]


def ask_again_after_cut(recording: Recording) -> None:
    """The second answer goes on where the first broke off."""
    recording.model.append(chat_answer("partial"))
    at = index_of(recording, "agent_message")
    like = recording.steps[at]
    again = deepcopy(recording.steps[index_of_kind(recording, "model")])
    recording.steps[at:at] = [
        event_like(like, type="agent_message_delta", delta="par"),
        event_like(like, type="background_event", message=CLOSED_EARLY),
        again,
        event_like(like, type="agent_message_delta", delta="tial"),
    ]
    like.value["msg"]["message"] = "partial"
    recording.steps[index_of(recording, "task_complete")].value["msg"]["last_agent_message"] = "partial"
    response_to(recording, 1).value["result"]["content"][0]["text"] = "partial"


def told_anew(recording: Recording) -> None:
    at = index_of(recording, "agent_message_delta", 2)
    recording.steps[at] = event_like(recording.steps[at], type="background_event", message=Mentions("anew"))


def argument_before_profile(recording: Recording) -> None:
    recording.steps[index_of(recording, "session_configured")].value["msg"]["model"] = "from-config"
    first, *others = requests(recording)
    first["model"] = "from-config"
    _reword_environment(first, "Approval policy: on-failure", "Approval policy: never")
    for body in (first, *others):
        _reword_environment(body, "danger-full-access\nNetwork access: enabled", "read-only\nNetwork access: restricted")


def _reword_environment(body: Json, before: str, after: str) -> None:
    message = body["messages"][1]
    assert before in message["content"]
    message["content"] = message["content"].replace(before, after)


def reasoning_once(recording: Recording) -> None:
    del requests(recording)[1]["input"][2]


def our_originator(recording: Recording) -> None:
    for step in recording.steps:
        if step.kind == "model":
            step.value["headers"]["originator"] = "understudy"


def finished_reasoning(recording: Recording) -> None:
    at = index_of(recording, "agent_reasoning_raw_content_delta")
    finished = event_like(recording.steps[at], type="agent_reasoning_raw_content", text="thinking")
    recording.steps.insert(at + 1, finished)


def answer_after_error(recording: Recording) -> None:
    recording.model.append(chat_answer("again it is"))
    reply = recording.steps[-1]
    started = recording.steps[index_of(recording, "task_started")]
    like = event_like(started, type="task_started")
    like.value["_meta"]["requestId"] = reply.value["id"]
    request = deepcopy(recording.steps[index_of_kind(recording, "model")])
    request.value["body"]["messages"].append({"role": "user", "content": "again"})
    recording.steps += [like, request, *_plain_answer(like, "again it is", reply.value["id"])]


def _plain_answer(like: Step, text: str, call: int) -> list[Step]:
    return [
        event_like(like, type="agent_message", message=text),
        event_like(like, type="task_complete", last_agent_message=text),
        Step("response", {"id": call, "jsonrpc": "2.0", "result": {"content": [{"text": text, "type": "text"}]}}),
    ]


def both_answered(recording: Recording) -> None:
    """Events belong to the call that began the turn; the one that joined gets the answer alone."""
    for step in recording.steps:
        if step.kind == "event":
            step.value["_meta"]["requestId"] = 1
    del requests(recording)[1]["messages"][-1]
    answer = recording.steps[-1]
    answer.value["id"] = 1
    joined = Step("response", deepcopy(answer.value) | {"id": 2})
    recording.steps.append(joined)


def text_first(recording: Recording) -> None:
    message = recording.steps.pop(index_of(recording, "agent_message"))
    recording.steps.insert(index_of(recording, "exec_command_begin"), message)
    messages = requests(recording)[1]["messages"]
    messages.insert(3, messages.pop())
