"""Differences in commands, patches and the questions about them."""

from __future__ import annotations

from copy import deepcopy

from tests.golden.edits import (
    chat_call,
    chat_output,
    command_end,
    command_events,
    event_like,
    exec_output,
    index_of,
    index_of_kind,
    requests,
    reword,
    tool_output,
    without_events,
)
from tests.golden.matchers import Mentions
from tests.golden.normalise import show
from tests.golden.recording import OUTPUT_DELTA, Recording, Step

KILLED = 137


def end_interrupted(recording: Recording) -> None:
    """What was executed has an end, also when the turn was cut short."""
    at = index_of(recording, "error")
    ended = command_events(recording.steps[at], "call1234", ["sleep", "30"], exit_code=KILLED)[-1]
    recording.steps.insert(at, ended)


def long_line(recording: Recording) -> None:
    shown = "x" * 5120 + "\n[... omitted 9840 of 20000 bytes ...]\n\n" + "x" * 5040
    command_end("call1234", stdout=show("x" * 20_000))(recording)
    tool_output("call1234", show(exec_output(shown)))(recording)


def long_output(recording: Recording) -> None:
    lines = [str(number) for number in range(1, 2001)]
    whole = "\n".join([*lines, ""])
    shown = "\n".join([*lines[:128], "[... omitted 1744 of 2000 lines ...]", "", *lines[-128:], ""])
    command_end("call1234", stdout=show(whole))(recording)
    tool_output("call1234", show(exec_output(shown)))(recording)


def accepted(recording: Recording) -> None:
    at = index_of(recording, "agent_message")
    ran = command_events(recording.steps[at], "call1234", ["touch", "made"])
    last_request = index_of_kind(recording, "model", 2)
    recording.steps[last_request:last_request] = ran
    tool_output("call1234", exec_output(""))(recording)
    recording.files["made"] = ""


def asked_again(recording: Recording) -> None:
    """The second command goes the way of the first."""
    steps = recording.steps
    begin, asked = index_of(recording, "exec_command_begin"), index_of(recording, "exec_command_begin", 2)
    again = [Step(step.kind, deepcopy(step.value)) for step in steps[begin:asked]]
    for step in again:
        if step.kind == "event" and "call_id" in step.value["msg"]:
            step.value["msg"]["call_id"] = "call2"
        elif step.kind == "request":
            step.value["id"] = 1
            step.value["params"]["codex_call_id"] = "call2"
        elif step.kind == "client":
            step.value["id"] = 1
    second = index_of(recording, "exec_command_begin", 3)
    recording.steps = [*steps[:second], *again, *steps[second:]]
    for step in recording.steps:
        if step.kind == "request":
            step.value["params"]["codex_reason"] = Mentions("second time", "outside the sandbox")


def plain_failure(recording: Recording) -> None:
    command_end("call1234", exit_code=3, stdout="out\n")(recording)
    end = index_of(recording, "exec_command_end")
    ended = recording.steps[end]
    answer = deepcopy(next(step for step in recording.steps if step.kind == "model"))
    call = chat_call("call1234", '{"command": ["bash", "-c", "echo out; echo err >&2; exit 3"]}')
    answer.value["body"]["messages"] += [call, chat_output("call1234", exec_output("out\nerr\n", 3))]
    result = {"content": [{"text": "fine", "type": "text"}]}
    recording.steps[end + 1 :] = [
        answer,
        event_like(ended, type="agent_message", message="fine"),
        event_like(ended, type="task_complete", last_agent_message="fine"),
        Step("response", {"id": 1, "jsonrpc": "2.0", "result": result}),
    ]
    choice = {"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}
    recording.model.append({"events": [{"choices": [choice]}], "done": True})


def justified(recording: Recording) -> None:
    question = recording.steps[index_of_kind(recording, "request")]
    question.value["params"]["codex_reason"] = Mentions("to write next door", "outside the sandbox")


def both_run(recording: Recording) -> None:
    at = index_of_kind(recording, "model", 2)
    like = recording.steps[index_of(recording, "task_started")]
    recording.steps[at:at] = [
        *command_events(like, "call1", ["echo", "a"], stdout="a\n"),
        *command_events(like, "call2", ["echo", "b"], stdout="b\n"),
    ]
    messages = requests(recording)[1]["messages"]
    messages[3:] = [
        chat_call("call1", '{"command": ["echo", "a"]}'),
        chat_output("call1", exec_output("a\n")),
        chat_call("call2", '{"command": ["echo", "b"]}'),
        chat_output("call2", exec_output("b\n")),
    ]


def added_in_place(recording: Recording) -> None:
    misplaced, placed = "923938302a04ac48da25845119138adbc814b774", "18a99ac7d42233a1a0e50ae5b83e4d809f6aeb97"
    reword(("+last\n b\n", " b\n+last\n"), (misplaced, placed))(recording)
    recording.files["f.txt"] = "A1\nA2\nb\nlast\n"


def patch_forms(recording: Recording) -> None:
    """A script with another command beside the patch is a script; with `cd`, under `bash -c` or by tool it is a patch."""
    without_events("exec_command_begin", "exec_command_end", OUTPUT_DELTA, "patch_apply_begin", "patch_apply_end", "turn_diff")(
        recording
    )
    like = recording.steps[index_of(recording, "task_started")]
    not_found = "bash: line 1: apply_patch: command not found\n"
    heredoc = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a2\n+x\n*** End Patch\nEOF\ntouch also"
    shown = [
        _patch_events(like, "call0", "a1", ["a1"]),
        command_events(like, "call1", ["bash", "-lc", heredoc], stderr=not_found),
        _patch_events(like, "call2", "a3", ["a1", "sub/a3"], folder="sub/"),
        _patch_events(like, "call3", "a4", ["a1", "a4", "sub/a3"]),
        _patch_events(like, "call4", "a5", ["a1", "a4", "a5", "sub/a3"]),
        _patch_events(like, "call9", "a6", ["a1", "a4", "a5", "a6", "sub/a3"]),
    ]
    for count, events in enumerate(shown, start=2):
        at = index_of_kind(recording, "model", count)
        recording.steps[at:at] = events
    tool_output("call1", exec_output(not_found))(recording)
    for call_id, name in (("call2", "a3"), ("call3", "a4"), ("call9", "a6")):
        tool_output(call_id, exec_output(_success(name)))(recording)
    del recording.files["a2"]
    recording.files |= {"also": "", "sub/a3": "x\n", "a4": "x\n", "a6": "x\n"}


def _patch_events(like: Step, call_id: str, name: str, added: list[str], folder: str = "") -> list[Step]:
    """A file with the line `x` is added; `added` are all that the turn has added so far."""
    changes = {f"<work>/{folder}{name}": {"add": {"content": "x\n"}}}
    return [
        event_like(like, type="patch_apply_begin", call_id=call_id, auto_approved=True, changes=changes),
        event_like(like, type="patch_apply_end", call_id=call_id, stdout=_success(name), stderr="", success=True),
        event_like(like, type="turn_diff", unified_diff="".join(_added(f"<work>/{path}", "x") for path in added)),
    ]


def _success(name: str) -> str:
    return f"Success. Updated the following files:\nA {name}\n"


def _added(path: str, line: str) -> str:
    digest = {"x": "587be6b4c3f93f93c489c0111bba5596147a26cb", "hi": "45b983be36b73c0788dc9cbcb76cbb80fc7bb057"}[line]
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\nindex {'0' * 40}..{digest}\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"
    )


OUTSIDE = {"<work>/../outside.txt": {"add": {"content": "hi\n"}}}


def patch_outside_applied(recording: Recording) -> None:
    like = recording.steps[index_of(recording, "task_started")]
    at = index_of_kind(recording, "model", 2)
    recording.steps[at:at] = [
        event_like(like, type="patch_apply_begin", call_id="call1234", auto_approved=True, changes=OUTSIDE),
        event_like(like, type="patch_apply_end", call_id="call1234", stdout=_success("../outside.txt"), stderr="", success=True),
        event_like(like, type="turn_diff", unified_diff=_added("<work>/../outside.txt", "hi")),
    ]
    tool_output("call1234", exec_output(_success("../outside.txt")))(recording)


def patch_outside_asked(recording: Recording) -> None:
    """Asked about before anything is tried."""
    first, asked = index_of(recording, "patch_apply_begin"), index_of_kind(recording, "request")
    like = recording.steps[first]
    question = recording.steps[asked].value
    question["params"] = {
        "message": "changes files outside the project\nAllow Codex to apply proposed code changes?",
        "requestedSchema": question["params"]["requestedSchema"],
        "codex_elicitation": "patch-approval",
        "codex_mcp_tool_call_id": "1",
        "codex_event_id": "1",
        "codex_call_id": "call1234",
        "codex_changes": OUTSIDE,
        "codex_reason": Mentions("outside", "../outside.txt"),
    }
    reason = Mentions("outside")
    event = event_like(like, type="apply_patch_approval_request", call_id="call1234", changes=OUTSIDE, reason=reason)
    recording.steps[first:asked] = [event]
    without_events("background_event")(recording)
    recording.steps[index_of(recording, "patch_apply_begin")].value["msg"]["auto_approved"] = False
