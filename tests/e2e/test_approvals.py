"""Questions: what is asked, what every answer does, and that nobody able to answer never means a hang."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, failed, kinds, scene, text_of, thread_of, told_to_model
from understudy.testing import call, say

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
CONTAINED = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
TOUCH = call("shell", call_id="call1234", command=["touch", "made file"])


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder outside the project. Not in /tmp: there every conversation has one of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


async def test_a_command_question_has_every_member_of_the_wire(tmp_path: Path) -> None:
    async with scene([TOUCH, say("Enjoy!")], tmp_path, config=ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="make a file")
        question = await client.next_request("elicitation/create")
        event = await client.event("exec_approval_request", call_)
        assert event == {
            "type": "exec_approval_request",
            "call_id": "call1234",
            "command": ["touch", "made file"],
            "cwd": str(tmp_path),
        }
        params = dict(question["params"])
        extra = {name: params.pop(name) for name in tuple(params) if name in ("threadId", "codex_reason", "codex_parsed_cmd")}
        assert question["id"] == 0
        assert params == {
            "message": f"Allow Codex to run `touch 'made file'` in `{tmp_path}`?",
            "requestedSchema": {"type": "object", "properties": {}},
            "codex_elicitation": "exec-approval",
            "codex_mcp_tool_call_id": str(call_.id),
            "codex_event_id": "1",
            "codex_call_id": "call1234",
            "codex_command": ["touch", "made file"],
            "codex_cwd": str(tmp_path),
        }
        assert extra["threadId"]
        assert not (tmp_path / "made file").exists(), "nothing runs before the answer"
        assert await client.request("ping") == {}, "asking blocks nobody"
        await client.respond(question, {"decision": "approved"})
        result = await call_
        assert result == answered("Enjoy!", thread_of(result))
        assert (tmp_path / "made file").exists()
        assert kinds(client.events(call_), "agent_message_delta") == [
            "session_configured",
            "task_started",
            "exec_approval_request",
            "exec_command_begin",
            "exec_command_end",
            "agent_message",
            "task_complete",
        ]
        assert json.loads(told_to_model(model.requests[1], "call1234"))["metadata"]["exit_code"] == 0


async def test_a_patch_question_shows_the_changes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n"
    script = [call("shell", command=["bash", "-lc", f"apply_patch <<'EOF'\n{patch}EOF"]), say("Patch has been applied.")]
    async with scene(script, tmp_path, config=ASKING) as (_, client):
        call_ = client.call_tool("codex", prompt="patch it", cwd=str(tmp_path))
        question = await client.next_request("elicitation/create")
        params = question["params"]
        assert params["message"] == "Allow Codex to apply proposed code changes?"
        assert params["codex_elicitation"] == "patch-approval"
        assert (params["codex_event_id"], params["codex_call_id"]) == ("1", "call1")
        assert params["codex_changes"] == {
            str(tmp_path / "a.txt"): {"update": {"unified_diff": "@@ -1 +1 @@\n-old\n+new\n", "move_path": None}}
        }
        assert "codex_grant_root" not in params
        assert (tmp_path / "a.txt").read_text() == "old\n"
        await client.respond(question, {"decision": "approved"})
        assert text_of(await call_) == "Patch has been applied."
        assert (tmp_path / "a.txt").read_text() == "new\n"
        asked = next(event for event in client.events(call_) if event["type"] == "apply_patch_approval_request")
        assert asked["changes"] == params["codex_changes"]
        begin = next(event for event in client.events(call_) if event["type"] == "patch_apply_begin")
        assert begin["auto_approved"] is False


@pytest.mark.slow
async def test_a_file_that_changes_while_its_patch_waits_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\nold\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch"
    async with scene([call("apply_patch", input=patch), say("ok")], tmp_path, config=ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="patch it")
        question = await client.next_request("elicitation/create")
        (tmp_path / "a.txt").write_text("another\nold\n")
        await client.respond(question, {"decision": "approved"})
        assert text_of(await call_) == "ok"
        assert (tmp_path / "a.txt").read_text() == "another\nold\n"
        assert "has changed" in told_to_model(model.requests[1])


APPROVING: list[dict[str, Any]] = [
    {"decision": "approved"},
    {"action": "accept"},
    {"action": "accept", "content": {}},
    {"action": "accept", "content": None},
    {"action": "accept", "content": {"decision": "approved"}},
    {"action": "accept", "decision": "approved"},
    {"action": "decline", "decision": "approved"},  # `decision` is the older word, and the more exact one
    {"decision": "approved_for_session"},
    {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["touch"]}}},
]
DENYING: list[Any] = [
    {"decision": "denied"},
    {"decision": {"denied": {"rejection": ""}}},
    {"decision": "Approved"},
    {"decision": None},
    {"decision": 5},
    {"action": "decline"},
    {"action": "accept", "content": {"decision": "denied"}},
    {"action": "accept", "content": {"decision": "whatever"}},
    {"action": "whatever"},
    {},
    None,
    [],
    "approved",
    5,
]


async def test_every_shape_of_yes_and_no_is_understood(tmp_path: Path) -> None:
    """One session, one turn for each answer; the model gives every call the same id."""
    answers = [(answer, True) for answer in APPROVING] + [(answer, False) for answer in DENYING]
    script = [
        step for n in range(len(answers)) for step in (call("shell", call_id="same", command=["touch", f"made {n}"]), say("ok"))
    ]
    async with scene(script, tmp_path, config=ASKING) as (model, client):
        thread = None
        for n, (answer, yes) in enumerate(answers):
            if thread is None:
                call_ = client.call_tool("codex", prompt="go")
            else:
                call_ = client.call_tool("codex-reply", threadId=thread, prompt="again")
            question = await client.next_request("elicitation/create")
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            result = await call_
            thread = thread_of(result)
            assert text_of(result) == "ok"
            assert (tmp_path / f"made {n}").exists() == yes, answer
            if not yes:
                told = model.requests[-1]["messages"][-1]
                assert (told["role"], told["content"]) == ("tool", "exec command rejected by user")
                assert "exec_command_begin" not in kinds(client.events(call_))


async def test_a_question_that_the_client_cancels_is_named_with_what_to_set(tmp_path: Path) -> None:
    """Some clients cancel every question and show it to nobody."""
    async with scene([TOUCH], tmp_path, config=ASKING) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.respond(await client.next_request("elicitation/create"), {"action": "cancel"})
        result = await call_
        assert (result["isError"], text_of(result)) == (True, "Turn interrupted")
        (refused,) = result["structuredContent"]["refused"]
        assert (refused["call_id"], refused["what"]) == ("call1234", "touch 'made file'")
        assert "the client cancelled the question" in refused["reason"]
        assert "approval-policy never" in refused["reason"]
        told = result["content"][1]["text"]
        assert told.startswith(f"\n\nrefused: touch 'made file': {refused['reason']}")
        assert thread_of(result) in told


async def test_an_abort_ends_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    async with scene([TOUCH, say("hello again")], tmp_path, config=ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.respond(await client.next_request("elicitation/create"), {"decision": "abort"})
        result = await call_
        thread = thread_of(result)
        assert result == failed("Turn interrupted", thread)
        assert client.events(call_)[-2:] == [
            {"type": "error", "message": "Turn interrupted"},
            {"type": "task_complete", "last_agent_message": None},
        ]
        assert not (tmp_path / "made file").exists()
        assert await client.call_tool("codex-reply", threadId=thread, prompt="and now?") == answered("hello again", thread)
        assert told_to_model(model.requests[1], "call1234") == "aborted"


async def test_an_error_as_answer_is_a_no_with_the_reason(tmp_path: Path) -> None:
    async with scene([TOUCH, say("ok")], tmp_path, config=ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.respond_error(await client.next_request("elicitation/create"), -32600, "Elicitation not supported")
        assert text_of(await call_) == "ok"
        told = told_to_model(model.requests[1], "call1234")
        assert told.startswith("exec command rejected: ")
        assert "Elicitation not supported" in told
        assert any("Elicitation not supported" in event.get("message", "") for event in client.events(call_))


async def test_a_client_that_cannot_be_asked_is_not_and_model_and_caller_are_told(tmp_path: Path) -> None:
    async with scene([TOUCH, say("ok")], tmp_path, config=ASKING, capabilities={}) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "ok"
        assert "elicitation" in told_to_model(model.requests[1], "call1234")
        [notice] = [event["message"] for event in client.events(call_) if event["type"] == "background_event"]
        assert "elicitation" in notice
        assert not [frame for frame in client.frames if frame.get("method") == "elicitation/create"]
        assert not (tmp_path / "made file").exists()


@pytest.mark.slow
async def test_an_answer_counts_once(tmp_path: Path) -> None:
    second = call("shell", call_id="call2", command=["touch", "second"])
    async with scene([TOUCH, second, say("ok")], tmp_path, config=ASKING) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        first = await client.next_request("elicitation/create")
        await client.respond(first, {"decision": "denied"})
        await client.respond(first, {"decision": "approved"})
        later = await client.next_request("elicitation/create")
        await client.respond(first, {"decision": "approved"})
        await client.respond({"id": 99}, {"decision": "approved"})
        await client.respond({"id": str(later["id"])}, {"decision": "approved"})  # another id, for it is a string
        await client.respond(later, {"decision": "denied"})
        assert text_of(await call_) == "ok"
        assert not (tmp_path / "made file").exists()
        assert not (tmp_path / "second").exists()


async def test_approved_for_the_session_is_for_the_same_command_in_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    run = ["sh", "-c", "echo x >> log"]
    script = [
        call("shell", call_id="1", command=run),
        call("shell", call_id="2", command=run),
        call("shell", call_id="3", command=run, workdir="sub"),
        call("shell", call_id="4", command=["sh", "-c", "echo y >> log"]),
        say("ok"),
        call("shell", call_id="5", command=run),
        say("ok"),
    ]
    async with scene(script, tmp_path, config=ASKING) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        asked: list[str] = []
        for answer in ("approved_for_session", "denied", "denied"):
            question = await client.next_request("elicitation/create")
            asked.append(question["params"]["codex_call_id"])
            await client.respond(question, {"decision": answer})
        result = await call_
        assert asked == ["1", "3", "4"]
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="again")) == "ok"
        assert (tmp_path / "log").read_text() == "x\nx\nx\n"
        assert not (tmp_path / "sub" / "log").exists()


@pytest.mark.slow
async def test_a_plain_yes_is_for_this_once(tmp_path: Path) -> None:
    script = [call("shell", call_id="1", command=["touch", "a"]), call("shell", call_id="2", command=["touch", "a"]), say("ok")]
    async with scene(script, tmp_path, config=ASKING) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        for _ in range(2):
            await client.respond(await client.next_request("elicitation/create"), {"decision": "approved"})
        assert text_of(await call_) == "ok"


async def test_what_is_known_to_be_harmless_is_not_asked_about(tmp_path: Path) -> None:
    async with scene([call("shell", command=["ls"]), say("ok")], tmp_path, config=CONTAINED) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "ok"
        assert "exec_approval_request" not in kinds(client.events(call_))


@pytest.mark.quick(1)
@pytest.mark.parametrize("answer", ["approved", "denied"])
async def test_on_failure_a_refused_command_is_offered_outside_the_sandbox(tmp_path: Path, outside: Path, answer: str) -> None:
    work = tmp_path
    run = ["sh", "-c", f"echo tried >> tries; echo x > {outside}/made"]
    config = {"approval_policy": "on-failure", "sandbox_mode": "workspace-write"}
    script = [call("shell", command=run), say("ok")]
    async with scene(script, work, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        assert "outside" in question["params"]["codex_reason"] or "sandbox" in question["params"]["codex_reason"]
        assert (work / "tries").read_text() == "tried\n", "it has run once, contained"
        assert not (outside / "made").exists()
        await client.respond(question, {"decision": answer})
        assert text_of(await call_) == "ok"
        assert (outside / "made").exists() == (answer == "approved")
        assert (work / "tries").read_text() == ("tried\ntried\n" if answer == "approved" else "tried\n")
        steps = kinds(client.events(call_), "exec_command_output_delta", "agent_message_delta")
        begun = ["exec_command_begin", "exec_command_end", "background_event", "exec_approval_request"]
        again = ["background_event", "exec_command_begin", "exec_command_end"] if answer == "approved" else []
        assert steps == ["session_configured", "task_started", *begun, *again, "agent_message", "task_complete"]
        if answer == "denied":
            assert told_to_model(model.requests[1]).startswith("exec command rejected by user")


@pytest.mark.slow
async def test_on_failure_a_command_that_just_fails_is_not_offered(tmp_path: Path) -> None:
    config = {"approval_policy": "on-failure", "sandbox_mode": "workspace-write"}
    async with scene([call("shell", command=["sh", "-c", "exit 3"]), say("ok")], tmp_path, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "ok"
        assert "exec_approval_request" not in kinds(client.events(call_))
        assert json.loads(told_to_model(model.requests[1]))["metadata"]["exit_code"] == 3


async def test_on_request_the_model_asks_to_leave_the_sandbox_with_a_reason(tmp_path: Path, outside: Path) -> None:
    work = tmp_path
    asked = call(
        "shell", command=["touch", f"{outside}/made"], with_escalated_permissions=True, justification="The file lies outside."
    )
    config = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    async with scene([asked, say("ok")], work, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        assert "The file lies outside." in question["params"]["codex_reason"]
        await client.respond(question, {"decision": "approved"})
        assert text_of(await call_) == "ok"
        assert (outside / "made").exists()
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in model.requests[0]["tools"]}
        assert "with_escalated_permissions" in offered["shell"]["properties"]


async def test_newer_clients_are_shown_a_form_and_more_lines(tmp_path: Path) -> None:
    options = {"config": ASKING, "protocol_version": "2025-11-25"}
    async with scene([TOUCH, say("ok")], tmp_path, **options) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        first, *_ = question["params"]["message"].splitlines()
        assert first == f"Allow Codex to run `touch 'made file'` in `{tmp_path}`?"
        choice = question["params"]["requestedSchema"]["properties"]["decision"]
        assert choice["enum"] == ["approved", "approved_for_session", "denied", "abort"]
        assert question["params"]["requestedSchema"].get("required", []) == []
        await client.respond(question, {"action": "accept", "content": {"decision": "approved"}})
        assert text_of(await call_) == "ok"


@pytest.mark.slow
async def test_two_sessions_are_asked_at_once_and_answered_in_any_order(tmp_path: Path) -> None:
    script = [
        call("shell", command=["touch", "one"]),
        call("shell", command=["touch", "two"]),
        say("done"),
        say("done"),
    ]
    async with scene(script, tmp_path, config=ASKING) as (_, client):
        one = client.call_tool("codex", prompt="one")
        first = await client.next_request("elicitation/create")
        two = client.call_tool("codex", prompt="two")
        second = await client.next_request("elicitation/create")
        assert first["params"]["threadId"] != second["params"]["threadId"]
        await client.respond(second, {"decision": "approved"})
        await two
        assert not one.done
        await client.respond(first, {"decision": "denied"})
        await one
        assert sorted(path.name for path in tmp_path.iterdir() if path.name in ("one", "two")) == ["two"]
