"""What can go wrong with a workspace, and what callers are told then."""

import asyncio
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of, thread_of, users_in
from tests.e2e.workspaces.repositories import project, refs, saved, store, told
from understudy.testing import McpProcess, ScriptedModel, call, say

MODES = {"sandbox_mode": "workspace-write", "approval_policy": "never"}


def workspaces_in(home: Path) -> list[str]:
    folder = home / "workspaces"
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("workspace", "why"),
    [
        ({"kind": "git"}, "`url` of the workspace is empty"),
        ({"kind": "git", "url": "--upload-pack=touch x"}, "an address that no repository has"),
        ({"kind": "git", "url": "ext::sh -c true"}, "an address that no repository has"),
        ({"kind": "git", "url": "ext::sh"}, "which cannot be cloned"),
        ({"kind": "git", "url": "git://localhost/x"}, "which cannot be cloned"),
        ({"kind": "git", "url": "https://me:s3cret@localhost/x"}, "leave it out, and let ssh or a credential helper"),
        ({"kind": "git", "url": "https://s3cret@localhost/x"}, "leave it out, and let ssh or a credential helper"),
        ({"kind": "git", "url": "/nowhere", "commit": "--orphan"}, "which names no commit, branch or tag"),
        ({"kind": "git", "url": "/nowhere/at/all"}, "does not exist"),
        ({"kind": "git", "url": "/nowhere", "path": "/tmp"}, "its folder is made for it"),
        ({"kind": "folder", "path": "/nowhere/at/all"}, "cannot be used"),
        ({"kind": "folder", "path": "/tmp", "url": "/x"}, "has a `path`, and no `url`"),
        ({"kind": "floppy"}, "Invalid enum value 'floppy'"),
        ({"kind": "git", "ulr": "x"}, "unknown field `ulr`"),
    ],
)
async def test_a_workspace_that_cannot_be_made_is_refused_with_its_reason(
    tmp_path: Path, workspace: dict[str, Any], why: str
) -> None:
    async with scene([], tmp_path, home=tmp_path / "home") as (_, client):
        answer = await client.call_tool("codex", prompt="x", workspace=workspace)
        assert why in str(answer)
        assert "s3cret" not in str(answer)
        assert (await client.call_tool("conversationsList"))["structuredContent"]["conversations"] == []
        assert workspaces_in(tmp_path / "home") == []
        assert "s3cret" not in client.stderr


@pytest.mark.slow
async def test_a_remote_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    source = project(tmp_path / "source")
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # takes connections, and says nothing
        config = {**MODES, "understudy.cluster.snapshots": f"http://127.0.0.1:{hanging.getsockname()[1]}/kept.git"}
        async with scene([say("One."), say("Two.")], tmp_path, home=tmp_path / "home", config=config) as (_, client):
            async with asyncio.timeout(30):
                thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
                answer = await client.call_tool("codex-reply", threadId=thread, prompt="Again")
            assert text_of(answer) == "Two."
            clone = tmp_path / "home" / "workspaces" / thread
            assert (clone / "README.md").exists()
        assert await client.exit_code() == 0


@pytest.mark.slow
async def test_a_store_that_cannot_be_written_is_named_and_tried_again(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), tmp_path / "kept.git"
    config = {**MODES, "understudy.cluster.snapshots": str(kept)}
    async with scene([say("One.")], tmp_path, home=tmp_path / "home", config=config) as (_, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
        await told(client, thread, "the workspace after turn 1 is not saved")
        store(kept)
        await saved(client, kept, thread, "1")
        await told(client, thread, f"is saved as refs/understudy/{thread}/1")


async def test_what_a_killed_server_was_making_goes_with_the_next_clone(tmp_path: Path) -> None:
    source, left = project(tmp_path / "source"), tmp_path / "home" / "workspaces" / "0.making"
    fresh = left.with_name("1.making")
    for folder in (left, fresh):
        folder.mkdir(parents=True)
    os.utime(left, (0, 0))
    async with scene([say("One.")], tmp_path, home=tmp_path / "home", config=MODES) as (_, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
        assert workspaces_in(tmp_path / "home") == sorted([thread, fresh.name])


async def test_a_clone_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        async with scene([], tmp_path, home=tmp_path / "home") as (_, client):
            url = f"http://127.0.0.1:{hanging.getsockname()[1]}/x.git"
            running = client.codex("x", workspace={"kind": "git", "url": url})
            connection, _ = await asyncio.get_running_loop().run_in_executor(None, hanging.accept)
            with connection:
                await client.cancel(running)
                assert "was cancelled before its workspace was made" in str(await running)
            assert workspaces_in(tmp_path / "home") == []
        assert await client.exit_code() == 0


async def test_setup_commands_are_run_contained_before_the_model_is_asked(tmp_path: Path) -> None:
    source, outside = project(tmp_path / "source"), tmp_path / "outside"
    setup = ["echo ready > prepared", f"touch {outside}", "echo no; false", "touch never"]
    async with scene([say("One."), say("Two.")], tmp_path, home=tmp_path / "home", config=MODES) as (model, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source), "setup": setup}))
        clone = tmp_path / "home" / "workspaces" / thread
        assert (clone / "prepared").read_text() == "ready\n"
        assert not outside.exists()
        assert not (clone / "never").exists()
        assert "`echo no; false`, which prepares it, failed" in "\n".join(users_in(model.requests[0]))
        (clone / "prepared").unlink()
        await client.call_tool("codex-reply", threadId=thread, prompt="Again")
        assert not (clone / "prepared").exists()


async def test_a_folder_that_is_gone_is_refused_and_can_still_be_read(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    async with scene([say("One.")], tmp_path, home=tmp_path / "home", config=MODES) as (_, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "folder", "path": str(place)}))
        place.rmdir()
        answer = await client.call_tool("codex-reply", threadId=thread, prompt="Again")
        assert f"the workspace {place} is gone, and nothing was kept of it" in str(answer)
        listed = (await client.call_tool("conversationsList"))["structuredContent"]["conversations"]
        assert [each["conversation_id"] for each in listed] == [thread]
        place.mkdir()


async def test_a_workspace_of_another_host_is_not_taken_for_one_that_is_lost(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    config = {**MODES, "understudy.cluster.snapshots": str(kept)}
    async with scene([say("One.")], tmp_path, home=tmp_path / "home", config=config) as (_, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
        await saved(client, kept, thread, "1")
        shutil.rmtree(tmp_path / "home" / "workspaces" / thread)
        kept.rename(tmp_path / "away.git")
        answer = await client.call_tool("codex-reply", threadId=thread, prompt="Again")
        assert "is gone, and cannot be made again at present" in str(answer)
        assert workspaces_in(tmp_path / "home") == []


async def test_changes_that_are_in_no_snapshot_are_named(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    patch = "*** Begin Patch\n*** Add File: lost.txt\n+lost\n*** End Patch"
    script = [say("One."), call("apply_patch", input=patch), say("Two."), say("Three.")]
    config, home = {**MODES, "understudy.cluster.snapshots": str(kept)}, tmp_path / "home"
    async with ScriptedModel(script) as model:
        async with McpProcess(model, cwd=tmp_path, home=home, config=config) as client:
            thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
            await saved(client, kept, thread, "1")
            kept.rename(tmp_path / "away.git")
            await client.reply(thread, "Patch")
            await told(client, thread, "is not saved")
            await client.kill()
        (tmp_path / "away.git").rename(kept)
        clone = home / "workspaces" / thread
        assert (clone / "lost.txt").exists()
        shutil.rmtree(clone)
        async with McpProcess(model, cwd=tmp_path, home=home, config=config) as client:
            await client.reply(thread, "Go on")
        said = "\n".join(users_in(model.requests[-1]))
        assert "made again from its snapshot after turn 1" in said
        assert f"all changes of turn 2, among them to {clone}/lost.txt" in said


async def test_a_deleted_conversation_leaves_neither_clone_nor_snapshot(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    config = {**MODES, "understudy.cluster.snapshots": str(kept)}
    async with scene([say("One.")], tmp_path, home=tmp_path / "home", config=config) as (_, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
        await saved(client, kept, thread, "1")
        await client.call_tool("conversationDelete", conversation_id=thread)
        assert workspaces_in(tmp_path / "home") == []
    assert refs(kept) == {}
    assert not (tmp_path / "home" / "understudy" / "snapshots" / f"{thread}.git").exists()
