"""A conversation in a clone of a repository: made for it, saved after each turn, made again where it is gone."""

import shutil
from pathlib import Path

from tests.e2e.scenes import scene, text_of, thread_of, users_in
from tests.e2e.workspaces.repositories import git, project, refs, saved, store
from understudy.testing import call, say

FULL = {"sandbox_mode": "danger-full-access", "approval_policy": "never"}


async def test_a_conversation_works_in_a_clone_and_what_it_leaves_is_saved_after_each_turn(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    script = [
        call("shell", command=["sh", "-c", "echo more >> README.md; echo x > new.txt; echo l > a.log"]),
        say("One."),
        say("Two."),
    ]
    config = {"understudy.cluster.snapshots": str(kept), "sandbox_mode": "workspace-write", "approval_policy": "never"}
    workspace = {"kind": "git", "url": str(source), "commit": "main"}
    async with scene(script, tmp_path, home=tmp_path / "home", config=config) as (model, client):
        answer = await client.codex("Work", workspace=workspace)
        assert text_of(answer) == "One."
        thread = thread_of(answer)
        clone = tmp_path / "home" / "workspaces" / thread
        commit = await saved(client, kept, thread, "1")
        assert git(kept, "show", f"{commit}:README.md") == "hello\nmore"
        assert git(kept, "ls-tree", "--name-only", commit).split() == [".gitignore", "README.md", "new.txt"]
        assert git(kept, "rev-parse", f"{commit}^1") == git(source, "rev-parse", "main")
        assert git(clone, "status", "--porcelain").split("\n") == ["M README.md", "?? new.txt"]
        assert git(clone, "branch", "--list", "--format=%(refname:short)") == "main"
        assert git(clone, "for-each-ref", "refs/understudy", "refs/stash") == ""
        answer = await client.call_tool("codex-reply", threadId=thread, prompt="Again")
        await saved(client, kept, thread, "2")
        assert str(clone) in str(model.requests[0])
    assert len(refs(kept)) == 2
    assert sorted(p.name for p in clone.iterdir()) == [".git", ".gitignore", "README.md", "a.log", "new.txt"]


async def test_a_clone_that_is_gone_is_made_again_and_everybody_is_told(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    make = "echo more >> README.md; printf 'a\\r\\n' > new.txt; chmod +x new.txt; ln -s new.txt link"
    make += "; git commit -qam two; echo 3 > third"
    script = [call("shell", command=["sh", "-c", make]), say("One."), call("shell", command=["cat", "third"]), say("Two.")]
    config = {"understudy.cluster.snapshots": str(kept), **FULL}
    env = {"GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@b", "GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@b"}
    async with scene(script, tmp_path, home=tmp_path / "home", config=config, env=env) as (model, client):
        thread = thread_of(await client.codex("Work", workspace={"kind": "git", "url": str(source)}))
        clone = tmp_path / "home" / "workspaces" / thread
        head = git(clone, "rev-parse", "HEAD")
        await saved(client, kept, thread, "1")
        shutil.rmtree(clone)
        answer = await client.call_tool("codex-reply", threadId=thread, prompt="Go on")
        assert text_of(answer) == "Two."
        assert "has been made again from its snapshot after turn 1" in "\n".join(users_in(model.requests[2]))
        assert "files that git ignores" in "\n".join(users_in(model.requests[2]))
        assert git(clone, "rev-parse", "HEAD") == head
        assert git(clone, "symbolic-ref", "HEAD") == "refs/heads/main"
        assert git(clone, "status", "--porcelain").split("\n") == ["?? link", "?? new.txt", "?? third"]
        assert (clone / "new.txt").read_bytes() == b"a\r\n"
        assert (clone / "new.txt").stat().st_mode & 0o100
        assert (clone / "link").readlink() == Path("new.txt")
        await saved(client, kept, thread, "2")
