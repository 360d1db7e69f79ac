"""An editor beside other doors: questions answered elsewhere, messages of others, and a client that does not read for a while."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_acp import ASKS, scene
from tests.support.acp_client import AcpClient
from tests.support.app_client import AppClient
from understudy.testing import HOLD, CodexHome, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.slow
async def test_a_question_that_is_answered_elsewhere_is_withdrawn_and_the_turn_goes_on(tmp_path: Path) -> None:
    script = [call("shell", call_id="c1", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        number = client.ask_prompt(await client.new_session(work), "go")
        question = await client.question()
        env = CodexHome(tmp_path / "home" / ".codex").environment()
        words = [sys.executable, "-m", "understudy", "approvals", "answer", "c1", "yes"]
        done = await asyncio.to_thread(
            subprocess.run, words, cwd=work, env=env, capture_output=True, text=True, timeout=8 * WAIT_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        assert (await client.told("$/cancel_request"))["requestId"] == question["id"]
        client.choose(question, "denied")  # too late
        assert await client.answer(number) == {"stopReason": "end_turn"}
        assert (work / "made.txt").exists()


@pytest.mark.slow
async def test_what_another_door_says_in_a_session_is_shown(tmp_path: Path) -> None:
    async with scene([say("one"), say("two")], tmp_path) as (_, client, work):
        session = await client.new_session(work)
        await client.prompt(session, "mine")
        before = len(client.messages)
        async with AppClient(tmp_path / "home" / ".codex", work) as other:
            await other.call("thread/resume", threadId=session)
            await other.run_turn(session, "theirs")
        await client.update("agent_message_chunk", before)
        assert client.said("user_message_chunk") == "theirs"
        assert client.said() == "onetwo"


@pytest.mark.slow
async def test_a_cancel_finds_its_session_however_the_id_is_spelled(tmp_path: Path) -> None:
    """As every request does; a notification that is lost would leave the turn running."""
    async with scene([deltas(["a", HOLD, "b"])], tmp_path) as (model, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        await model.next_request(1)
        client.send({"method": "session/cancel", "params": {"sessionId": session.upper()}})
        assert await client.answer(number) == {"stopReason": "cancelled"}


async def test_two_editors_have_one_session_and_one_answer_counts(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=ASKS) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        question = await client.question()
        async with AcpClient(tmp_path / "home" / ".codex", work) as second:
            await second.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
            theirs = await second.question()
            second.choose(theirs, "approved")
            assert (await client.told("$/cancel_request"))["requestId"] == question["id"]
            assert await client.answer(number) == {"stopReason": "end_turn"}
            await second.update("agent_message_chunk")
            assert second.said("user_message_chunk") == "go"


@pytest.mark.slow
async def test_an_answer_comes_behind_all_updates_also_for_a_client_that_did_not_read_for_a_while(tmp_path: Path) -> None:
    long = "x" * 1000 + "\n"
    script = [
        call("shell", call_id=f"c{number}", command=["bash", "-c", f"yes {'y' * 60} | head -c 60000"]) for number in range(20)
    ]
    async with scene([*script, say(long * 300)], tmp_path) as (model, client, work):
        session = await client.new_session(work)
        with client.not_reading():
            number = client.ask_prompt(session, "go")
            async with asyncio.timeout(8 * WAIT_SECONDS):
                while len(model.requests) <= len(script):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert await client.answer(number) == {"stopReason": "end_turn"}
        assert client.messages[-1]["id"] == number
        assert client.said() == long * 300
        assert [update["status"] for update in client.updates("tool_call_update") if "rawOutput" in update] == ["completed"] * 20
        before = len(client.messages)
        loading = client.ask("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        await client.answer(loading)
        assert client.messages[-1]["id"] == loading
        assert client.said(after=before) == long * 300


@pytest.mark.slow
async def test_an_answer_to_a_question_that_was_closed_does_not_hit_a_later_one_that_looks_the_same(tmp_path: Path) -> None:
    """The second editor is held up while the first one answers, and the model asks for the same again under the same id."""
    again = call("shell", call_id="c1", command=["bash", "-c", "echo ran >> log.txt"])
    async with scene([again, again, say("done")], tmp_path, config=ASKS) as (_, client, work):
        session = await client.new_session(work)
        number = client.ask_prompt(session, "go")
        first = await client.question(0)
        async with AcpClient(tmp_path / "home" / ".codex", work) as second:
            await second.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
            seen = await second.question(0)
            second.pause()
            client.choose(first, "approved")
            await client.question(1)
            second.choose(seen, "approved")  # of the first question, which is all that its user has seen
            second.go_on()
            second.choose(await second.question(1), "denied")
            assert await client.answer(number) == {"stopReason": "end_turn"}
    assert (work / "log.txt").read_text() == "ran\n"
