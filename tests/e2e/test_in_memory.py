"""`history.persistence = "none"`: a conversation works as others do, and nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import text_of, thread_of, users_in
from tests.e2e.talking import Stream, create, listed, send, structured
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, say

CANARY = "canary-4c1d"
UNKEPT: dict[str, Any] = {"history.persistence": "none", "sandbox_mode": "workspace-write"}


def canaries_under(*folders: Path) -> list[str]:
    files = [Path(place, name) for folder in folders for place, _, names in os.walk(folder) for name in names]
    return [str(path) for path in files if CANARY.encode() in path.read_bytes()]


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_nothing_of_it_is_in_the_home_while_it_runs_or_afterwards(tmp_path: Path, how: str) -> None:
    home, work, temporary = (tmp_path / name for name in ("home", "work", "tmp"))
    for folder in (home, work, temporary):
        folder.mkdir()
    script = [
        call("shell", command=["sh", "-c", f"echo {CANARY} > /tmp/note; echo {CANARY}"]),
        say(f"{CANARY}, it said"),
        deltas([f"{CANARY} ", HOLD]),
    ]
    async with ScriptedModel(script) as model:
        options: dict[str, Any] = {"config": UNKEPT, "home": home, "env": {"TMPDIR": str(temporary)}}
        async with McpProcess(model.url, cwd=work, **options) as server:
            result = await server.call_tool("codex", prompt=f"say {CANARY}")
            assert text_of(result) == f"{CANARY}, it said"
            thread = thread_of(result)
            again = server.call_tool("codex-reply", threadId=thread, prompt=f"more {CANARY}")
            await server.event("agent_message_delta", again)
            assert users_in(model.requests[2]) == [f"say {CANARY}", f"more {CANARY}"]
            [row] = await listed(server)
            assert (row["conversation_id"], row["status"], row["message_count"]) == (thread, "running", 3)
            snapshot = await Stream(server, thread, after=0).snapshot()
            assert CANARY in str(snapshot)
            assert canaries_under(home) == []
            if how == "killed":
                await server.kill()
            else:
                await server.call_tool("conversationInterrupt", conversation_id=thread)
        assert canaries_under(home, work) == []
        if how == "closed":
            assert list(temporary.glob("understudy-*")) == []
        async with McpProcess(model.url, cwd=work, **options) as server:
            assert await listed(server) == []
            assert "Session not found" in text_of(await server.call_tool("codex-reply", threadId=thread, prompt="x"))
            await create(server)
            left = [folder for folder in temporary.glob("understudy-unkept-*") if canaries_under(folder)]
            assert left == [], "what a killed server left is swept"


@pytest.mark.slow
async def test_kept_and_unkept_ones_live_side_by_side_and_are_listed_in_pages(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with ScriptedModel([say("a"), say("b")]) as model:
        async with McpProcess(model.url, cwd=tmp_path, home=home) as server:
            kept = [await create(server) for _ in range(3)]
            unkept = [await create(server, config={"history.persistence": "none"}) for _ in range(3)]
            for conversation in (kept[0], unkept[0]):
                await send(server, conversation, "hello")
                await Stream(server, conversation, after=0).until("task_complete")
            found: list[str] = []
            arguments: dict[str, Any] = {"limit": 2}
            for _ in range(4):
                page = structured(await server.call_tool("conversationsList", arguments))
                found += [row["conversation_id"] for row in page["conversations"]]
                arguments["cursor"] = page.get("next_cursor")
                if arguments["cursor"] is None:
                    break
            assert sorted(found) == sorted(kept + unkept), "each once"
            deleted = await server.call_tool("conversationDelete", conversation_id=unkept[1])
            assert structured(deleted) == {"status": "ok"}
            assert len(await listed(server)) == 5
            wrong = await server.call_tool("conversationsList", cursor="mnonsense")
            assert structured(wrong)["message"] == "invalid cursor"
        async with McpProcess(model.url, cwd=tmp_path, home=home) as server:
            assert {row["conversation_id"] for row in await listed(server)} == set(kept)


@pytest.mark.slow
async def test_a_deep_and_closed_folder_of_an_unkept_conversation_goes_too(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    shut = "mkdir /tmp/shut && touch /tmp/shut/x && chmod 0 /tmp/shut"
    deep = f"{shut}; cd /tmp; for i in $(seq 1500); do mkdir d && cd d; done"
    script = [call("shell", command=["sh", "-c", deep]), say("a"), call("shell", command=["touch", "/tmp/y"]), say("b")]
    async with ScriptedModel(script) as model:
        options: dict[str, Any] = {"config": UNKEPT, "env": {"TMPDIR": str(temporary)}}
        async with McpProcess(model.url, cwd=tmp_path, **options) as server:
            first, _ = [thread_of(await server.call_tool("codex", prompt=text)) for text in ("1", "2")]
            [folder] = temporary.glob("understudy-unkept-*")
            assert (folder / first).exists()
            await server.call_tool("conversationDelete", conversation_id=first)
            assert not (folder / first).exists()
    assert list(temporary.glob("understudy-*")) == []
