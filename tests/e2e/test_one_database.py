"""Two servers with folders of their own, on one database: what one has begun the other goes on with, watches and stops."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cli.program import Program
from tests.e2e.scenes import session_of, text_of
from tests.e2e.talking import Stream, create, listed
from tests.support.postgres import the_server
from understudy.config.home import state_dir
from understudy.testing import HOLD, McpProcess, Script, ScriptedModel, deltas, say


@asynccontextmanager
async def two_servers(folder: Path, script: Script) -> AsyncGenerator[tuple[ScriptedModel, McpProcess, McpProcess]]:
    config = {
        "understudy.store.url": the_server().new_tables(),
        "understudy.cluster.audit_key_file": str(folder / "audit.key"),
        "approval_policy": "untrusted",
        "sandbox_mode": "danger-full-access",
    }
    async with (
        ScriptedModel(script) as model,
        McpProcess(model, cwd=folder, home=folder / "one", config=config) as one,
        McpProcess(model, cwd=folder, home=folder / "two", config=config) as two,
    ):
        yield model, one, two


async def test_what_one_has_begun_the_other_shows_steers_and_goes_on_with(tmp_path: Path) -> None:
    async with two_servers(tmp_path, [deltas(["half ", HOLD, "of it"]), say("steered"), say("next")]) as (model, one, two):
        begun = one.call_tool("codex", prompt="1")
        thread = await session_of(one, begun)
        await one.event("agent_message_delta", begun)
        assert [(row["conversation_id"], row["status"]) for row in await listed(two)] == [(thread, "running")]
        stream = Stream(two, thread, after=0)
        await stream.until("agent_message_delta")
        joined = two.call_tool("codex-reply", threadId=thread, prompt="and this")
        await Stream(one, thread, after=0).until("user_message", 2)
        model.release()
        assert text_of(await begun) == text_of(await joined) == "steered"
        assert text_of(await two.call_tool("codex-reply", threadId=thread, prompt="2")) == "next"
    assert (await Program(tmp_path / "one", tmp_path).run_aside("verify", thread)).code == 0


async def test_a_turn_of_a_killed_server_is_closed_by_the_other_which_tells_whoever_waits(tmp_path: Path) -> None:
    async with two_servers(tmp_path, [deltas(["half ", HOLD]), say("next")]) as (_, one, two):
        thread = await create(one, prompt="1")
        stream = Stream(two, thread, after=0)
        await stream.until("agent_message_delta")
        waits = two.call_tool("codex-reply", threadId=thread, prompt="and this")
        await Stream(one, thread, after=0).until("user_message", 2)
        await one.kill()
        assert text_of(await waits) == "Turn interrupted"
        await stream.until("task_complete")
        assert text_of(await two.call_tool("codex-reply", threadId=thread, prompt="2")) == "next"


async def test_a_turn_on_another_machine_that_has_no_worker_keeps_its_conversation_from_being_deleted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        state_dir(tmp_path / name).mkdir(parents=True)
        (state_dir(tmp_path / name) / "host.name").write_text(name)
    async with two_servers(tmp_path, [deltas(["half ", HOLD])]) as (model, one, _):
        begun = one.call_tool("codex", prompt="1")
        thread = await session_of(one, begun)
        await one.event("agent_message_delta", begun)
        refused = await Program(tmp_path / "two", tmp_path).run_aside("conversations", "delete", thread, "--yes")
        assert (refused.code, "has a turn running on host one" in refused.err) == (1, True), refused.err
        model.release()
        assert text_of(await begun) == "half "
        deleted = await Program(tmp_path / "two", tmp_path).run_aside("conversations", "delete", thread, "--yes")
        assert deleted.code == 0, deleted.err
