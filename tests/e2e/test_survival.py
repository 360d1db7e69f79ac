"""`kill -9` at many moments of a turn, and what a new process makes of it: nothing is lost, nothing runs twice."""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, kinds, text_of, thread_of, told_to_model, users_in
from tests.e2e.talking import Stream, create, listed, send
from understudy.testing import HOLD, McpProcess, Script, ScriptedModel, call, deltas, hang, say

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
UNKNOWN = "whether it took effect is not known"


class Home:
    """A configuration folder that outlives its servers, and the model they share."""

    def __init__(self, model: ScriptedModel, folder: Path, config: dict[str, Any]) -> None:
        self.model = model
        self.work = folder / "work"
        self._home = folder / "home"
        self._config = config
        self.work.mkdir()
        self._home.mkdir()

    def server(self, **options: Any) -> McpProcess:
        return McpProcess(self.model.url, cwd=self.work, home=self._home, config=self._config, **options)


@asynccontextmanager
async def home(script: Script, folder: Path, config: dict[str, Any] | None = None) -> AsyncGenerator[Home]:
    async with ScriptedModel(script) as model:
        yield Home(model, folder, config or {})


async def crash(server: McpProcess) -> None:
    await server.kill()


async def test_between_turns_nothing_is_missed(tmp_path: Path) -> None:
    async with home([say("one"), say("two"), say("three")], tmp_path) as place:
        async with place.server() as first:
            thread = thread_of(await first.call_tool("codex", prompt="1"))
            await crash(first)
        async with place.server() as second:
            assert await second.call_tool("codex-reply", threadId=thread, prompt="2") == answered("two", thread)
            await crash(second)
        async with place.server() as third:
            snapshot = await Stream(third, thread, after=0).snapshot()
            assert [event["msg"]["type"] for event in snapshot].count("task_complete") == 2
            assert await third.call_tool("codex-reply", threadId=thread, prompt="3") == answered("three", thread)
        assert users_in(place.model.requests[2]) == ["1", "2", "3"]


@pytest.mark.slow
async def test_while_the_model_speaks(tmp_path: Path) -> None:
    async with home([deltas(["half an ", "ans", HOLD]), say("whole")], tmp_path) as place:
        async with place.server() as first:
            call_ = first.call_tool("codex", prompt="1")
            await first.event("agent_message_delta", call_, 2)
            thread = str((await first.event("session_configured", call_))["session_id"])
            watcher = Stream(first, thread)
            await watcher.snapshot()
            await _partial_is_kept(place, thread)
            await crash(first)
        async with place.server() as second:
            [entry] = await listed(second)
            assert entry["status"] == "idle", "nobody runs it"
            stream = Stream(second, thread)
            await stream.until("agent_message_delta")
            assert stream.kinds() == ["task_started", "agent_message_delta"], "reading does not write"
            reply = second.call_tool("codex-reply", threadId=thread, prompt="2")
            assert await reply == answered("whole", thread)
            assert kinds(second.events(reply), "agent_message_delta") == ["task_started", "agent_message", "task_complete"]
            await stream.until("task_complete", 2)
            assert stream.kinds("agent_message_delta") == [
                "task_started",
                "error",
                "task_complete",
                "task_started",
                "agent_message",
                "task_complete",
            ]
        assert users_in(place.model.requests[1]) == ["1", "2"]
        said = [message["content"] for message in place.model.requests[1]["messages"] if message["role"] == "assistant"]
        assert said == ["half an ans"], "the model is reminded of what people were shown"


async def _partial_is_kept(place: Home, thread: str) -> None:
    """The text so far is put beside the log a few times a second: another process shows when it is there."""
    async with place.server() as viewer:
        stream = Stream(viewer, thread)

        def is_whole() -> bool | None:
            return "".join(event["delta"] for event in stream.messages() if "delta" in event) == "half an ans" or None

        await viewer.until(is_whole, "the text so far")


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write"])
async def test_while_a_command_runs(tmp_path: Path, mode: str) -> None:
    run = ["sh", "-c", "echo ran >> log; readlink /proc/self > child; echo started; sleep 60"]
    script = [call("shell", command=run, timeout=100_000), say("I see")]
    async with home(script, tmp_path, {"sandbox_mode": mode}) as place:
        async with place.server() as first:
            call_ = first.call_tool("codex", prompt="1")
            await first.event("exec_command_output_delta", call_)
            thread = str((await first.event("session_configured", call_))["session_id"])
            await crash(first)
        async with place.server() as second:
            stream = Stream(second, thread)
            assert kinds([event["msg"] for event in await stream.snapshot()])[:2] == ["task_started", "exec_command_begin"]
            assert await second.call_tool("codex-reply", threadId=thread, prompt="2") == answered("I see", thread)
            await stream.until("task_complete", 2)
            end = await stream.until("exec_command_end")
            assert UNKNOWN in end["stderr"]
            assert (place.work / "log").read_text() == "ran\n", "it is not run again"
        assert UNKNOWN in told_to_model(place.model.requests[1])
        assert users_in(place.model.requests[1]) == ["1", "2"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("decision", ["approved", "denied", "abort"])
async def test_while_an_approval_waits(tmp_path: Path, decision: str) -> None:
    asked = call("shell", call_id="b", command=["sh", "-c", "echo b >> log"])
    script = [call("shell", call_id="a", command=["sh", "-c", "echo a >> log"]) + asked]
    script += [say("next")] if decision == "abort" else [say("done")]
    async with home(script, tmp_path, ASKING) as place:
        async with place.server() as first:
            call_ = first.call_tool("codex", prompt="1")
            await first.respond(await first.next_request("elicitation/create"), {"decision": "approved"})
            await first.next_request("elicitation/create")
            thread = str((await first.event("session_configured", call_))["session_id"])
            await crash(first)
        async with place.server() as second:
            [entry] = await listed(second)
            assert (entry["status"], entry["pending"]) == ("waiting", ["b"])
            reply = second.call_tool("codex-reply", threadId=thread, prompt="2")
            question = await second.next_request("elicitation/create")
            assert question["params"]["codex_command"] == ["sh", "-c", "echo b >> log"]
            await second.respond(question, {"decision": decision})
            result = await reply
            if decision == "abort":
                assert text_of(result) == "Turn interrupted"
                assert await second.call_tool("codex-reply", threadId=thread, prompt="3") == answered("next", thread)
            else:
                assert result == answered("done", thread)
            assert (place.work / "log").read_text() == ("a\nb\n" if decision == "approved" else "a\n")
        expected = ["1", "2", "3"] if decision == "abort" else ["1", "2"]
        assert users_in(place.model.requests[1]) == expected
        if decision == "denied":
            assert told_to_model(place.model.requests[1], "b") == "exec command rejected by user"


@pytest.mark.slow
async def test_while_a_second_run_outside_the_sandbox_is_asked_for(tmp_path: Path) -> None:
    """It has run contained, and is not run contained again."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        run = ["sh", "-c", f"echo tried >> tries; echo x > {outside}/made"]
        config = {"approval_policy": "on-failure", "sandbox_mode": "workspace-write"}
        async with home([call("shell", command=run), say("done")], tmp_path, config) as place:
            async with place.server() as first:
                call_ = first.call_tool("codex", prompt="1")
                await first.next_request("elicitation/create")
                thread = str((await first.event("session_configured", call_))["session_id"])
                await crash(first)
            async with place.server() as second:
                reply = second.call_tool("codex-reply", threadId=thread, prompt="2")
                question = await second.next_request("elicitation/create")
                assert (place.work / "tries").read_text() == "tried\n"
                await second.respond(question, {"decision": "approved"})
                assert await reply == answered("done", thread)
                assert (place.work / "tries").read_text() == "tried\ntried\n"
                assert (Path(outside) / "made").exists()


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
async def test_while_a_patch_waits_for_approval(tmp_path: Path, changed: bool) -> None:
    """If the file is another by then, what is approved is what will be done, and is asked anew."""
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch"
    async with home([call("apply_patch", input=patch), say("done")], tmp_path, ASKING) as place:
        file = place.work / "a.txt"
        file.write_text("first\nold\n")
        async with place.server() as first:
            call_ = first.call_tool("codex", prompt="1")
            before = (await first.next_request("elicitation/create"))["params"]["codex_changes"]
            thread = str((await first.event("session_configured", call_))["session_id"])
            await crash(first)
        if changed:
            file.write_text("another first\nold\n")
        async with place.server() as second:
            reply = second.call_tool("codex-reply", threadId=thread, prompt="2")
            question = await second.next_request("elicitation/create")
            if changed:
                newer = await second.next_request("elicitation/create")
                withdrawn = await second.next_notification("notifications/cancelled")
                assert withdrawn["params"]["requestId"] == question["id"]
                await second.respond(question, {"decision": "approved"})  # of no effect: it is not what would be done
                assert await second.request("ping") == {}
                assert file.read_text() == "another first\nold\n"
                question = newer
            assert (question["params"]["codex_changes"] == before) == (not changed)
            assert (question["params"]["codex_changes"][str(file)]["update"]["unified_diff"].count("another")) == int(changed)
            await second.respond(question, {"decision": "approved"})
            assert await reply == answered("done", thread)
            assert file.read_text() == ("another first\nnew\n" if changed else "first\nnew\n")


@pytest.mark.slow
async def test_a_waiting_question_can_be_answered_by_the_other_door(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done"), call("shell", command=["touch", "more"]), say("done")]
    async with home(script, tmp_path, ASKING) as place:
        async with place.server() as first:
            conversation = await create(first, prompt="1")
            await Stream(first, conversation).until("exec_approval_request")
            await crash(first)
        async with place.server(capabilities={}) as second:
            arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "approved"}
            await second.call_tool("conversationApprove", arguments)
            stream = Stream(second, conversation)
            await stream.until("task_complete")
            assert (place.work / "made").exists()
            await send(second, conversation, "2")
            await stream.until("exec_approval_request", 2)
            await crash(second)
        async with place.server() as third:
            stream = Stream(third, conversation)
            question = await third.next_request("elicitation/create")
            await third.respond(question, {"decision": "approved"})
            await stream.until("task_complete", 2)
            assert (place.work / "more").exists()


@pytest.mark.slow
async def test_a_waiting_turn_can_be_interrupted_instead(tmp_path: Path) -> None:
    async with home([call("shell", command=["touch", "made"]), say("next")], tmp_path, ASKING) as place:
        async with place.server() as first:
            conversation = await create(first, prompt="1")
            await Stream(first, conversation).until("exec_approval_request")
            await crash(first)
        async with place.server(capabilities={}) as second:
            await second.call_tool("conversationInterrupt", conversation_id=conversation)
            stream = Stream(second, conversation)
            await stream.until("task_complete")
            assert (await listed(second))[0]["status"] == "idle"
            assert await second.call_tool("codex-reply", threadId=conversation, prompt="2") == answered("next", conversation)
        assert told_to_model(place.model.requests[1]) == "aborted"
        assert not (place.work / "made").exists()


@pytest.mark.slow
async def test_input_that_was_accepted_and_not_read_goes_before_the_new_message(tmp_path: Path) -> None:
    async with home([hang(), say("all")], tmp_path) as place:
        async with place.server() as first:
            conversation = await create(first, prompt="1")
            await place.model.next_request(1)
            for text in ("2", "3"):
                assert (await send(first, conversation, text))["structuredContent"] == {"status": "ok"}
            await crash(first)
        async with place.server() as second:
            result = await second.call_tool("codex-reply", threadId=conversation, prompt="4")
            assert result == answered("all", conversation)
        assert users_in(place.model.requests[1]) == ["1", "2", "3", "4"]


@pytest.mark.slow
async def test_what_was_acknowledged_a_moment_before_is_there(tmp_path: Path) -> None:
    """Killed the very moment the answer is read, over and over."""
    async with home([], tmp_path) as place:
        made: list[str] = []
        for _ in range(5):
            async with place.server() as server:
                calls = [server.call_tool("conversationCreate") for _ in range(5)]
                made += [(await call_)["structuredContent"]["conversation_id"] for call_ in calls]
                await crash(server)
        async with place.server() as last:
            assert {entry["conversation_id"] for entry in await listed(last)} == set(made)


@pytest.mark.slow
async def test_killed_before_anything_was_begun_leaves_a_store_that_opens(tmp_path: Path) -> None:
    model = ScriptedModel([say("ok")] * 4)
    async with model.serving():
        place = Home(model, tmp_path, {})
        for _ in range(3):
            server = place.server()
            await server.start()
            server.call_tool("codex", prompt="x")  # not waited for: the process may not even have read it
            await crash(server)
        async with place.server() as last:
            assert text_of(await last.call_tool("codex", prompt="y")) == "ok"


@pytest.mark.slow
async def test_a_fork_of_a_cut_turn_closes_it(tmp_path: Path) -> None:
    async with home([say("one"), hang(), say("two b")], tmp_path) as place:
        async with place.server() as first:
            conversation = await create(first)
            stream = Stream(first, conversation)
            parent = (await send(first, conversation, "1"))["_meta"]["messageId"]
            await stream.until("task_complete")
            await send(first, conversation, "2")
            await place.model.next_request(2)
            await crash(first)
        async with place.server() as second:
            stream = Stream(second, conversation)
            await send(second, conversation, "2b", parent_message_id=parent)
            await stream.until("task_complete", 3)
            assert stream.kinds("agent_message_delta", "agent_message") == [
                *("task_started", "task_complete"),
                *("task_started", "error", "task_complete"),
                *("task_started", "task_complete"),
            ]
        assert users_in(place.model.requests[2]) == ["1", "2b"]


@pytest.mark.slow
async def test_other_conversations_are_not_touched(tmp_path: Path) -> None:
    async with home([hang(), hang(), say("one again")], tmp_path) as place:
        async with place.server() as first:
            one = await create(first, prompt="one")
            two = await create(first, prompt="two")
            await place.model.next_request(2)
            await crash(first)
        async with place.server() as second:
            before = {entry["conversation_id"]: entry for entry in await listed(second)}
            await second.call_tool("codex-reply", threadId=one, prompt="go on")
            after = {entry["conversation_id"]: entry for entry in await listed(second)}
            assert after[two] == before[two]
            assert (await Stream(second, two).snapshot())[-1] == {"msg": {"type": "task_started"}}
