"""Session files of codex, old and new, as the history that a model is given."""

import json
from typing import Any

import pytest

from understudy.cli.conversations.transfer import read_conversation
from understudy.engine.log.facts import path_to
from understudy.engine.log.fold import State
from understudy.errors import BadRequest
from understudy.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
    Reasoning,
    SummaryText,
)
from understudy.protocol.records import Opened, Overrides

ID = "5973b6c0-94b8-487b-a530-2aeb6098ae0e"
ENVIRONMENT = "<environment_context>\n  <cwd>/home/me/project</cwd>\n</environment_context>"


def old(*items: dict[str, Any]) -> State:
    meta = {"id": ID, "timestamp": "2025-08-03T12:00:00.000Z", "instructions": "x", "git": {"branch": "main"}}
    return read([meta, {"record_type": "state"}, *items])


def new(*lines: tuple[str, dict[str, Any]]) -> State:
    meta = {"id": ID, "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/work", "cli_version": "0.90.0"}
    wrapped = [{"timestamp": "2026-01-02T03:04:05.678Z", "type": kind, "payload": payload} for kind, payload in lines]
    return read([{"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": meta}, *wrapped])


def read(lines: list[dict[str, Any]]) -> State:
    imported = read_conversation("".join(json.dumps(line) + "\n" for line in lines).encode(), "file")
    assert imported.conversation_id == ID
    assert [entry.seq for entry in imported.entries] == list(range(1, len(imported.entries) + 1))
    return State.of(path_to(imported.entries))


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "id": None, "role": "user", "content": [{"type": "input_text", "text": text}]}


def assistant(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(call_id: str, name: str = "shell", arguments: str = '{"command":["ls"]}') -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "name": name, "arguments": arguments, "call_id": call_id}


def output(call_id: str, text: Any = "fine") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def item(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "response_item", payload


def asked(text: str) -> Message:
    return Message("user", (InputText(text),))


def said(text: str) -> Message:
    return Message("assistant", (OutputText(text),))


def test_the_older_form_gives_messages_calls_outputs_and_reasoning() -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "secret",
    }
    shell_call = {
        "type": "local_shell_call",
        "call_id": "c2",
        "status": "completed",
        "action": {"type": "exec", "command": ["pwd"]},
    }
    state = old(
        user(ENVIRONMENT),
        user("<user_instructions>\n\nBe kind\n\n</user_instructions>"),
        user("List the files"),
        reasoning,
        call("c1"),
        output("c1"),
        shell_call,
        output("c2"),
        assistant("Listed."),
        user("Thanks"),
        assistant("Gladly."),
    )
    assert state.items == [
        asked("List the files"),
        Reasoning((SummaryText("hm"),), None, "secret"),
        FunctionCall("shell", '{"command":["ls"]}', "c1"),
        FunctionCallOutput("c1", "fine"),
        FunctionCall("shell", '{"command": ["pwd"]}', "c2"),
        FunctionCallOutput("c2", "fine"),
        said("Listed."),
        asked("Thanks"),
        said("Gladly."),
    ]
    assert (state.title, state.message_count, state.turn, state.overrides) == (
        "List the files",
        4,
        None,
        Overrides(cwd="/home/me/project"),
    )


def test_the_newer_form_gives_the_same_and_its_events_are_not_told_twice() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    state = new(
        (
            "turn_context",
            {"cwd": "/work", "model": "gpt-9", "approval_policy": "never", "sandbox_policy": {"mode": "danger-full-access"}},
        ),
        item({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions instructions>"}]}),
        item(user("# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>…</INSTRUCTIONS>")),
        item(user(ENVIRONMENT)),
        ("event_msg", {"type": "user_message", "message": "Patch it"}),
        item({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Patch it"}, image]}),
        ("event_msg", {"type": "agent_message", "message": "Patched."}),
        item(
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin Patch", "status": "completed"}
        ),
        item({"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}),
        item(call("c2", "exec_command", '{"cmd":"ls"}')),
        item(output("c2", [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}])),
        item(call("c3")),
        item(output("c3", {"content": "three", "success": True})),
        item(assistant("Patched.")),
    )
    assert state.items == [
        Message("user", (InputText("Patch it"), InputImage("data:image/png;base64,AA=="))),
        FunctionCall("apply_patch", '{"input": "*** Begin Patch"}', "c1"),
        FunctionCallOutput("c1", "ok"),
        FunctionCall("exec_command", '{"cmd":"ls"}', "c2"),
        FunctionCallOutput("c2", "one\ntwo"),
        FunctionCall("shell", '{"command":["ls"]}', "c3"),
        FunctionCallOutput("c3", "three"),
        said("Patched."),
    ]
    assert (state.model, state.overrides) == ("gpt-9", Overrides(cwd="/work")), "what that program was allowed is not carried over"


def test_a_cut_turn_leaves_no_call_without_an_output_nor_an_output_without_its_call() -> None:
    state = new(
        item(user("Go")), item(call("c1")), item(output("stray")), ("event_msg", {"type": "turn_aborted"}), item(user("Again"))
    )
    assert state.items == [
        asked("Go"),
        FunctionCall("shell", '{"command":["ls"]}', "c1"),
        FunctionCallOutput("c1", "aborted"),
        asked("Again"),
    ]
    assert (state.turn, state.calls) == (None, {})


def test_after_a_summary_the_model_is_given_what_codex_would_give_it() -> None:
    before = (item(user("First")), item(assistant("One.")), item(user("Second")), item(assistant("Two.")))
    plain = new(*before, ("compacted", {"message": "So far: one and two."}), item(user("Third")), item(assistant("Three.")))
    assert plain.items == [asked("First"), asked("Second"), asked("So far: one and two."), asked("Third"), said("Three.")]
    replaced = new(
        *before, ("compacted", {"message": "", "replacement_history": [user("First"), assistant("Sum.")]}), item(user("Third"))
    )
    assert replaced.items == [asked("First"), said("Sum."), asked("Third")]
    sealed = {"type": "compaction", "encrypted_content": "x"}
    kept = new(*before, ("compacted", {"message": "", "replacement_history": [user("First"), sealed]}), item(user("Third")))
    assert kept.items[-1:] == [asked("Third")]
    assert kept.items[:4] == [asked("First"), said("One."), asked("Second"), said("Two.")]


def test_messages_that_were_taken_back_are_not_in_the_history() -> None:
    state = new(
        item(user("Stay")),
        item(assistant("Here.")),
        item(user("Wrong")),
        item(assistant("Way.")),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        item(user("Right")),
        item(assistant("On.")),
    )
    assert state.items == [asked("Stay"), said("Here."), asked("Right"), said("On.")]


def test_what_has_no_like_here_is_named_and_lines_that_cannot_be_read_are_passed_over() -> None:
    meta = {"type": "session_meta", "payload": {"id": ID}}
    search = {"type": "response_item", "payload": {"type": "web_search_call", "id": "ws"}}
    lines = [json.dumps(meta), "{broken", "[]", json.dumps(search), json.dumps(search), '{"type":"response_item","payl']
    imported = read_conversation("\n".join(lines).encode(), "file")
    assert imported.notes == ("left out, because there is nothing like it here: 2 × web_search_call",)
    assert [entry.record for entry in imported.entries] == [Opened(ID, "", Overrides())]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"type": "response_item", "payload": user("Hi")}, "no line with the session's id"),
        ({"type": "session_meta", "payload": {"id": "thread-1"}}, "the session's id 'thread-1' is not valid"),
        ({"id": "x", "timestamp": "2025"}, "the session's id 'x' is not valid"),
    ],
)
def test_a_file_that_does_not_say_which_session_it_holds_is_refused(line: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read_conversation(json.dumps(line).encode(), "file")


def test_times_are_kept() -> None:
    meta = {"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": {"id": ID}}
    later = {"timestamp": "2026-01-02T03:05:05.000Z", "type": "response_item", "payload": user("Hi")}
    imported = read_conversation(f"{json.dumps(meta)}\n{json.dumps(later)}\n".encode(), "file")
    assert imported.entries[-1].at - imported.entries[0].at == 60.0
    assert imported.entries[0].at == 1767323045.0
