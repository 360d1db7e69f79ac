"""A host that is gone for good: what is kept of its workspaces is made again on another one."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.e2e.workspaces.repositories import project, refs, store
from tests.support.machines import content, machines
from understudy.testing import call, say
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.slow
async def test_a_clone_of_a_lost_host_is_made_again_on_another_and_its_conversation_goes_on(tmp_path: Path) -> None:
    source, kept, clones = project(tmp_path / "project"), store(tmp_path / "kept"), tmp_path / "clones"
    clones.mkdir()
    config = {
        "understudy.cluster.lease_seconds": 2,
        "understudy.cluster.snapshots": str(kept),
        "understudy.cluster.workspaces": str(clones),
    }
    script = [call("shell", command=["sh", "-c", "echo more > made.txt"]), say("made"), say("on")]
    async with machines(tmp_path, script, workers=("a",), config=config) as those:
        x, rest = await those.client("x"), those.rest("y")
        workspace = {"kind": "git", "url": str(source)}
        row = await rest.post("/v1/conversations", {"prompt": "begin", "workspace": workspace})
        await (await rest.stream(row["id"])).until("task_complete")
        async with asyncio.timeout(WAIT_SECONDS):
            while not refs(kept):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await those.until("SELECT kind FROM workspaces", "git")
        await those.servers["a"].kill()
        shutil.rmtree(clones / row["id"])
        await those.start("worker", "b")
        assert content(await x.result("codex-reply", {"threadId": row["id"], "prompt": "go on"})) == "on"
        assert those.rows("SELECT host FROM conversations") == [("b",)]
        assert those.rows("SELECT host, kind FROM workspaces") == [("b", "git")]
        assert (clones / row["id"] / "made.txt").read_text() == "more\n"
