"""Differences with tools of other servers in the recordings of 0.20.0."""

from __future__ import annotations

from tests.golden.edits import event_like, index_of, requests, response_to
from tests.golden.matchers import Mentions
from tests.golden.recording import Recording

MISSING = Mentions("gone (No such file or directory (os error 2))")


def our_names(recording: Recording) -> None:
    """The call itself is understood by the name it has there."""
    for body in requests(recording):
        for tool in body["tools"]:
            named = tool.get("function", tool)
            if named["name"].startswith("srv__"):
                named["name"] = f"mcp__{named['name']}"


def outcome_of_a_cancelled_call(recording: Recording) -> None:
    begun = index_of(recording, "mcp_tool_call_begin")
    like = recording.steps[begun]
    invocation = like.value["msg"]["invocation"]
    told = {"call_id": "call1234", "invocation": invocation, "duration": {"secs": 0, "nanos": 0}}
    ended = event_like(like, type="mcp_tool_call_end", **told, result={"Err": Mentions("cancelled", "not known")})
    recording.steps.insert(index_of(recording, "error"), ended)


def the_turn_goes_on(recording: Recording) -> None:
    """The error of the server that is missing becomes a notice, and what follows is an ordinary turn."""
    failed = index_of(recording, "error")
    like = recording.steps[failed]
    like.value["id"] = "1"
    answer = response_to(recording, 1)
    answer.value["result"] = {"content": [{"text": "end", "type": "text"}]}
    model = next(step for step in recording.steps if step.kind == "model")
    turn = [
        event_like(like, type="task_started"),
        event_like(like, type="background_event", message=MISSING),
        model,
        event_like(like, type="agent_message", message="end"),
        event_like(like, type="task_complete", last_agent_message="end"),
        answer,
    ]
    recording.steps[failed:] = turn


def servers_told(recording: Recording) -> None:
    """In the modern shapes it is told which servers there are, once they have been waited for."""
    config = recording.setup["config"]
    if "[mcp_servers." not in config:
        return
    begun = index_of(recording, "task_started")
    gone = "[mcp_servers.gone]" in config
    failed = [{"server": "gone", "error": "No such file or directory (os error 2)"}] if gone else []
    told = {"ready": [] if gone else ["srv"], "failed": failed, "cancelled": []}
    steps = [step for step in recording.steps if step.event != "background_event"]
    steps.insert(begun + 1, event_like(recording.steps[begun], type="mcp_startup_complete", **told))
    recording.steps = steps


def patient(config: str) -> str:
    """How long a busy machine takes to start a server is not what is tested."""
    return f"{config}\n[understudy.mcp]\nwait_seconds = 60\n" if "[mcp_servers." in config else config
