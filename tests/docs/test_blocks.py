"""Every code block of the documents is run, parsed and used, or says that it is untested.

Programs of others are stand-ins that record their arguments; a recorded command of ours is then started.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import PAGES, ROOT, Block, all_blocks, blocks
from tests.docs.caller_model import caller_model
from tests.docs.links import broken_links
from tests.docs.user import User, make_user
from tests.e2e.scenes import text_of
from tests.support.environments import node_with, python_with
from understudy.testing import McpProcess
from understudy.testing.waiting import WAIT_SECONDS

SHOWN = {"text"}  # shown to be read: output, trees, diagrams
RUN = {"sh", "console", "python", "json", "toml", "js", "diff", "lua", "elisp"}
# in tests of these pages beside this file, in tests/contributing, in tests/bench and in tests/e2e/rest
TRIED_ELSEWHERE = {
    "library.md",
    "many-machines.md",
    "rest.md",
    "testing.md",
    "record-and-replay.md",
    "CONTRIBUTING.md",
    "evaluation.md",
}
IN_ONE_GO = {"rest.md", "quickstart.md", "hooks.md", "many-machines.md", "files.md"}  # their blocks need a server, or each other
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "page", "version": "0"}},
}


def named(block: Block) -> str:
    return block.name


@pytest.fixture
def user(tmp_path: Path) -> User:
    return make_user(tmp_path)


def test_every_block_is_of_a_kind_that_is_checked_or_says_that_it_is_untested() -> None:
    unknown = [block.name for block in all_blocks() if block.untested is None and block.language not in RUN | SHOWN]
    assert not unknown, f"mark these with <!-- untested: reason --> or teach the tests to run them: {unknown}"


def test_every_link_leads_somewhere() -> None:
    assert {page.name: broken for page in PAGES if (broken := broken_links(page))} == {}


def start(user: User, argv: list[str], env: dict[str, str] | None = None) -> None:
    """A command that a client was given has to be an MCP server."""
    done = user.run(argv, stdin=json.dumps(INITIALIZE) + "\n", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"], done.stdout


def start_agent(user: User, argv: list[str]) -> None:
    """A command that an editor was given has to speak ACP."""
    asked: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    done = user.run(argv, stdin=json.dumps(asked) + "\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["result"]["protocolVersion"] == 1, done.stdout


# -- shell


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", [block for block in blocks("sh") if block.page.name not in IN_ONE_GO], ids=named)
def test_a_shell_block_runs(user: User, block: Block) -> None:
    if "understudy login" in block.text:
        (user.home / "config.toml").write_text('model_provider = "openai"\n')  # the scripted model is sent no key
    done = user.run(["bash", "-u", "-c", block.text])
    assert "Traceback" not in done.stderr, done.stderr
    assert "bash: line" not in done.stderr, "a word that bash does not find, or a file that is missing\n" + done.stderr
    for words, code in user.our_calls():
        allowed = {"sandbox": range(125), "doctor": (0, 1)}.get(words[0], (0,))
        assert code in allowed, f"understudy {shlex.join(words)} ended with {code}\n{done.stdout}\n{done.stderr}"
    for words in user.their_calls():
        check_call_of_another_program(user, words)


def check_call_of_another_program(user: User, words: list[str]) -> None:
    match words:
        case ["make", *targets]:
            makefile = (ROOT / "Makefile").read_text()
            assert all(f"\n{target}:" in makefile for target in targets)
        case ["uv" | "pipx", *_, place]:
            assert (ROOT / place / "pyproject.toml").exists()
        case ["claude", "mcp", "add", *_]:
            at = words.index("--") + 1
            start(user, words[at:], env=dict([words[words.index("--env") + 1].split("=", 1)]) if "--env" in words else None)
        case ["npx", "@modelcontextprotocol/inspector", *server]:
            start(user, server)
        case ["docker", "run", *options]:
            assert "-i" in options
            assert "-t" not in options
        case ["docker", "build", *_] | ["claude", "mcp", "remove", "codex"]:
            pass
        case _:
            raise AssertionError(f"nobody checks {words}")


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("console"), ids=named)
def test_a_command_that_is_shown_is_there(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        match words:
            case ["$", "make", target]:
                assert f"\n{target}:" in makefile
            case ["$", ".venv/bin/python", "-m", module, command]:
                done = subprocess.run(
                    [sys.executable, "-m", module, command, "--help"],
                    cwd=ROOT,
                    capture_output=True,
                    timeout=12 * WAIT_SECONDS,
                    check=False,
                )
                assert done.returncode == 0, line
            case _:
                raise AssertionError(f"nobody checks {line}")


# -- data


def try_hooks(user: User, text: str) -> None:
    """Their own tests are in `test_hooks_page.py`."""
    file = user.home.parent / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    listed = json.loads(user.run(["understudy", "hooks", "list", "--json"]).stdout)
    assert listed["hooks"]
    assert listed["warnings"] == []


def server_tables(value: Any) -> dict[str, Any]:
    return value.get("mcpServers") or value.get("servers") or value.get("agent_servers") or {}


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", blocks("json"), ids=named)
async def test_a_json_block_is_used(user: User, block: Block) -> None:
    try:
        value = json.loads(block.text)
    except json.JSONDecodeError:
        lines = [json.loads(line) for line in block.text.splitlines()]
        assert lines
        return await play(user, "answers.jsonl", block.text)
    if "hooks" in value:
        return try_hooks(user, block.text)
    if "prompt" in value:
        return await call_with(user, value)
    if "distribution" in value:  # of the registry of agents
        return start_agent(user, [value["distribution"]["local"]["cmd"], *value["distribution"]["local"]["args"]])
    tables = server_tables(value)
    assert tables, "what this is for is not known here"
    for table in tables.values():
        env = {
            name: text.replace("${env:", "${").removeprefix("${").removesuffix("}") for name, text in table.get("env", {}).items()
        }
        assert all(name == given for name, given in env.items()), "each variable is passed on under its own name"
        if "agent_servers" in value:
            start_agent(user, [table["command"], *table["args"]])
        elif table["command"] == "understudy":
            start(user, [table["command"], *table["args"]])
        else:
            check_call_of_another_program(user, [table["command"], *table["args"]])
    return None


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("lua", "elisp"), ids=named)
def test_settings_of_an_editor_are_balanced_and_start_an_agent(user: User, block: Block) -> None:
    """No editor is at hand to read them."""
    text = re.sub(r'"[^"]*"', lambda word: " " * len(word[0]), block.text)
    pairs = {")": "(", "]": "[", "}": "{"}
    opened: list[str] = []
    for character in text:
        if character in pairs.values():
            opened.append(character)
        elif character in pairs:
            assert opened.pop() == pairs[character]
    assert not opened
    if block.language == "lua":
        assert len(re.findall(r"\b(?:function|do|then)\b", text)) == len(re.findall(r"\bend\b", text))
    words = re.findall(r'"([^"]*)"', block.text)
    assert {"understudy", "acp"} <= set(words)
    start_agent(user, ["understudy", "acp"])


@pytest.mark.quick(1)
@pytest.mark.parametrize("block", [block for block in blocks("toml") if block.page.name != "many-machines.md"], ids=named)
async def test_a_toml_block_is_used(user: User, block: Block) -> None:
    value = tomllib.loads(block.text)
    if "case" in value:
        rules = next(other for other in blocks("toml") if other.page == block.page and "policy" in tomllib.loads(other.text))
        (user.home / "config.toml").write_text('model_provider = "scripted"\n' + rules.text)
        (user.project / "rules.test.toml").write_text(block.text)
        done = user.run(["understudy", "policy", "test", "rules.test.toml"])
        assert done.returncode == 0, done.stdout + done.stderr
    elif "answers" in value:
        await play(user, "answers.toml", block.text)
    else:
        (user.home / "config.toml").write_text(block.text.replace("/path/to/answers.toml", str(user.answers)))
        await converse(user)


async def call_with(user: User, arguments: dict[str, Any]) -> None:
    """Arguments of `codex`: the call is taken and answered, in the form that it asks for."""
    schema: dict[str, Any] | None = arguments.get("output-schema")
    parts: dict[str, Any] = {} if schema is None else schema["properties"]
    values = {name: {"boolean": False, "string": "a word"}[part["type"]] for name, part in parts.items()}
    (user.project / "answers.json").write_text(json.dumps([{"say": json.dumps(values) if schema else "A word."}]))
    (user.home / "config.toml").write_text('model_provider = "scripted"\n[understudy]\nscripted_model = "answers.json"\n')
    async with McpProcess(cwd=user.project, home=user.home) as client:
        result = await client.call_tool("codex", arguments)
        assert "isError" not in result, result
        assert result["structuredContent"].get("output") == (values if schema else None)


async def play(user: User, name: str, script: str) -> None:
    (user.project / name).write_text(script)
    (user.home / "config.toml").write_text(f'model_provider = "scripted"\n[understudy]\nscripted_model = "{name}"\n')
    await converse(user)


async def converse(user: User) -> None:
    """A server with that configuration answers a call, and complains of nothing."""
    async with McpProcess(cwd=user.project, home=user.home) as client:
        result = await client.call_tool("codex", prompt="hello", config={"model_provider": "scripted"})
        assert text_of(result)
        assert "isError" not in result, result
        assert client.stderr == ""


# -- Python


@pytest.mark.parametrize("block", [block for block in all_blocks() if block.language == "python"], ids=named)
def test_a_python_block_is_python(block: Block) -> None:
    compile(block.text, block.name, "exec")


def imports(block: Block) -> set[str]:
    nodes = list(ast.walk(ast.parse(block.text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names


SCRIPTS = [block for block in blocks("python") if block.page.name not in TRIED_ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in SCRIPTS if imports(block) <= {"mcp"}], ids=named)
def test_a_python_block_runs_against_the_scripted_model(user: User, block: Block) -> None:
    done = user.run([sys.executable, "-c", block.text], env={"PYTHONWARNINGS": "error", "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("A word from the script.") == 2, done.stdout


FRAMEWORKS = {
    "agents": ("openai-agents==0.24.0",),
    "langchain": ("langchain==1.4.7", "langchain-mcp-adapters==0.3.2", "langchain-openai==1.7.3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in SCRIPTS if not imports(block) <= {"mcp"}], ids=named)
def test_a_python_block_of_a_framework_runs_with_it(user: User, block: Block) -> None:
    """The framework's own model is a stand-in over HTTP: it calls our tool, and is given what we answered."""
    requirements = next(needed for name, needed in FRAMEWORKS.items() if name in imports(block))
    with caller_model() as model:
        env = {"OPENAI_BASE_URL": model.url, "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        done = user.run([str(python_with(*requirements)), "-c", block.text], env=env)
    assert done.returncode == 0, done.stderr
    assert "All done." in done.stdout
    assert "A word from the script." in model.told
    assert "codex-reply" in model.outputs, "its model is told how to continue the session"


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("js"), ids=named)
def test_a_javascript_block_runs(user: User, block: Block) -> None:
    (user.project / "node_modules").symlink_to(node_with("@modelcontextprotocol/sdk@1.32.2") / "node_modules")
    (user.project / "page.mjs").write_text(block.text)
    done = user.run(["node", "page.mjs"])
    assert done.returncode == 0, done.stderr
    assert "A word from the script." in done.stdout
