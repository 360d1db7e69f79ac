"""`understudy mcp`: it lists, adds, removes and tests other MCP servers, tells no secret, and serves where no action is named."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import LONGEST, Program
from tests.e2e.other_servers import KINDS, tool_server_on_http
from tests.sandbox.stage import mark, processes_with
from understudy.testing import McpProcess

SECRET = "sk-test-0123456789abcdef0123"


def config(program: Program) -> dict[str, Any]:
    return tomllib.loads((program.home / "config.toml").read_text())


def add(program: Program, name: str, mode: str, *options: str) -> None:
    added = program.call("mcp", "add", name, *options, "--", sys.executable, KINDS, mode)
    assert added.code == 0, added.err


def test_a_server_is_added_listed_and_removed_and_comments_stay(program: Program) -> None:
    mine = '# mine\nmodel = "x" # for now\n\n# an old friend\n[mcp_servers.old]\ncommand = "old"\n'
    program.configure(mine)
    words = ("--env", f"API_KEY={SECRET}", "--env-var", "LANG", "--cwd", str(program.cwd), "--required", "--startup-timeout", "12")
    added = program.call("mcp", "add", "time", *words, "--", "uvx", "mcp-server-time", "--token", SECRET)
    assert (added.code, added.out) == (0, f"added: time, in {program.home / 'config.toml'}\n")
    assert config(program)["mcp_servers"] == {
        "old": {"command": "old"},
        "time": {
            "command": "uvx",
            "args": ["mcp-server-time", "--token", SECRET],
            "env": {"API_KEY": SECRET},
            "env_vars": ["LANG"],
            "cwd": str(program.cwd),
            "required": True,
            "startup_timeout_sec": 12,
        },
    }
    listed = program.call("mcp", "list")
    assert listed.out.splitlines() == [
        "old   enabled   old",
        "time  enabled   uvx mcp-server-time --token '[redacted]'",
        "                variables: API_KEY, LANG",
        "                required",
    ]
    assert program.call("mcp", "remove", "time").out == "removed: time\n"
    assert (program.home / "config.toml").read_text().rstrip() == mine.rstrip()


def test_an_address_is_added_with_the_variables_that_hold_its_secrets(program: Program) -> None:
    words = ("--url", "https://mcp.example/mcp", "--bearer-token-env-var", "TOKEN", "--header-env", "X-Key=KEY")
    assert program.call("mcp", "add", "web", *words).code == 0
    assert config(program)["mcp_servers"]["web"] == {
        "url": "https://mcp.example/mcp",
        "bearer_token_env_var": "TOKEN",
        "env_http_headers": {"X-Key": "KEY"},
    }
    [listed] = program.json("mcp", "list", "--json")
    assert (listed["url"], listed["headers"], listed["origin"]) == (
        "https://mcp.example/mcp",
        ["Authorization", "X-Key"],
        "config.toml",
    )


def test_a_server_is_replaced_only_where_that_is_said(program: Program) -> None:
    assert program.call("mcp", "add", "one", "--sandboxed", "--env", "A=b", "--", "first").code == 0
    refused = program.call("mcp", "add", "one", "--", "second")
    assert (refused.code, refused.err) == (
        1,
        "understudy: there is a server `one` already; --replace puts this one in its place\n",
    )
    assert config(program) == {
        "mcp_servers": {"one": {"command": "first", "env": {"A": "b"}}},
        "understudy": {"mcp": {"sandboxed": ["one"]}},
    }
    assert program.call("mcp", "add", "one", "--replace", "--", "second").code == 0
    assert config(program)["mcp_servers"] == {"one": {"command": "second"}}
    assert config(program).get("understudy", {}).get("mcp", {}) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a"), "name a program (understudy mcp add NAME -- CMD …) or an address (--url URL), and not both"),
        (("add", "a", "--url", "http://x", "--", "x"), "and not both"),
        (("add", "a b", "--", "x"), "must match pattern"),
        (("add", "a", "--url", "ftp://x"), "an address that begins with https:// or http://"),
        (("add", "a", "--url", "http://x", "--env", "A=b"), "--env is not for a server that is an address"),
        (("add", "a", "--bearer-token-env-var", "A", "--", "x"), "--bearer-token-env-var is not for a server that is a program"),
        (("add", "a", "--env", SECRET, "--", "x"), "--env NAME=VALUE was expected"),
        (("remove", "tme"), "did you mean `time`?"),
        (("remove", "nothing-like-it"), "`understudy mcp list` shows which there are"),
        (("test", "tme"), "did you mean `time`?"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(program: Program, words: tuple[str, ...], said: str) -> None:
    program.configure('[mcp_servers.time]\ncommand = "x"\n')
    before = (program.home / "config.toml").read_bytes()
    refused = program.call("mcp", *words)
    assert refused.code in (1, 2)
    assert said in refused.err
    assert SECRET not in refused.err
    assert (program.home / "config.toml").read_bytes() == before


def test_no_secret_is_listed_wherever_it_stands(program: Program) -> None:
    program.configure(
        f"""
[mcp_servers.a]
command = "x"
args = ["--api-key={SECRET}", "--auth", "{SECRET}", "{SECRET}", "postgres://me:{SECRET}@db/x", "plain"]
env = {{ A = "{SECRET}" }}
[mcp_servers.b]
url = "https://me:{SECRET}@mcp.example/mcp?key={SECRET}&{SECRET}#{SECRET}"
http_headers = {{ X = "{SECRET}" }}
enabled = false
"""
    )
    for words in (("list",), ("list", "--json"), ("test", "a"), ("test", "a", "--json")):
        told = program.call("mcp", *words)
        assert SECRET not in told.out + told.err
    assert "https://[redacted]@mcp.example/mcp?key=[redacted]&[redacted]" in program.call("mcp", "list").out
    assert [server["enabled"] for server in program.json("mcp", "list", "--json")] == [True, False]


def test_settings_before_and_after_the_action_count(program: Program) -> None:
    before = program.call("mcp", "-c", 'mcp_servers.x.command="y"', "list", "--json")
    after = program.call("mcp", "list", "--json", "-c", 'mcp_servers.x.command="y"')
    assert json.loads(before.out) == json.loads(after.out)
    assert [(server["name"], server["origin"]) for server in json.loads(after.out)] == [("x", "settings")]


def test_servers_of_a_trusted_project_are_listed_and_cannot_be_removed_here(program: Program) -> None:
    (program.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": {"command": "x"}}}))
    assert program.json("mcp", "list", "--json") == []
    assert program.call("trust", str(program.cwd)).code == 0
    [listed] = program.json("mcp", "list", "--json")
    assert (listed["name"], listed["origin"]) == ("theirs", "project")
    refused = program.call("mcp", "remove", "theirs")
    assert (refused.code, "is named by the project here" in refused.err) == (1, True)


def test_test_starts_a_server_and_lists_its_tools(program: Program) -> None:
    add(program, "kinds", "good")
    add(program, "off", "good")
    tested = program.call("mcp", "test", "-c", "mcp_servers.off.enabled=false")
    first, tool = tested.out.splitlines()
    assert tested.code == 0, tested.err
    assert first.startswith("kinds: works, 1 tool, ready after ")
    assert tool.startswith("  mcp__kinds__ok")


def test_test_says_what_is_wrong_with_each_and_that_one_is(program: Program) -> None:
    add(program, "good", "good")
    add(program, "dies", "dies")
    add(program, "hangs", "hangstart", "--startup-timeout", "0.3")
    assert program.call("mcp", "add", "missing", "--", "no-such-program-here", SECRET).code == 0
    assert program.call("mcp", "add", "gone", "--url", "http://127.0.0.1:9/mcp").code == 0
    assert program.call("mcp", "add", "keyless", "--url", "http://127.0.0.1:9/mcp", "--bearer-token-env-var", "NOT_SET").code == 0
    tested = program.call("mcp", "test", "--json", "-c", 'mcp_servers.good.enabled_tools=["ok","okay"]')
    assert tested.code == 1
    found = {server["name"]: server for server in json.loads(tested.out)}
    assert found["good"]["works"] is True
    assert found["good"]["warnings"] == ["`enabled_tools` names `okay`, which it does not have"]
    assert "exit code" in found["dies"]["error"]
    assert "`mcp_servers.hangs.startup_timeout_sec` gives it longer" in found["hangs"]["error"]
    assert "No such file" in found["missing"]["error"]
    assert found["missing"]["started_as"] == "no-such-program-here '[redacted]'"
    assert "the connection could not be made" in found["gone"]["error"]
    assert "NOT_SET" in found["keyless"]["error"]
    plain = program.call("mcp", "test", "missing")
    assert plain.out.startswith("missing: does not work: No such file or directory")
    assert "  started as: no-such-program-here '[redacted]'\n" in plain.out


@pytest.mark.slow
def test_test_runs_a_sandboxed_server_in_the_sandbox(program: Program) -> None:
    outside = program.home.parent / "outside"
    script = program.cwd / "server.py"
    script.write_text(f"open({str(outside)!r}, 'w')\n")
    assert program.call("mcp", "add", "evil", "--sandboxed", "--", sys.executable, str(script)).code == 0
    tested = program.call("mcp", "test")
    assert tested.code == 1
    assert not outside.exists()
    assert list((program.home / "understudy" / "tmp").iterdir()) == []


@pytest.mark.slow
async def test_test_reaches_a_server_over_http_with_its_token(program: Program) -> None:
    async with tool_server_on_http() as web:
        words = ("--url", web.url, "--bearer-token-env-var", "TOKEN")
        assert program.call("mcp", "add", "web", *words).code == 0
        tested = await program.run_aside("mcp", "test", "web", env={"TOKEN": SECRET})
    assert tested.code == 0, tested.out
    assert "  mcp__web__ok" in tested.out
    assert SECRET not in tested.out + tested.err
    assert web.headers[0]["authorization"] == f"Bearer {SECRET}"


@pytest.mark.slow
def test_a_test_that_is_interrupted_leaves_no_server_behind(program: Program, tmp_path: Path) -> None:
    word = mark("hanging-server")
    script = tmp_path / "server.py"
    script.write_text(f"import time; open({str(tmp_path / 'up')!r}, 'w').close(); time.sleep(600)\n")
    assert program.call("mcp", "add", "hangs", "--", sys.executable, str(script), word).code == 0
    command = [sys.executable, "-m", "understudy", "mcp", "test"]
    process = subprocess.Popen(command, cwd=program.cwd, env=program.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + LONGEST
        while not (tmp_path / "up").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST) == 130
    finally:
        process.kill()
        process.communicate()
    assert processes_with(word) == []


async def test_without_an_action_it_serves(program: Program) -> None:
    for words in (("mcp",), ("mcp", "-c", 'model="x"')):
        command = (sys.executable, "-m", "understudy", *words)
        async with McpProcess(command=command, cwd=program.cwd, home=program.home) as client:
            assert "codex" in [tool["name"] for tool in (await client.request("tools/list", {}))["tools"]]
