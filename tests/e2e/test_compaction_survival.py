"""A compaction and what may happen around it: restarts, `kill -9`, interrupts, forks, viewers, files. The log loses nothing."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contexts import begins_like, shown, texts
from tests.e2e.scenes import kinds, text_of, thread_of
from tests.e2e.talking import Stream, create, send
from understudy.testing import HOLD, McpProcess, Script, ScriptedModel, call, deltas, say

WIRES = pytest.mark.parametrize("wire", ["chat", "responses"])
ASK = "Sum it up."
LIMIT = {"model_auto_compact_token_limit": 4000, "compact_prompt": ASK}


class Home:
    """A configuration folder that outlives its servers, and the model they share."""

    def __init__(self, model: ScriptedModel, folder: Path) -> None:
        self.model = model
        self.work = folder / "work"
        self.folder = folder / "home"
        self.work.mkdir()
        self.folder.mkdir()

    def server(self, **options: Any) -> McpProcess:
        return McpProcess(self.model.url, cwd=self.work, home=self.folder, config=LIMIT, **options)


@asynccontextmanager
async def home(script: Script, folder: Path) -> AsyncGenerator[Home]:
    async with ScriptedModel(script) as model:
        yield Home(model, folder)


async def reply(client: McpProcess, thread: str, prompt: str) -> str:
    return text_of(await client.call_tool("codex-reply", threadId=thread, prompt=prompt))


@pytest.mark.quick(1)
@WIRES
async def test_requests_only_grow_at_their_end_also_after_a_restart_and_with_new_context(tmp_path: Path, wire: str) -> None:
    look = [call("shell", command=["echo", "seen"], call_id=f"c{number}") for number in range(4)]
    script = [look[0], say("1"), say("2"), look[1] + say("and"), say("3"), say("4"), look[2], say("5"), say("6")]
    async with home(script, tmp_path) as place:
        async with place.server(wire=wire) as first:
            thread = thread_of(await first.call_tool("codex", prompt="one"))
            await reply(first, thread, "two")
            (place.work / "AGENTS.md").write_text("Mind the gap.")
            await reply(first, thread, "three")
            await first.kill()
        async with place.server(wire=wire) as second:
            await reply(second, thread, "four")
            (place.work / "AGENTS.md").write_text("Mind the step.")
            await second.kill()
        async with place.server(wire=wire) as third:
            await reply(third, thread, "five")
            await reply(third, thread, "six")
        requests = place.model.requests
        assert len(requests) == len(script)
        for number, (before, request) in enumerate(pairwise(requests), start=2):
            assert begins_like(request, before), f"request {number}"
        assert "Mind the gap." not in str(requests[4])
        assert str(requests[5]).count("Mind the gap.") == str(requests[8]).count("Mind the gap.") == 1
        assert str(requests[8]).count("Mind the step.") == 1


@pytest.mark.slow
@WIRES
async def test_a_fork_to_before_a_compaction_is_sent_what_was_there_then(tmp_path: Path, wire: str) -> None:
    script = [say("one", usage=(10, 5)), say("two", usage=(5000, 5)), say("SUMMARY"), say("three"), say("two again"), say("four")]
    async with home(script, tmp_path) as place, place.server(wire=wire) as client:
        conversation = await create(client)
        stream = Stream(client, conversation, after=0)
        await stream.snapshot()
        ids: list[str] = []
        for count, text in enumerate(("first", "second", "third"), start=1):
            ids.append((await send(client, conversation, text))["_meta"]["messageId"])
            await stream.until("task_complete", count)
        await send(client, conversation, "second again", parent_message_id=ids[0])
        await stream.until("task_complete", 4)
        await send(client, conversation, "fourth", parent_message_id=ids[2])
        await stream.until("task_complete", 5)
        requests = place.model.requests
        assert shown(requests[4]) == [("user", "first"), ("assistant", "one"), ("user", "second again")]
        assert begins_like(requests[4], requests[0])
        assert begins_like(requests[5], requests[3])  # the other path still has its summary
        assert shown(requests[5])[-2:] == [("assistant", "three"), ("user", "fourth")]


@pytest.mark.slow
async def test_a_server_killed_while_the_model_sums_up_loses_no_prompt(tmp_path: Path) -> None:
    script = [say("one", usage=(5000, 5)), deltas(["SUM", HOLD, "MARY"]), say("SUMMARY"), say("three")]
    async with home(script, tmp_path) as place:
        async with place.server() as first:
            thread = thread_of(await first.call_tool("codex", prompt="first"))
            first.call_tool("codex-reply", threadId=thread, prompt="second")
            await place.model.next_request(2)
            await first.kill()
        async with place.server() as second:
            assert await reply(second, thread, "third") == "three"
        assert shown(place.model.requests[2])[-1] == ("user", ASK)
        last = shown(place.model.requests[3])
        assert last[-2:] == [("user", "second"), ("user", "third")]
        assert "SUMMARY" in texts(place.model.requests[3])


async def test_an_interrupt_while_the_model_sums_up_ends_the_turn_and_nothing_else(tmp_path: Path) -> None:
    script = [say("one", usage=(5000, 5)), deltas(["SUM", HOLD, "MARY"]), say("SUMMARY"), say("three")]
    async with home(script, tmp_path) as place, place.server() as client:
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        cut = client.call_tool("codex-reply", threadId=thread, prompt="second")
        await place.model.next_request(2)
        await client.call_tool("conversationInterrupt", conversation_id=thread)
        assert text_of(await cut) == "Turn interrupted"
        assert await reply(client, thread, "third") == "three"
        assert shown(place.model.requests[3])[-2:] == [("user", "second"), ("user", "third")]


@pytest.mark.slow
async def test_what_is_sent_while_the_model_sums_up_is_read_with_the_next_request(tmp_path: Path) -> None:
    script = [say("one", usage=(5000, 5)), deltas(["SUM", HOLD, "MARY"]), say("two")]
    async with home(script, tmp_path) as place, place.server() as client:
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        turn = client.call_tool("codex-reply", threadId=thread, prompt="second")
        await place.model.next_request(2)
        await send(client, thread, "and this")
        place.model.release()
        assert text_of(await turn) == "two"
        assert shown(place.model.requests[2])[-2:] == [("user", "second"), ("user", "and this")]
        assert "SUMMARY" in texts(place.model.requests[2])


@pytest.mark.slow
async def test_a_summary_in_progress_is_shown_to_nobody_and_a_cursor_passes_it(tmp_path: Path) -> None:
    script = [say("one", usage=(5000, 5)), say("SUMMARY"), say("two")]
    async with home(script, tmp_path) as place:
        async with place.server() as client:
            thread = thread_of(await client.call_tool("codex", prompt="first"))
            live = Stream(client, thread, after=0)
            await live.snapshot()
            await reply(client, thread, "second")
            await live.until("task_complete", 2)
            assert "SUMMARY" not in str(live.events())
        async with place.server() as client:
            whole = Stream(client, thread, after=0)
            told = await whole.snapshot()
            kinds_told = kinds([event["msg"] for event in told])
            assert kinds_told.count("background_event") == 1
            seqs = [event["_meta"]["seq"] for event in told]
            after = told[kinds_told.index("background_event")]["_meta"]["seq"]
            rest = await Stream(client, thread, after=after).snapshot()
            assert [event["_meta"]["seq"] for event in rest] == [seq for seq in seqs if seq > after]


@pytest.mark.slow
async def test_a_compacted_conversation_is_shown_whole_and_goes_on_in_another_home(tmp_path: Path) -> None:
    script = [say("answer one", usage=(5000, 5)), say("THE SUMMARY"), say("answer two", usage=(10, 5)), say("answer three")]
    other = tmp_path / "other"
    other.mkdir()
    async with home(script, tmp_path) as place:
        async with place.server() as client:
            thread = thread_of(await client.call_tool("codex", prompt="prompt one"))
            await reply(client, thread, "prompt two")
        told = await program(place.folder, place.work, "show", thread)
        for words in ("prompt one", "answer one", "context compacted", "THE SUMMARY", "prompt two", "answer two"):
            assert words in told
        await program(place.folder, place.work, "export", thread, "-o", str(tmp_path / "file.jsonl"))
        await program(other, place.work, "import", str(tmp_path / "file.jsonl"))
        async with McpProcess(place.model.url, cwd=place.work, home=other, config=LIMIT) as elsewhere:
            assert await reply(elsewhere, thread, "prompt three") == "answer three"
        assert begins_like(place.model.requests[3], place.model.requests[2])


async def program(folder: Path, cwd: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "understudy", *arguments]
    ended = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=cwd,
        env={"HOME": str(folder.parent), "CODEX_HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
