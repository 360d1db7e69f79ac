"""Hooks around messages and turns: a prompt that is kept back, what the model is given, a stop that is put off, who is shown it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.e2e.hooks.stage import AppDoor, HookStage, answer
from tests.e2e.scenes import text_of, thread_of, told_to_model
from understudy.testing import CodexHome, LineProcess, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}


@pytest.fixture
def stage(tmp_path: Path) -> HookStage:
    return HookStage(tmp_path)


def words(text: str) -> str:
    """A line of Python that says this, and no."""
    return f"sys.exit(print({text!r}, file=sys.stderr) or 2)"


def said(request: dict[str, Any]) -> list[str]:
    """All messages of a Chat request behind the instructions and the context."""
    texts = [message["content"] if isinstance(message["content"], str) else "" for message in request["messages"][1:]]
    return [text for text in texts if not text.startswith("<environment_context>")]


async def test_a_message_that_is_blocked_makes_no_request_and_the_words_are_the_result(stage: HookStage) -> None:
    stage.install(
        "UserPromptSubmit", stage.program("if 'secret' in said['prompt']: sys.exit(print('no secrets', file=sys.stderr) or 2)")
    )
    async with stage.serve([say("hello")]) as (model, client):
        blocked = await client.codex("my secret")
        assert text_of(blocked) == "The message was blocked by a UserPromptSubmit hook: no secrets"
        assert model.requests == []
        assert text_of(await client.reply(thread_of(blocked), "hi")) == "hello"
        assert said(model.requests[0]) == ["hi"]


async def test_what_hooks_give_the_model_stands_around_the_message(stage: HookStage) -> None:
    stage.install("SessionStart", "echo FROM START", "startup")
    stage.install("SessionStart", "echo NEVER", "resume")
    stage.install("UserPromptSubmit", stage.program(answer(additionalContext="FROM PROMPT")))
    stage.install(
        "Stop", stage.program("if not said['stop_hook_active']: sys.exit(print('run the tests', file=sys.stderr) or 2)", "stop")
    )
    async with stage.serve([say("one"), say("two")]) as (model, client):
        first = await client.codex("hi")
        assert text_of(first) == "two"
        assert said(model.requests[1]) == ["FROM START", "hi", "FROM PROMPT", "one", "Stop hook feedback:\nrun the tests"]
        assert [(each["stop_hook_active"], each["last_assistant_message"]) for each in stage.told("stop")] == [
            (False, "one"),
            (True, "two"),
        ]


@pytest.mark.slow
async def test_a_stop_hook_that_never_agrees_is_asked_eight_times(stage: HookStage) -> None:
    stage.install("Stop", "echo again >&2; exit 2", file=".codex/hooks.json")
    async with stage.serve([say(f"{number}") for number in range(9)]) as (model, client):
        assert text_of(await client.codex("hi")) == "8"
        assert len(model.requests) == 9
        assert '<hook_prompt hook_run_id="stop:0:' in said(model.requests[-1])[-1]


@pytest.mark.slow
async def test_a_hook_ends_the_turn_behind_a_call(stage: HookStage) -> None:
    stage.install("PostToolUse", """echo '{"continue": false, "stopReason": "enough"}'""")
    both = call("shell", command=["true"]) + call("shell", call_id="c2", command=["touch", "made"])
    async with stage.serve([both]) as (model, client):
        assert text_of(await client.codex("hi")) == "enough"
        assert len(model.requests) == 1
    assert list(stage.work.iterdir()) == []


@pytest.mark.slow
async def test_a_permission_hook_may_say_no_and_its_yes_means_nothing_by_itself(stage: HookStage) -> None:
    no = answer(decision={"behavior": "deny", "message": "not today"})
    yes = answer(decision={"behavior": "allow"})
    stage.install("PermissionRequest", stage.program(f"if 'no' in said['tool_input']['command']: {no}\nelse: {yes}"), "Bash")
    script = [
        call("shell", call_id="a", command=["touch", "no"], with_escalated_permissions=True),
        call("shell", call_id="b", command=["touch", "yes"], with_escalated_permissions=True),
        say("x"),
    ]
    async with stage.serve(script, config=ASKING, decide="denied") as (model, client):
        await client.codex("go")
        assert "a PermissionRequest hook said no: not today" in told_to_model(model.requests[-1], "a")
        assert "rejected by user" in told_to_model(model.requests[-1], "b")
        assert len(client.questions) == 1
    assert list(stage.work.iterdir()) == []


@pytest.mark.slow
async def test_a_summary_may_be_kept_back(stage: HookStage) -> None:
    stage.install("PreCompact", stage.program(words("not now")), "manual")
    async with stage.serve([say("one")]) as (_, client):
        thread = thread_of(await client.codex("hi"))
        refused = await client.call_tool("conversationCompact", conversation_id=thread)
        assert "a PreCompact hook blocked the summary: not now" in json.dumps(refused)
    assert [each["trigger"] for each in stage.told()] == ["manual"]


@pytest.mark.slow
async def test_the_transcript_is_readable_and_the_user_s_alone(stage: HookStage) -> None:
    seen = stage.folder / "seen"
    read = f"p = said['transcript_path']; open({str(seen)!r}, 'w').write(oct(os.stat(p).st_mode & 0o777) + ' ' + open(p).read())"
    stage.install("Stop", stage.program(read))
    async with stage.serve([call("shell", command=["true"]), say("bye")]) as (_, client):
        await client.codex("hi")
    mode, _, text = seen.read_text().partition(" ")
    kinds = [json.loads(line)["type"] for line in text.splitlines()]
    assert (mode, kinds[-4:]) == ("0o600", ["user", "assistant", "user", "assistant"])


@pytest.mark.slow
async def test_exec_shows_a_failed_item_and_what_the_hook_said(stage: HookStage) -> None:
    stage.install("PreToolUse", "echo not here >&2; exit 2")
    script = [call("shell", command=["ls"]), call("read_file", call_id="c2", path="a"), say("x")]
    async with ScriptedModel(script) as model:
        home = CodexHome(stage.home, model)
        ended = await asyncio.to_thread(Program(home.path, stage.work).run, "exec", "--json", "--skip-git-repo-check", "go")
    items = [line["item"] for line in map(json.loads, ended.out.splitlines()) if line["type"] == "item.completed"]
    assert [(item["type"], item.get("status")) for item in items if item["type"] != "error"] == [
        ("command_execution", "failed"),
        ("mcp_tool_call", "failed"),
        ("agent_message", None),
    ]
    assert sum("PreToolUse hook blocked: not here" in item["message"] for item in items if item["type"] == "error") == 2


@pytest.mark.slow
async def test_the_app_server_tells_of_hooks_and_lists_them(stage: HookStage) -> None:
    stage.install("PreToolUse", "echo not here >&2; exit 2", "Bash")
    stage.install(
        "Stop", "grep -q 'active\":true' || { echo go on >&2; exit 2; }", file=".codex/hooks.json", statusMessage="looking"
    )
    async with ScriptedModel([call("shell", command=["ls"]), say("x"), say("y")]) as model:
        home = CodexHome(stage.home, model)
        command = (sys.executable, "-m", "understudy", "app-server")
        async with LineProcess(command, cwd=stage.work, env=home.environment()) as server:
            door = AppDoor(server)
            await door.ask("initialize", clientInfo={"name": "t", "version": "0"})
            listed = (await door.ask("hooks/list", cwds=[str(stage.work)]))["data"][0]["hooks"]
            assert [row["eventName"] for row in listed] == ["stop", "preToolUse"]
            thread = (await door.ask("thread/start", cwd=str(stage.work)))["thread"]["id"]
            await door.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
            async with asyncio.timeout(WAIT_SECONDS):
                await door.until("turn/completed")
    runs = [params["run"] for method, params in door.told if method == "hook/completed"]
    assert [(run["eventName"], run["status"]) for run in runs] == [
        ("preToolUse", "blocked"),
        ("stop", "blocked"),
        ("stop", "completed"),
    ]
    assert runs[0]["entries"] == [{"kind": "feedback", "text": "not here"}]
    assert runs[1]["statusMessage"] == "looking"
    assert sum(method == "hook/started" for method, _ in door.told) == 3
    done = [params["item"] for method, params in door.told if method == "item/completed"]
    assert [item["status"] for item in done if item["type"] == "commandExecution"] == ["failed"]
    [prompt] = [item for item in done if item["type"] == "hookPrompt"]
    assert prompt["fragments"][0]["text"] == "go on"
