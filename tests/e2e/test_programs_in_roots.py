"""Programs that the configuration starts outside the sandbox: no model writes what they run, to be outside with them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import KINDS, PATIENT
from tests.e2e.scenes import scene, told_to_model
from tests.e2e.test_trusted_projects import understudy
from understudy.testing import call, say

CONFIG: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write", **PATIENT}
OURS = Path(KINDS).read_text()


def write(files: list[str]) -> str:
    return "; ".join(f"echo '# more' >>{file} && echo wrote {file}" for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["project", "user", "notify", "sandboxed"])
async def test_what_such_a_program_runs_is_protected(tmp_path: Path, whose: str) -> None:
    home, work = tmp_path / "user" / ".codex", tmp_path / "work"
    home.mkdir(parents=True)
    (work / "tools").mkdir(parents=True)
    script, data = work / "tools" / "server.py", work / "data.db"
    script.write_text(OURS)
    data.write_text("data\n")
    words = ["tools/server.py", "kinds", "data.db"]
    config = dict(CONFIG)
    match whose:
        case "project":
            entry = {"command": sys.executable, "args": words}
            (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
        case "notify":
            config["notify"] = [sys.executable, str(script), str(data)]
        case _:
            config |= {"mcp_servers.theirs.command": sys.executable, "mcp_servers.theirs.args": words}
            config["understudy.mcp.sandboxed"] = ["theirs"] if whose == "sandboxed" else []
    command = call("shell", command=["sh", "-c", write(["tools/server.py", "data.db"])])
    async with scene([command, say("done")], work, home=home, config=config) as (model, client):
        if whose == "project":
            await understudy(client, "trust", str(work))
        await client.codex("Change them.")
        told = told_to_model(model.requests[1])
    assert "wrote data.db" in told
    assert ("wrote tools/server.py" in told) == (whose == "sandboxed"), told
    assert (script.read_text() == OURS) == (whose != "sandboxed")
