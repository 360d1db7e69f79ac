"""Differences that hold for every recording."""

from __future__ import annotations

from typing import Any

from tests.golden.conversations import senders_of
from tests.golden.edits import event_like
from tests.golden.matchers import SOMETHING, AtLeast, Mentions
from tests.golden.recording import Json, Recording, Step

CALLS = ("codex", "codex-reply")


def our_server_info(recording: Recording) -> None:
    for step in recording.steps:
        match step.value:
            case {"result": {"serverInfo": _, "capabilities": capabilities}}:
                step.value["result"] |= {"serverInfo": AtLeast({"name": "understudy"}), "capabilities": AtLeast(capabilities)}
            case _:
                pass


def complete_failed_turns(recording: Recording) -> None:
    steps: list[Step] = []
    for step in recording.steps:
        steps.append(step)
        if step.event == "error":
            steps.append(event_like(step, type="task_complete", last_agent_message=None))
    recording.steps = steps


def interrupted_without_blank(recording: Recording) -> None:
    for step in recording.events("error"):
        if isinstance(message := step.value["msg"]["message"], str):
            step.value["msg"]["message"] = message.lstrip()
    for step in recording.steps:
        match step.value:
            case {"result": {"error": str(error)}}:
                step.value["result"]["error"] = error.lstrip()
            case _:
                pass


def text_deltas_on_chat(recording: Recording) -> None:
    steps: list[Step] = []
    for step in recording.steps:
        told = bool(steps) and steps[-1].event == "agent_message_delta"
        if step.event == "agent_message" and recording.wire == "chat" and not told:
            steps.append(event_like(step, type="agent_message_delta", delta=step.value["msg"]["message"]))
        steps.append(step)
    recording.steps = steps


def threads_of(recording: Recording) -> dict[str, str]:
    """The conversation of each call, by the call's id as text."""
    threads = senders_of(recording)
    for step in recording.steps:
        match step.value:
            case {"method": "tools/call", "id": call, "params": {"name": "codex-reply", "arguments": {"sessionId": thread}}}:
                threads[str(call)] = thread
            case {"_meta": {"requestId": call}, "msg": {"type": "session_configured", "session_id": thread}}:
                threads[str(call)] = thread
            case _:
                pass
    return threads


def one_counter(recording: Recording) -> None:
    """Messages, answers to questions and interrupts count; a turn has the number of the message that began it."""
    threads = threads_of(recording)
    count: dict[str, int] = {}
    turn: dict[str, str] = {}
    for step in recording.steps:
        match step.value:
            case {"msg": {"type": "session_configured"}}:
                continue
            case {"_meta": {"requestId": call}, "msg": {"type": kind}}:
                thread = threads[str(call)]
                if kind == "task_started":
                    count[thread] = count.get(thread, 0) + 1
                    turn[thread] = str(count[thread])
                step.value["id"] = turn[thread]
            case {"method": "elicitation/create", "params": {"codex_mcp_tool_call_id": call} as params}:
                thread = threads[call]
                count[thread] += 1
                params["codex_event_id"] = turn[thread]
            case {"method": "notifications/cancelled", "params": {"requestId": call}} if str(call) in threads:
                if not _answered_before(recording, step, call):
                    count[threads[str(call)]] += 1
            case _:
                pass


def _answered_before(recording: Recording, step: Step, call: Any) -> bool:
    before = recording.steps[: recording.steps.index(step)]
    return any(other.kind == "response" and other.value.get("id") == call for other in before)


def thread_ids(recording: Recording) -> None:
    threads = threads_of(recording)
    for step in recording.steps:
        if step.kind == "event":
            meta = step.value["_meta"]
            meta["threadId"] = threads[str(meta["requestId"])]
        elif step.kind == "request":
            params = step.value["params"]
            params["threadId"] = threads[params["codex_mcp_tool_call_id"]]


def reasons_in_questions(recording: Recording) -> None:
    for step in recording.steps:
        if step.kind == "request" and step.value["params"]["codex_elicitation"] == "exec-approval":
            step.value["params"].setdefault("codex_reason", SOMETHING)
            step.value["params"]["codex_parsed_cmd"] = SOMETHING


def patches_within_the_server(recording: Recording) -> None:
    """No helper process, so no output of one; the diff of the turn is told when it has changed, not after every answer."""
    patched = {step.value["msg"]["call_id"] for step in recording.events("patch_apply_begin")}
    steps: list[Step] = []
    told = ""
    for step in recording.steps:
        if step.event == "exec_command_output_delta" and step.value["msg"]["call_id"] in patched:
            continue
        if step.event == "turn_diff":
            if step.value["msg"]["unified_diff"] == told:
                continue
            told = step.value["msg"]["unified_diff"]
        steps.append(step)
    recording.steps = steps


def lines_counted_in_patch_questions(recording: Recording) -> None:
    for step in recording.steps:
        if step.kind == "request" and step.value["params"]["codex_elicitation"] == "patch-approval":
            step.value["params"].setdefault("codex_reason", SOMETHING)


def whole_results(recording: Recording) -> None:
    threads = threads_of(recording)
    calls = {
        repr(step.value["id"]): step.value["params"]["name"] for step in recording.steps if step.value.get("method") == "tools/call"
    }
    for step in recording.steps:
        if step.kind == "response" and calls.get(repr(step.value.get("id"))) in CALLS:
            thread = threads.get(str(step.value["id"]))
            step.value["result"] = _whole(step.value["result"], thread)


REPORT = AtLeast({"files": [], "commands": []})  # no server of the time had one


def _whole(result: Json, thread: str | None) -> Json:
    if "error" in result:
        text = result["error"]
        failed = {"content": [{"text": text, "type": "text"}, _note(thread)], "isError": True, "error": text}
        return failed | {"structuredContent": {"threadId": thread, "content": text, "report": REPORT}}
    if result.get("isError"):
        return result  # there was no conversation yet
    structured: Json = {"threadId": thread, "content": result["content"][0]["text"], "report": REPORT}
    note = _note(thread)
    if refused := result.pop("refused", None):
        structured["refused"] = refused
        note["text"] = Mentions(*(f"refused: {one['what']}: " for one in refused), note["text"].lstrip())
    return result | {"content": [*result["content"], note], "structuredContent": structured}


def _note(thread: str | None) -> Json:
    return {"text": f"\n\nthreadId: {thread} (to continue this session, call codex-reply with it)", "type": "text"}
