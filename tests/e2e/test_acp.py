"""`understudy acp`: sessions over the protocol of editors, with the real program and a scripted model."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.e2e.other_servers import PATIENT
from tests.e2e.scenes import names_offered, users_in
from tests.e2e.test_clients_exec import PATCH
from tests.golden_exec.play import PNG
from tests.support.acp_client import AcpClient
from tests.support.app_client import RpcFailed
from understudy.testing import HOLD, CodexHome, Script, ScriptedModel, call, deltas, say, status
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry

ASKS = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
UPDATE = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+TWO\n*** End Patch"
NOBODY = "00000000-0000-4000-8000-000000000000"


@asynccontextmanager
async def scene(
    script: Script | Callable[[ReceivedRequest], Entry], tmp_path: Path, *, config: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[ScriptedModel, AcpClient, Path]]:
    """A model, an editor, and the folder in which sessions work."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    async with ScriptedModel(script) as model:
        home = CodexHome(tmp_path / "home" / ".codex", model, config=config)
        async with AcpClient(home.path, work, **options) as client:
            yield model, client, work


async def test_a_prompt_streams_its_text_and_is_answered_at_the_end_of_the_turn(tmp_path: Path) -> None:
    async with scene([say("Hello you", usage=(10, 2))], tmp_path) as (_, client, work):
        session = await client.new_session(work)
        assert await client.prompt(session, "say hello") == "end_turn"
        assert client.said() == "Hello you"
        assert len({update["messageId"] for update in client.updates("agent_message_chunk")}) == 1
        assert "user_message_chunk" not in [update["sessionUpdate"] for update in client.updates()]  # the editor has shown it
        assert client.messages[-1]["result"] == {"stopReason": "end_turn"}
        assert all(message["jsonrpc"] == "2.0" for message in client.messages)
    assert client.exit_code == 0


async def test_the_handshake_names_version_1_and_what_there_is(tmp_path: Path) -> None:
    async with scene([], tmp_path, greets=False) as (_, client, work):
        with pytest.raises(RpcFailed, match="-32600: session/list came before initialize"):
            await client.call("session/list")
        with pytest.raises(RpcFailed, match=r"-32602: .*protocolVersion"):
            await client.call("initialize")
        hello = await client.call("initialize", protocolVersion=7, clientInfo={"name": "later", "version": "9"})
        assert (hello["protocolVersion"], hello["authMethods"], hello["agentInfo"]["name"]) == (1, [], "understudy")
        assert hello["agentCapabilities"]["loadSession"] is True
        assert set(hello["agentCapabilities"]["sessionCapabilities"]) == {"list", "resume", "close", "delete"}
        with pytest.raises(RpcFailed, match="-32600: initialize was called before"):
            await client.call("initialize", protocolVersion=1)
        for method in ("session/fork", "logout", "_no_such", "terminal/create"):
            with pytest.raises(RpcFailed, match=f"-32601: method not found: {method}"):
                await client.call(method)
        with pytest.raises(RpcFailed, match=r"-32602: .*nothing to log in"):
            await client.call("authenticate", methodId="x")
        for line, code in (("{oops", -32700), ("[]", -32600), ('"x"', -32600), ('{"id": 5}', -32600)):
            before = len(client.messages)
            client.send_line(line)
            assert (await client.until(lambda m: "error" in m, "an error", before))["error"]["code"] == code
        client.send({"method": "session/cancel", "params": {"sessionId": NOBODY}})
        client.send({"method": "session/cancel", "params": 5})
        client.send({"method": "no/such"})
        assert await client.call("session/list") == {"sessions": []}
        for bad in ("relative", ""):
            with pytest.raises(RpcFailed, match=r"-32602: .*absolute"):
                await client.call("session/new", cwd=bad, mcpServers=[])
        with pytest.raises(RpcFailed, match="-32602"):
            await client.call("session/new", cwd=str(work / "missing"), mcpServers=[])
        for session in (NOBODY, "no uuid"):
            calls: list[tuple[str, dict[str, Any]]] = [
                ("session/prompt", {"prompt": []}),
                ("session/load", {"cwd": str(work)}),
                ("session/close", {}),
            ]
            for method, more in calls:
                with pytest.raises(RpcFailed, match="-32002"):
                    await client.call(method, sessionId=session, **more)


async def test_a_command_is_a_tool_call_with_its_output(tmp_path: Path) -> None:
    script = [call("shell", command=["bash", "-c", "echo one; echo two >&2; exit 3"]), say("done")]
    async with scene(script, tmp_path) as (_, client, work):
        await client.prompt(await client.new_session(work), "go")
        begun, ended = client.updates("tool_call"), client.updates("tool_call_update")
    assert [(update["kind"], update["status"]) for update in begun] == [("execute", "in_progress")]
    assert begun[0]["rawInput"]["cwd"] == str(work)
    last = ended[-1]
    assert (last["toolCallId"], last["status"], last["rawOutput"]["exit_code"]) == (begun[0]["toolCallId"], "failed", 3)
    assert sorted(last["content"][0]["content"]["text"].split()) == ["```", "```", "one", "two"]


@pytest.mark.slow
async def test_output_is_shown_while_the_command_runs(tmp_path: Path) -> None:
    fifo = tmp_path / "work" / "go"
    script = [call("shell", command=["bash", "-c", f"echo so far; read line < {fifo}; echo $line"]), say("done")]
    (tmp_path / "work").mkdir()
    os.mkfifo(fifo)
    async with scene(script, tmp_path) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        shown = await client.until(lambda m: "so far" in json.dumps(m.get("params", {}).get("update", {}).get("content")), "output")
        assert shown["params"]["update"]["sessionUpdate"] == "tool_call_update"
        await asyncio.to_thread(fifo.write_text, "the rest\n")
        await client.answer(number)
        assert client.updates("tool_call_update")[-1]["content"][0]["content"]["text"] == "```\nso far\nthe rest\n```"


async def test_a_patch_is_asked_about_with_its_diff_and_applied_once_allowed(tmp_path: Path) -> None:
    script = [call("apply_patch", input=UPDATE), say("done")]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("zero\none\ntwo\nthree\nfour\n")
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        question = await client.question()
        asked = question["params"]
        assert (question["method"], asked["sessionId"]) == ("session/request_permission", session)
        assert {option["kind"] for option in asked["options"]} == {"allow_once", "allow_always", "reject_once"}
        begun = client.updates("tool_call")[0]
        assert (begun["toolCallId"], begun["status"], begun["kind"]) == (asked["toolCall"]["toolCallId"], "pending", "edit")
        diff = {
            "type": "diff",
            "path": str(work / "a.txt"),
            "oldText": "zero\none\ntwo\nthree\nfour\n",
            "newText": "zero\none\nTWO\nthree\nfour\n",
        }
        assert diff in begun["content"]
        assert diff in asked["toolCall"]["content"]
        assert begun["locations"] == [{"path": str(work / "a.txt"), "line": 2}]
        assert (work / "a.txt").read_text() == diff["oldText"]
        client.choose(question, "approved")
        client.choose(question, "denied")  # only the first answer counts
        assert (await client.answer(number)) == {"stopReason": "end_turn"}
        assert (work / "a.txt").read_text() == diff["newText"]
        statuses = [update["status"] for update in client.updates("tool_call_update")]
    assert (statuses[0], statuses[-1]) == ("in_progress", "completed")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"outcome": {"outcome": "selected", "optionId": "denied"}}, "end_turn"),
        ({"outcome": {"outcome": "cancelled"}}, "cancelled"),
        ({"outcome": {"outcome": "selected", "optionId": "abort"}}, "cancelled"),
        ({"outcome": {"outcome": "selected", "optionId": "no such"}}, "end_turn"),
        (None, "end_turn"),
    ],
)
async def test_every_answer_but_a_yes_is_a_no(tmp_path: Path, answer: Any, reason: str) -> None:
    script = [call("shell", command=["touch", "made.txt"]), *([say("well then")] if reason == "end_turn" else [])]
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        number = client.ask_prompt(await client.new_session(work), "go")
        question = await client.question()
        if answer is None:
            client.send({"id": question["id"], "error": {"code": -32603, "message": "the editor's bug"}})
        else:
            client.respond(question, answer)
        assert (await client.answer(number))["stopReason"] == reason
        assert not (work / "made.txt").exists()
        assert client.updates("tool_call_update")[-1]["status"] == "failed"


async def test_a_cancel_is_answered_with_cancelled_and_the_session_goes_on(tmp_path: Path) -> None:
    script = [call("shell", command=["sleep", "1000"]), say("after")]
    async with scene(script, tmp_path) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        call_id = (await client.update("tool_call"))["toolCallId"]
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert await client.answer(number) == {"stopReason": "cancelled"}
        assert client.messages[-1]["id"] == number  # behind the last update
        last = client.updates("tool_call_update")[-1]
        assert (last["toolCallId"], last["status"]) == (call_id, "failed")
        assert await client.prompt(session, "and now") == "end_turn"
        assert client.said().endswith("after")


@pytest.mark.slow
async def test_a_cancel_in_one_breath_with_its_prompt_is_not_lost(tmp_path: Path) -> None:
    async with scene(lambda _: call("shell", command=["sleep", "1000"]), tmp_path) as (_, client, work):
        session = await client.new_session(work)
        for _ in range(3):
            number = client.ask_prompt(session, "go")
            client.send({"method": "session/cancel", "params": {"sessionId": session}})
            assert await client.answer(number) == {"stopReason": "cancelled"}


async def test_what_is_sent_right_behind_a_cancel_begins_a_turn_of_its_own(tmp_path: Path) -> None:
    async with scene([deltas(["a", HOLD, "b"]), say("second")], tmp_path) as (model, client, work):
        session = await client.new_session(work)
        first = client.ask_prompt(session, "one")
        await model.next_request(1)
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert await client.prompt(session, "two") == "end_turn"
        assert await client.answer(first) == {"stopReason": "cancelled"}
        assert [users_in(request) for request in model.requests] == [["one"], ["one", "two"]]


@pytest.mark.slow
async def test_a_cancel_while_a_question_is_open_withdraws_it(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"])]
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        question = await client.question()
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        client.respond(question, {"outcome": {"outcome": "cancelled"}})
        assert await client.answer(number) == {"stopReason": "cancelled"}
        assert not (work / "made.txt").exists()


@pytest.mark.slow
async def test_a_single_request_can_be_cancelled(tmp_path: Path) -> None:
    async with scene([call("shell", command=["sleep", "1000"])], tmp_path) as (_, client, work):
        number = client.ask_prompt(await client.new_session(work), "go")
        await client.update("tool_call")
        client.send({"method": "$/cancel_request", "params": {"requestId": number}})
        assert await client.answer(number) == {"stopReason": "cancelled"}


@pytest.mark.slow
async def test_cancelling_a_prompt_that_joined_a_turn_leaves_the_turn_to_the_other(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("both")]
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        session = await client.new_session(work)
        first = client.ask_prompt(session, "one")
        question = await client.question()
        second = client.ask_prompt(session, "two")
        await client.call("session/list")  # by now it is taken
        client.send({"method": "$/cancel_request", "params": {"requestId": second}})
        assert await client.answer(second) == {"stopReason": "cancelled"}
        client.choose(question, "approved")
        assert await client.answer(first) == {"stopReason": "end_turn"}
        assert (work / "made.txt").exists()


@pytest.mark.slow
async def test_a_second_prompt_joins_the_turn_and_both_are_answered(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("both")]
    async with scene(script, tmp_path, config=ASKS) as (model, client, work):
        session = await client.new_session(work)
        first = client.ask_prompt(session, "one")
        question = await client.question()
        second = client.ask_prompt(session, "two")
        await client.call("session/list")  # by now it is taken
        client.choose(question, "approved")
        assert await client.answer(first) == await client.answer(second) == {"stopReason": "end_turn"}
        assert "two" in json.dumps(model.requests[1])


@pytest.mark.slow
async def test_a_failed_turn_is_an_error_that_says_why(tmp_path: Path) -> None:
    async with scene([status(401, {"error": {"message": "Incorrect API key"}})], tmp_path) as (_, client, work):
        with pytest.raises(RpcFailed, match=r"-32603: .*Incorrect API key"):
            await client.prompt(await client.new_session(work), "go")
        assert "Incorrect API key" in client.said()


async def test_a_prompt_has_text_images_links_and_embedded_files(tmp_path: Path) -> None:
    image = base64.b64encode(PNG).decode()
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "look"},
        {"type": "image", "data": image, "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///x/y.py", "name": "y.py"},
        {"type": "resource", "resource": {"uri": "file:///x/z.py", "text": "unsaved = 1"}},
    ]
    async with scene([say("seen")], tmp_path) as (model, client, work):
        session = await client.new_session(work)
        no_prompts: list[list[dict[str, Any]]] = [
            [],
            [{"type": "audio", "data": "", "mimeType": "audio/wav"}],
            [{"type": "text"}],
            [{}],
            [{"type": "text", "text": ""}],
        ]
        for bad in no_prompts:
            with pytest.raises(RpcFailed, match="-32602: Invalid params: `"):
                await client.call("session/prompt", sessionId=session, prompt=bad)
        await client.call("session/prompt", sessionId=session, prompt=blocks)
        parts = model.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text", "text"]
    assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert parts[2]["text"] == "[@y.py](file:///x/y.py)"
    assert "unsaved = 1" in parts[3]["text"]
    assert "file:///x/z.py" in parts[3]["text"]


@pytest.mark.slow
async def test_modes_and_options_hold_from_the_next_prompt_on(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=ASKS) as (model, client, work):
        made = await client.call("session/new", cwd=str(work), mcpServers=[])
        session = made["sessionId"]
        assert made["modes"]["currentModeId"] == "untrusted"
        names = [mode["id"] for mode in made["modes"]["availableModes"]]
        assert names == ["untrusted", "on-failure", "on-request", "never", "plan", "full-access"]
        assert {option["id"]: option["category"] for option in made["configOptions"]} == {
            "mode": "mode",
            "model": "model",
            "effort": "thought_level",
        }
        assert await client.call("session/set_mode", sessionId=session, modeId="full-access") == {}
        assert (await client.update("current_mode_update"))["currentModeId"] == "full-access"
        assert await client.call("session/set_mode", sessionId=session, modeId="never") == {}
        options = (await client.call("session/set_config_option", sessionId=session, configId="effort", value="low"))[
            "configOptions"
        ]
        assert [option["currentValue"] for option in options if option["id"] in ("mode", "effort")] == ["never", "low"]
        await client.call("session/set_config_option", sessionId=session, configId="model", value="gpt-5")
        for method, given in (
            ("session/set_mode", {"modeId": "yolo"}),
            ("session/set_config_option", {"configId": "effort", "value": "immense"}),
            ("session/set_config_option", {"configId": "no such", "value": "x"}),
        ):
            with pytest.raises(RpcFailed, match="-32602: Invalid params: "):
                await client.call(method, sessionId=session, **given)
        assert await client.prompt(session, "go") == "end_turn"  # nobody was asked
        assert (work / "made.txt").exists()
        assert (model.requests[0]["model"], model.requests[0]["reasoning_effort"]) == ("gpt-5", "low")


@pytest.mark.slow
async def test_a_plan_is_shown_whole(tmp_path: Path) -> None:
    plan = [{"step": "look", "status": "completed"}, {"step": "mend", "status": "in_progress"}]
    async with scene([call("update_plan", plan=plan), say("done")], tmp_path) as (model, client, work):
        await client.prompt(await client.new_session(work), "go")
        entries = (await client.update("plan"))["entries"]
        assert "update_plan" in names_offered(model.requests[0])
    assert entries == [
        {"content": "look", "priority": "medium", "status": "completed"},
        {"content": "mend", "priority": "medium", "status": "in_progress"},
    ]


@pytest.mark.slow
async def test_a_session_is_loaded_with_all_of_it_after_the_server_was_killed(tmp_path: Path) -> None:
    script = [call("apply_patch", input=PATCH), say("one"), call("shell", command=["touch", "asked.txt"]), say("two"), say("three")]
    config = ASKS | {"approval_policy": "on-request"}
    async with scene(script, tmp_path, config=config) as (_, client, work):
        session = await client.new_session(work)
        await client.prompt(session, "first")
        await client.call("session/set_mode", sessionId=session, modeId="untrusted")
        client.ask_prompt(session, "second")
        await client.question()
        await client.kill()
        home = tmp_path / "home" / ".codex"
        async with AcpClient(home, work) as again:
            listed = (await again.call("session/list", cwd=str(work)))["sessions"]
            assert [row["sessionId"] for row in listed] == [session]
            assert (await again.call("session/list", cwd="/elsewhere"))["sessions"] == []
            loaded = await again.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
            assert loaded["modes"]["currentModeId"] == "untrusted"
            answered = next(number for number, message in enumerate(again.messages) if message.get("result") == loaded)
            replayed = [update["sessionUpdate"] for update in again.updates()][: answered - 2]
            assert replayed[:5] == [
                "user_message_chunk",
                "tool_call",
                "tool_call_update",
                "agent_message_chunk",
                "user_message_chunk",
            ]
            question = await again.question()
            assert again.messages.index(question) > answered
            again.choose(question, "approved")
            await again.update("agent_message_chunk", answered)
            assert (work / "asked.txt").exists()
            assert again.said("user_message_chunk") == "firstsecond"
            assert await again.prompt(session, "third") == "end_turn"
            assert again.said() == "onetwothree"
        async with AcpClient(home, work) as third:
            await third.call("session/resume", sessionId=session, cwd=str(work), mcpServers=[])
            assert third.updates() == []


@pytest.mark.slow
async def test_a_closed_session_is_freed_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    async with scene([call("shell", command=["sleep", "1000"])], tmp_path) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        await client.update("tool_call")
        assert await client.call("session/close", sessionId=session) == {}
        assert await client.answer(number) == {"stopReason": "cancelled"}
        with pytest.raises(RpcFailed, match=r"-32002: .*session/load first"):
            await client.prompt(session, "more")
        assert len((await client.call("session/list"))["sessions"]) == 1
        assert await client.call("session/delete", sessionId=session) == {}
        assert (await client.call("session/list"))["sessions"] == []
        with pytest.raises(RpcFailed, match="-32002"):
            await client.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])


@pytest.mark.slow
async def test_the_editors_mcp_servers_are_used_and_their_variables_are_not_in_the_log(tmp_path: Path) -> None:
    tiny = str(Path(golden.__file__).parent / "tiny_mcp.py")
    secret = "of-the-editor-7391"
    server = {"name": "my tiny", "command": sys.executable, "args": [tiny], "env": [{"name": "PLAIN", "value": secret}]}
    async with scene([say("done")], tmp_path, config=PATIENT) as (model, client, work):
        for bad in ({"name": "x"}, {"name": "x", "type": "sse", "url": "http://x"}, {"name": "x", "type": "http"}):
            with pytest.raises(RpcFailed, match=r"-32602: Invalid params: `mcpServers\[0\]`"):
                await client.call("session/new", cwd=str(work), mcpServers=[bad])
        session = (await client.call("session/new", cwd=str(work), mcpServers=[server]))["sessionId"]
        await client.prompt(session, "go")
        offered = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
    assert any("my-tiny" in name or "my_tiny" in name for name in offered), offered
    for folder, _, files in os.walk(tmp_path / "home"):
        for name in files:
            assert secret.encode() not in (Path(folder) / name).read_bytes(), name
