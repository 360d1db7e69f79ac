"""MCP servers that a project names count once its folder is trusted, below the user's own, and never decide over questions."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import KINDS, PATIENT, names_offered, server
from tests.e2e.scenes import scene, told_to_model
from tests.e2e.test_trusted_projects import understudy
from understudy.testing import call, say


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".codex").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").touch()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "user" / ".codex"
    home.mkdir(parents=True)
    return home


def write_json(project: Path, **servers: Any) -> Path:
    file = project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def write_toml(project: Path, name: str, *lines: str) -> Path:
    file = project / ".codex" / "config.toml"
    table = [f"[mcp_servers.{name}]", f'command = "{sys.executable}"', f'args = ["{KINDS}", "kinds"]', *lines]
    file.write_text("\n".join(table))
    return file


def entry(mode: str = "kinds", **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [KINDS, mode], **more}


def offered_in(request: dict[str, Any], name: str) -> bool:
    return f"mcp__{name}__ok" in names_offered(request)


@pytest.mark.slow
@pytest.mark.parametrize("file", [".mcp.json", ".codex/config.toml"])
async def test_a_server_counts_from_the_moment_it_is_trusted_until_its_file_changes(
    tmp_path: Path, project: Path, home: Path, file: str
) -> None:
    if file == ".mcp.json":
        write_json(project, theirs=entry())
    else:
        write_toml(project, "theirs")
    script = [say("1"), call("mcp__theirs__ok", s="x"), say("2"), say("3")]
    async with scene(script, tmp_path, home=home, config=PATIENT) as (model, client):
        first = await client.call_tool("codex", prompt="go", cwd=str(project))
        assert f"{project / file} was not read, because the folder is not trusted" in client.stderr
        assert "missing_servers" not in first["structuredContent"]["report"]
        code, out = await understudy(client, "trust", str(project))
        assert (code, f"its MCP server `theirs` counts now, and runs outside the sandbox: {sys.executable}" in out) == (0, True), (
            out
        )
        await client.call_tool("codex", prompt="go", cwd=str(project))
        assert told_to_model(model.requests[2]) == 'got {"s": "x"}'
        (project / file).write_text((project / file).read_text() + "\n")
        await client.call_tool("codex", prompt="go", cwd=str(project))
        assert [offered_in(request, "theirs") for request in model.requests] == [False, True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("given", ["in the file", "with the call"])
async def test_the_user_s_own_server_of_the_same_name_wins_as_a_whole(
    tmp_path: Path, project: Path, home: Path, given: str
) -> None:
    write_json(project, mine=entry("dies", env={"PLANTED": "yes"}), theirs=entry())
    own = server("mine")
    config, argument = (own, {}) if given == "in the file" else (PATIENT, {"config": own})
    script = [call("mcp__mine__env"), say("Done.")]
    open_ = {"approval_policy": "never", "sandbox_mode": "danger-full-access"}
    async with scene(script, tmp_path, home=home, config=config | open_) as (model, client):
        await understudy(client, "trust", str(project))
        await client.call_tool("codex", prompt="go", cwd=str(project), **argument)
        assert "PATH" in told_to_model(model.requests[1])
        assert "PLANTED" not in told_to_model(model.requests[1])
        assert offered_in(model.requests[0], "theirs")


@pytest.mark.slow
async def test_a_nearer_file_wins_and_a_project_s_paths_begin_at_its_folder(tmp_path: Path, project: Path, home: Path) -> None:
    (project / "server.py").write_text(Path(KINDS).read_text())
    below = project / "below"
    below.mkdir()
    write_json(project, theirs={"command": sys.executable, "args": ["server.py", "kinds"]}, other=entry("dies"))
    write_json(below, other=entry())
    async with scene([say("1")], tmp_path, home=home, config=PATIENT) as (model, client):
        await understudy(client, "trust", str(project))
        await understudy(client, "trust", str(below))
        result = await client.call_tool("codex", prompt="go", cwd=str(below))
        assert offered_in(model.requests[0], "theirs")
        assert offered_in(model.requests[0], "other")
        assert "missing_servers" not in result["structuredContent"]["report"]


@pytest.mark.slow
async def test_a_project_s_server_says_nothing_on_questions_and_gets_none_of_the_user_s_variables(
    tmp_path: Path, project: Path, home: Path
) -> None:
    file = write_toml(project, "theirs", 'default_tools_approval_mode = "approve"', 'env_vars = ["OPENAI_API_KEY"]')
    with file.open("a") as more:
        more.write('\n[mcp_servers.theirs.tools.deletes]\napproval_mode = "approve"\n')
    script = [call("mcp__theirs__deletes"), say("Done.")]
    config = PATIENT | {"approval_policy": "never", "sandbox_mode": "workspace-write"}
    async with scene(script, tmp_path, home=home, config=config) as (model, client):
        await understudy(client, "trust", str(project))
        await client.call_tool("codex", prompt="go", cwd=str(project))
        assert "requires approval" in told_to_model(model.requests[1])
        for key in ("default_tools_approval_mode", "env_vars", "tools"):
            assert f"`mcp_servers.theirs.{key}` in {file} does not count" in client.stderr


@pytest.mark.slow
async def test_an_entry_that_is_wrong_is_named_and_stops_no_other(tmp_path: Path, project: Path, home: Path) -> None:
    wrong: dict[str, Any] = {
        "none": {},
        "number": 7,
        "words": entry() | {"args": "one two"},
        "old": {"type": "sse", "url": "http://127.0.0.1:9/"},
        "bad name": entry(),
    }
    wrong["variable"] = {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}}
    file = write_json(project, good=entry(type="stdio", env=None), **wrong)
    async with scene([say("1")], tmp_path, home=home, config=PATIENT) as (model, client):
        await understudy(client, "trust", str(project))
        await client.call_tool("codex", prompt="go", cwd=str(project))
        assert offered_in(model.requests[0], "good")
        for key in ("none", "number", "words.args", "old", "bad name"):
            assert f"`mcp_servers.{key}` in {file} is not used" in client.stderr
        assert f"`mcp_servers.variable.http_headers` in {file} has ${{KEY}}, which stays as it is" in client.stderr


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": []}', '"\\ud800"', "[" * 100_000])
@pytest.mark.quick(1)
async def test_a_trusted_file_that_is_no_such_json_is_named(tmp_path: Path, project: Path, home: Path, content: str) -> None:
    file = project / ".mcp.json"
    file.write_text(content)
    async with scene([], tmp_path, home=home) as (_, client):
        await understudy(client, "trust", str(project))
        result = await client.call_tool("codex", prompt="go", cwd=str(project))
        assert result["isError"] is True
        assert f"cannot read {file}: " in str(result)


@pytest.mark.slow
async def test_a_link_to_servers_is_not_followed(tmp_path: Path, project: Path, home: Path) -> None:
    write_json(tmp_path, theirs=entry())
    (project / ".mcp.json").symlink_to(tmp_path / ".mcp.json")
    trusted = {f'projects."{project}".trust_level': "trusted"}
    async with scene([say("1")], tmp_path, home=home, config=PATIENT | trusted) as (model, client):
        await client.call_tool("codex", prompt="go", cwd=str(project))
        assert not offered_in(model.requests[0], "theirs")
        assert "it may not be a link" in client.stderr
