"""Workspaces over REST: asked for, shown, and refused with a code."""

from pathlib import Path
from typing import Any

from tests.e2e.workspaces.repositories import git, project, store
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing import ScriptedModel, say


async def test_a_conversation_shows_its_workspace_and_says_when_it_cannot_be_had(tmp_path: Path) -> None:
    source, kept = project(tmp_path / "source"), store(tmp_path / "kept.git")
    config: dict[str, Any] = {"understudy.cluster.snapshots": str(kept), "understudy.cluster.workspaces": str(tmp_path / "clones")}
    config["understudy.cluster.workspace_urls"] = [str(source)]
    (tmp_path / "server").mkdir()
    async with (
        ScriptedModel([say("One.")]) as model,
        HttpServer(tmp_path / "server", model, config=config) as server,
    ):
        rest = RestClient(server.port, server.token)
        asked = {"prompt": "Work", "workspace": {"kind": "git", "url": str(source), "commit": "main"}}
        row = await rest.post("/v1/conversations", asked)
        stream = await rest.stream(row["id"])
        await stream.until("background_event")
        shown = (await rest.get(f"/v1/conversations/{row['id']}"))["workspace"]
        host, path = shown.pop("host"), tmp_path / "clones" / row["id"]
        assert host
        assert shown == {
            "kind": "git",
            "path": str(path),
            "url": str(source),
            "commit": git(source, "rev-parse", "main"),
            "setup": [],
            "state": "ready",
            "saved_turn": "1",
        }
        path.rename(tmp_path / "away")
        kept.rename(tmp_path / "kept-away.git")
        assert (await rest.get(f"/v1/conversations/{row['id']}"))["workspace"]["state"] == "lost"
        again = await rest.status("POST", f"/v1/conversations/{row['id']}/messages", {"text": "On"})
        assert again == (503, "workspace_away")
        none = {"workspace": {"kind": "git", "url": f"{source}/none"}}
        assert await rest.status("POST", "/v1/conversations", none) == (502, "workspace_failed")
