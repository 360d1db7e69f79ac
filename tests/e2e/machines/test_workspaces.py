"""Clones on the hosts of one database: made by a worker that a front end asks, saved, and made again there."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.e2e.workspaces.repositories import git, project, refs, store
from tests.support.machines import content, machines, thread
from understudy.testing import say
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.slow
async def test_a_front_end_has_a_clone_made_by_a_worker_and_gone_on_with_when_it_is_gone(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    config = {"understudy.cluster.snapshots": str(kept), "understudy.cluster.workspaces": str(tmp_path / "clones")}
    async with machines(tmp_path, lambda request: say(f"ok {len(request.body['messages'])}"), config=config) as those:
        x, y = await those.client("x"), await those.client("y")
        begun = await x.result("codex", {"prompt": "hello", "workspace": {"kind": "git", "url": str(source)}})
        name = thread(begun)
        clone = tmp_path / "clones" / name
        assert git(clone, "rev-parse", "HEAD") == git(source, "rev-parse", "HEAD")
        refused = await y.result("codex", {"prompt": "hello", "workspace": {"kind": "git", "url": str(tmp_path / "none")}})
        assert "does not exist" in str(refused)
        (clone / "new").write_text("new\n")
        assert content(await y.result("codex-reply", {"threadId": name, "prompt": "more"})).startswith("ok")
        async with asyncio.timeout(WAIT_SECONDS):
            while f"refs/understudy/{name}/2" not in refs(kept):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        shutil.rmtree(clone)
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "again"})).startswith("ok")
        assert (clone / "new").read_text() == "new\n"
