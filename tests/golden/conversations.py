"""Differences in conversations: their events wait for `conversationStream`, and every message is a turn of its own."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.golden.edits import (
    chat_answer,
    command_end,
    event_like,
    exec_output,
    index_of,
    index_of_kind,
    response_to,
    tool_output,
)
from tests.golden.matchers import SOMETHING, AtLeast, Mentions
from tests.golden.recording import TEXT_DELTAS, Json, Recording, Step

STREAM = "stream"  # the id of the request that opens it
OK: Json = {"content": [{"text": '{"status":"ok"}', "type": "text"}], "isError": False, "structuredContent": {"status": "ok"}}


def senders_of(recording: Recording) -> dict[str, str]:
    """The conversation of each `conversationCreate` that made one and each `conversationSendMessage`, by the call's id as text."""
    senders: dict[str, str] = {}
    for step in recording.steps:
        match step.value:
            case {"id": call, "result": {"structuredContent": {"conversation_id": conversation}}}:
                senders[str(call)] = conversation
            case {"method": "tools/call", "id": call, "params": {"name": "conversationSendMessage", "arguments": arguments}}:
                senders[str(call)] = arguments.get("conversation_id", "")
            case _:
                pass
    return senders


def shown_in_a_stream(recording: Recording) -> None:
    """A stream is opened before the first message of a conversation, and ended before a call that has events of its own.

    Its events are bare, and come once. It begins with a snapshot of all that was before.
    """
    senders = senders_of(recording)
    if not any(step.kind == "event" and _caller(step) in senders for step in recording.steps):
        return  # nothing became of them
    steps: list[Step] = []
    streaming = False
    for step in recording.steps:
        calls = step.value.get("params", {}).get("name") if step.kind == "client" else None
        if calls == "conversationSendMessage" and not streaming:
            steps += _stream_opened(step.value["params"]["arguments"]["conversation_id"], steps)
            streaming = True
        elif calls == "codex-reply" and streaming:
            ended = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": STREAM}}
            steps.append(Step("client", ended))
        steps.append(_bare(step.value["msg"]) if step.kind == "event" and _caller(step) in senders else step)
    recording.steps = steps


def _caller(step: Step) -> str:
    return str(step.value["_meta"]["requestId"])


def _bare(msg: Json) -> Step:
    return Step("notification", {"jsonrpc": "2.0", "method": msg["type"], "params": {"msg": msg}})


def _stream_opened(conversation: str, before: list[Step]) -> list[Step]:
    untold = (*TEXT_DELTAS, "session_configured")
    events = [{"msg": deepcopy(step.value["msg"])} for step in before if step.kind == "event" and step.event not in untold]
    arguments = {"name": "conversationStream", "arguments": {"conversation_id": conversation}}
    result: Json = {"content": [{"text": "{}", "type": "text"}], "isError": False, "structuredContent": {}}
    snapshot = {"_meta": {"conversationId": conversation}, "initial_state": {"events": events}}
    return [
        Step("client", {"jsonrpc": "2.0", "id": STREAM, "method": "tools/call", "params": arguments}),
        Step("response", {"id": STREAM, "jsonrpc": "2.0", "result": result}),
        Step("notification", {"jsonrpc": "2.0", "method": "notifications/initial_state", "params": snapshot}),
    ]


def message_ids(recording: Recording) -> None:
    for step in recording.steps:
        match step.value:
            case {"result": {"structuredContent": {"status": "ok"}} as result}:
                result["_meta"] = AtLeast({"messageId": SOMETHING})
            case _:
                pass


def second_message_accepted(recording: Recording) -> None:
    recording.model.append(chat_answer("Done 2"))
    response_to(recording, 3).value["result"] = deepcopy(OK)
    like = recording.steps[index_of(recording, "task_started")]
    request = deepcopy(recording.steps[index_of_kind(recording, "model")])
    request.value["body"]["messages"] += [{"role": "assistant", "content": "Done 1"}, {"role": "user", "content": "Hello M2"}]
    recording.steps += [
        event_like(like, type="task_started"),
        request,
        event_like(like, type="agent_message", message="Done 2"),
        event_like(like, type="task_complete", last_agent_message="Done 2"),
    ]


def each_call_its_own_turn(recording: Recording) -> None:
    """The turn of the message is over before the reply is sent; the reply has the turn after it."""
    reply = next(step for step in recording.steps if step.kind == "client" and step.value.get("id") == 3)
    late = [step for step in recording.steps if step.kind == "event" and step.value["_meta"]["requestId"] == 3]
    answer, last_request = response_to(recording, 3), recording.steps[-1]
    own = deepcopy(late)
    for step in late:
        step.value["_meta"]["requestId"] = 2
    own[1].value["msg"]["message"] = own[2].value["msg"]["last_agent_message"] = "c"
    answer.value["result"]["content"][0]["text"] = "c"
    began = recording.steps.index(reply)
    recording.steps[began:] = [*late, reply, own[0], last_request, *own[1:], answer]


def contained_command_runs(recording: Recording) -> None:
    command_end("call1234", exit_code=0, stderr="")(recording)
    tool_output("call1234", exec_output(""))(recording)
    recording.files["f"] = "a\n"


def unreadable_image_named(recording: Recording) -> None:
    """The message is refused; sent again without that image it is taken."""
    sent = next(step for step in recording.steps if step.kind == "client" and step.value.get("id") == 2)
    taken = response_to(recording, 2)
    named = Mentions("<work>/missing.png")
    failed: dict[str, Any] = {"isError": True, "structuredContent": {"status": "error", "message": named}}
    refused = Step("response", {"id": 2, "jsonrpc": "2.0", "result": AtLeast(failed)})
    again = deepcopy(sent)
    again.value["id"] = taken.value["id"] = 3
    content = again.value["params"]["arguments"]["content"]
    again.value["params"]["arguments"]["content"] = [item for item in content if "missing" not in item.get("path", "")]
    at = recording.steps.index(taken)
    recording.steps[at:at] = [refused, again]
