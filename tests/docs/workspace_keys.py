"""What the keys of `[understudy.cluster]` about workspaces do, shown with the real program."""

from pathlib import Path
from typing import Any

from tests.e2e.scenes import scene, thread_of
from tests.e2e.workspaces.repositories import git, project, saved, store
from understudy.testing import call, say

MODES: dict[str, Any] = {"sandbox_mode": "workspace-write", "approval_policy": "never"}


async def show_where_they_are_made_and_kept(folder: Path) -> None:
    """`workspaces`, `snapshots` and `snapshot_also`."""
    source, kept = project(folder / "source", {".gitignore": "*.env\n"}), store(folder / "kept.git")
    config = MODES | {
        "understudy.cluster.workspaces": str(folder / "mine"),
        "understudy.cluster.snapshots": str(kept),
        "understudy.cluster.snapshot_also": ["kept.env"],
    }
    script = [call("shell", command=["touch", "kept.env", "other.env"]), say("Made.")]
    async with scene(script, folder, home=folder / "home", config=config) as (_, client):
        thread = thread_of(await client.codex("x", workspace={"kind": "git", "url": str(source)}))
        commit = await saved(client, kept, thread, "1")
    assert [each.name for each in (folder / "mine").iterdir()] == [thread]
    assert git(kept, "ls-tree", "--name-only", commit).split() == [".gitignore", "kept.env"]


async def show_what_is_not_cloned(folder: Path) -> None:
    """`workspace_urls`, `workspace_seconds` and `workspace_mb`."""
    source = project(folder / "source", {"large": "x" * (2 << 20)})
    for key, value, why in (
        ("workspace_urls", ["https://git.internal/team"], "is not among those that `workspace_urls`"),
        ("workspace_seconds", 0.001, "took longer than 0.001 s"),
        ("workspace_mb", 1, "take more than 1 MB"),
    ):
        config = {f"understudy.cluster.{key}": value}
        async with scene([], folder, home=folder / key, config=config) as (_, client):
            answer = await client.codex("x", workspace={"kind": "git", "url": str(source)})
            assert why in str(answer)


WORKSPACES = {
    show_where_they_are_made_and_kept: tuple(f"understudy.cluster.{name}" for name in ("workspaces", "snapshots", "snapshot_also")),
    show_what_is_not_cloned: tuple(f"understudy.cluster.workspace_{name}" for name in ("urls", "seconds", "mb")),
}
