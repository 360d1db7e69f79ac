"""The store's files are cut short, deleted or replaced under a running server: it acknowledges nothing that is not kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.scenes import scene, text_of, thread_of
from tests.e2e.talking import Stream, create, listed, structured
from understudy.store.sqlite.wal import committed_frames
from understudy.testing import HOLD, McpProcess, ScriptedModel, deltas, say


def home_in(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir()
    return home


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut to nothing", "cut to half", "deleted", "replaced"])
async def test_the_bell_may_go_at_any_time(tmp_path: Path, how: str) -> None:
    home = home_in(tmp_path)
    async with ScriptedModel([say(str(number)) for number in range(8)]) as model:
        here = McpProcess(model.url, cwd=tmp_path, home=home)
        there = McpProcess(model.url, cwd=tmp_path, home=home)
        async with here, there:
            thread = thread_of(await here.call_tool("codex", prompt="0"))
            assert text_of(await there.call_tool("codex-reply", threadId=thread, prompt="1")) == "1"
            for number in range(2, 8, 2):
                bell = home / "understudy" / "bell"
                match how:
                    case "cut to nothing":
                        os.truncate(bell, 0)
                    case "cut to half":
                        os.truncate(bell, 500)
                    case "deleted":
                        bell.unlink()
                    case _:
                        (tmp_path / "new").write_bytes(b"")
                        (tmp_path / "new").rename(bell)
                for offset, server in enumerate((here, there)):
                    said = str(number + offset)
                    assert text_of(await server.call_tool("codex-reply", threadId=thread, prompt=said)) == said


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut to nothing", "deleted", "replaced"])
async def test_who_runs_a_turn_is_known_to_all_after_the_locks_went(tmp_path: Path, how: str) -> None:
    home = home_in(tmp_path)
    script = [say("0"), deltas(["half ", HOLD, "whole"]), say("2")]
    async with ScriptedModel(script) as model:
        here = McpProcess(model.url, cwd=tmp_path, home=home)
        there = McpProcess(model.url, cwd=tmp_path, home=home)
        async with here, there:
            thread = thread_of(await here.call_tool("codex", prompt="0"))
            await listed(there)
            locks = home / "understudy" / "locks"
            match how:
                case "cut to nothing":
                    os.truncate(locks, 0)
                case "deleted":
                    locks.unlink()
                case _:
                    (tmp_path / "new").write_bytes(b"")
                    (tmp_path / "new").rename(locks)
            async with McpProcess(model.url, cwd=tmp_path, home=home) as later:
                running = here.call_tool("codex-reply", threadId=thread, prompt="1")
                await here.event("agent_message_delta", running)
                for server in (there, later):
                    refused = structured(await server.call_tool("conversationDelete", conversation_id=thread))
                    assert "running in another process" in refused["message"]
                model.release()
                assert text_of(await running) == "half whole"
                assert text_of(await later.call_tool("codex-reply", threadId=thread, prompt="2")) == "2"


@pytest.mark.quick(1)
@pytest.mark.parametrize("what", ["the shared memory", "everything", "the database", "the write-ahead log", "replaced"])
async def test_a_store_that_is_deleted_under_the_server_is_noticed_by_the_next_call(tmp_path: Path, what: str) -> None:
    home = home_in(tmp_path)
    script = [say("kept"), *[say("lost")] * 3]
    model = ScriptedModel(script)
    async with model.serving(), McpProcess(model.url, cwd=tmp_path, home=home) as server:
        thread = thread_of(await server.call_tool("codex", prompt="1"))
        store = home / "understudy"
        match what:
            case "everything":
                shutil.rmtree(store)
            case "the database":
                (store / "conversations.db").unlink()
            case "the write-ahead log":
                (store / "conversations.db-wal").unlink()
            case "the shared memory":
                (store / "conversations.db-shm").unlink()
            case _:
                shutil.copy(store / "conversations.db", tmp_path / "copy")
                (tmp_path / "copy").rename(store / "conversations.db")
        for _ in range(2):
            reply = await server.call_tool("codex-reply", threadId=thread, prompt="2")
            assert reply["isError"] is True
            assert "was deleted or replaced" in text_of(reply)
            assert "restart the server" in text_of(reply)
        created = await server.call_tool("conversationCreate")
        assert "was deleted or replaced" in structured(created)["message"]
        assert await server.request("ping") == {}


SUFFIXES = {
    "-shm": ("-shm",),
    "-wal": ("-wal",),
    "-wal and -shm": ("-wal", "-shm"),
    "the database": ("",),
    "all": ("", "-wal", "-shm"),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("notices", [False, True], ids=["does not notice", "notices"])
@pytest.mark.parametrize("what", ["-wal and -shm", "-shm", "-wal", "the database", "all"])
@pytest.mark.parametrize("ends", ["closes", "dies"])
async def test_what_was_acknowledged_outlives_files_that_go_under_a_server(
    tmp_path: Path, what: str, *, notices: bool, ends: str
) -> None:
    """Neither a server that has them open nor one that comes later writes over what the other has written."""
    home = home_in(tmp_path)
    model = ScriptedModel(lambda _: say("yes"))
    async with model.serving(), McpProcess(model.url, cwd=tmp_path, home=home) as later:
        async with McpProcess(model.url, cwd=tmp_path, home=home) as here:
            thread = thread_of(await here.call_tool("codex", prompt="1"))
            assert text_of(await here.call_tool("codex-reply", threadId=thread, prompt="2")) == "yes"
            for suffix in SUFFIXES[what]:
                (home / "understudy" / f"conversations.db{suffix}").unlink()
            if notices:
                assert (await here.call_tool("codex-reply", threadId=thread, prompt="refused"))["isError"] is True
            async with McpProcess(model.url, cwd=tmp_path, home=home) as newcomer:
                assert text_of(await newcomer.call_tool("codex-reply", threadId=thread, prompt="3")) == "yes"
                if ends == "dies":
                    await here.kill()
                else:
                    await here.child.close()
            assert text_of(await later.call_tool("codex", prompt="another")) == "yes"
        async with McpProcess(model.url, cwd=tmp_path, home=home) as last:
            stream = Stream(last, thread, after=0)
            await stream.snapshot()
            said = [message["message"] for message in stream.messages() if message["type"] == "user_message"]
            assert [text for text in said if text != "refused"] == ["1", "2", "3"]
            assert len(await listed(last)) == 2
    assert not (home / "understudy" / "kept").exists(), "a store that nobody has open has one name"


@pytest.mark.quick(1)
@pytest.mark.parametrize("notices", [False, True], ids=["does not notice", "notices"])
@pytest.mark.parametrize("left", [0.5, 0, 0.999])
@pytest.mark.parametrize("ends", ["dies", "closes"])
async def test_what_was_acknowledged_outlives_a_write_ahead_log_that_is_cut_in_place(
    tmp_path: Path, left: float, *, notices: bool, ends: str
) -> None:
    """Its second name is of no use then: what was in it stands in its copy."""
    home = home_in(tmp_path)
    model = ScriptedModel(lambda _: say("yes"))
    async with model.serving():
        async with McpProcess(model.url, cwd=tmp_path, home=home) as here:
            thread = thread_of(await here.call_tool("codex", prompt="1"))
            async with McpProcess(model.url, cwd=tmp_path, home=home) as there:
                assert text_of(await there.call_tool("codex-reply", threadId=thread, prompt="2")) == "yes"
            wal = home / "understudy" / "conversations.db-wal"
            _, frames = committed_frames(wal)  # behind them the file may be longer
            os.truncate(wal, int(left * (32 + 4120 * frames)))
            if notices:
                assert "was cut short" in text_of(await here.call_tool("codex-reply", threadId=thread, prompt="refused"))
            if ends == "dies":
                await here.kill()
        async with McpProcess(model.url, cwd=tmp_path, home=home) as last:
            assert text_of(await last.call_tool("codex-reply", threadId=thread, prompt="3")) == "yes"
            assert "was cut short" in last.stderr
            stream = Stream(last, thread, after=0)
            await stream.snapshot()
            said = [message["message"] for message in stream.messages() if message["type"] == "user_message"]
            assert said == ["1", "2", "3"]
    assert not (home / "understudy" / "kept").exists()


@pytest.mark.quick(1)
@pytest.mark.parametrize("newcomer", [True, False], ids=["another one is made", "none is there"])
async def test_who_waits_for_another_process_is_told_when_the_folder_was_moved_away(tmp_path: Path, *, newcomer: bool) -> None:
    home = home_in(tmp_path)
    async with ScriptedModel([deltas(["half ", HOLD, "whole"]), *([say("new")] if newcomer else [])]) as model:
        here = McpProcess(model.url, cwd=tmp_path, home=home)
        there = McpProcess(model.url, cwd=tmp_path, home=home)
        async with here, there:
            running = here.call_tool("codex", prompt="0")
            thread = (await here.event("session_configured", running))["session_id"]
            await here.event("agent_message_delta", running)
            waiting = there.call_tool("codex-reply", threadId=thread)
            await listed(there)
            (home / "understudy").rename(tmp_path / "elsewhere")
            if newcomer:
                async with McpProcess(model.url, cwd=tmp_path, home=home) as later:
                    assert text_of(await later.call_tool("codex", prompt="1")) == "new"
            told = await waiting
            assert told["isError"] is True
            assert "restart the server" in text_of(told)
            model.release()
            assert (await running)["isError"] is True


@pytest.mark.slow
async def test_a_server_is_as_good_as_new_after_its_shared_memory_was_cut(tmp_path: Path) -> None:
    """That file is SQLite's own mapping: cutting it may end the process, and loses nothing."""
    home = home_in(tmp_path)
    async with scene([say("one")], tmp_path, home=home) as (_, server):
        thread = thread_of(await server.call_tool("codex", prompt="1"))
        os.truncate(home / "understudy" / "conversations.db-shm", 0)
        await server.kill()
    async with scene([say("two")], tmp_path, home=home) as (_, server):
        assert [row["conversation_id"] for row in await listed(server)] == [thread]
        assert text_of(await server.call_tool("codex-reply", threadId=thread, prompt="2")) == "two"
        await create(server)
