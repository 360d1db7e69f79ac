"""What is imported before a server has answered `initialize`, and before it asks a model: little, and nothing heavy."""

import json
import os
import subprocess
import sys
from pathlib import Path

from understudy.testing.waiting import WAIT_SECONDS

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}

LIST_TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

BARE = "import sys; sys.stderr.write('\\n'.join(sys.modules) + '\\0')"

# The real program, with one ear on its first write to standard output.
PROGRAM = """
import os, sys
real = os.write
def write(fd, data):
    if fd == 1:
        os.write = real
        real(2, "\\n".join(sys.modules).encode() + b"\\0")
        real(1, data)
        os._exit(0)
    return real(fd, data)
os.write = write
sys.argv = ["understudy", "mcp-server"]
from understudy.cli.main import main
main()
"""

# The real program; it ends with its input.
WHOLE_PROGRAM = """
import os, sys
sys.argv = ["understudy", "mcp-server"]
from understudy.cli.main import main
main()
os.write(2, "\\n".join(sys.modules).encode() + b"\\0")
"""

HEAVY = {"aiohttp", "anyio", "argparse", "email", "http", "httpx", "mcp", "multiprocessing", "pydantic", "rich", "urllib.request"}

# The real program, until it asks a model for the first time. Its input does not end before that. It runs on asyncio's own event
# loop: uvloop connects without telling the interpreter.
PROGRAM_THAT_ASKS = """
import os, sys
sys.modules["uvloop"] = None
taken, given = os.pipe()
os.write(given, os.read(0, 65536))
os.dup2(taken, 0)
def hear(event, arguments):
    if event == "socket.connect":
        os.write(2, "\\n".join(sys.modules).encode() + b"\\0")
        os._exit(0)
sys.addaudithook(hear)
sys.argv = ["understudy", "mcp-server"]
from understudy.cli.main import main
main()
"""

CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "codex", "arguments": {"prompt": "hello"}}}
CONFIG = """
model = "m"
model_provider = "p"
[model_providers.p]
name = "p"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
"""

# Loaded when a tool is called, an argument is wrong, another wire is spoken, an error is told: all of it after the request.
# What asyncio, msgspec and pathlib import by themselves (`inspect`, `platform`, `urllib.parse`) is not in our hands.
DATACLASSES: set[str] = {"dataclasses"} if sys.version_info < (3, 14) else set()  # asyncio imports it from then on
NOT_BEFORE_A_REQUEST = (
    HEAVY
    | DATACLASSES
    | {
        "asyncio.windows_events",
        "concurrent.futures.process",
        "difflib",
        "random",
        "shlex",
        "shutil",
        "tempfile",
        "zlib",
        "understudy.engine.conversation.answering",
        "understudy.engine.conversation.compacting",
        "understudy.engine.ops.compacting",
        "understudy.engine.ops.deciding",
        "understudy.engine.ops.deleting",
        "understudy.engine.log.forking",
        "understudy.engine.ops.interrupting",
        "understudy.engine.services.notifying",
        "understudy.engine.turn.other_servers",
        "understudy.bench.runs_of_tests",
        "understudy.engine.conversation.stopping",
        "understudy.engine.turn.turn_tools",
        "understudy.models.wires.anthropic",
        "understudy.models.wires.chat",
        "understudy.net.unpacking",
        "understudy.models.scripted",
        "understudy.policy",
        "understudy.sandbox",
        "understudy.servers.mcp.conversation_tools",
        "understudy.servers.wire_events.modern_events",
        "understudy.store.sqlite.cursors",
        "understudy.store.sqlite.verify",
        "understudy.tools.acts",
        "understudy.tools.patch",
        "understudy.tools.commands",
    }
)

# Each module of ours takes 0.15 ms, whatever is in it, before anyone hears from a model. A newcomer that a plain first turn can do
# without is imported where it is used; for one that it needs, raise this.
MOST_OF_OURS = 193

# A newcomer is added here on purpose, or it is moved off the way to the first answer.
FOR_THE_BUNDLE = frozenset(["binascii", "importlib", "py_warnings", "warnings"])
STANDARD_LIBRARY = (
    FOR_THE_BUNDLE
    | frozenset(["json", "signal"])
    | frozenset(  # and what those need
        ["collections", "copyreg", "enum", "functools", "keyword", "operator", "re", "reprlib", "types"]
    )
)
MCP = {"servers", "servers.mcp", "servers.stdio", "servers.stdio.start", "servers.mcp.handshake"}
OURS = {"understudy"} | {f"understudy.{name}" for name in {"cli", "cli.bundle", "cli.main"} | MCP}


def test_only_a_few_light_modules_are_loaded_before_initialize_is_answered(tmp_path: Path) -> None:
    loaded = _run(PROGRAM, tmp_path) - _run(BARE, tmp_path)
    new = {name for name in loaded - OURS if name.split(".")[0].lstrip("_") not in STANDARD_LIBRARY}
    assert new - set(sys.builtin_module_names) == set()
    assert "understudy.servers.mcp.handshake" in loaded


def test_a_server_that_lists_its_tools_has_nothing_heavy_loaded(tmp_path: Path) -> None:
    assert _run(WHOLE_PROGRAM, tmp_path) & HEAVY == set()


def test_a_model_is_asked_before_tools_and_what_is_seldom_used_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    loaded = _run(PROGRAM_THAT_ASKS, tmp_path, CALL) - _run(BARE, tmp_path)
    assert loaded & NOT_BEFORE_A_REQUEST == set()
    assert {"understudy.models.wires.responses", "asyncio", "msgspec"} <= loaded
    assert len([name for name in loaded if name.startswith("understudy")]) <= MOST_OF_OURS


def _run(program: str, cwd: Path, said: object = LIST_TOOLS) -> set[str]:
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in (INITIALIZE, said))
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("proxy")} | {"CODEX_HOME": str(cwd)}
    done = subprocess.run(
        [sys.executable, "-c", program], input=lines, capture_output=True, cwd=cwd, env=env, timeout=WAIT_SECONDS, check=False
    )
    names, end, rest = done.stderr.decode().partition("\0")
    assert end, f"the program did not say what it loaded: {done.stderr.decode()}"
    assert not rest
    return set(names.split("\n"))


# The real program, until it asks a model.
EXEC_THAT_ASKS = PROGRAM_THAT_ASKS.replace("os.dup2(taken, 0)", "").replace(
    '"mcp-server"]', '"exec", "--json", "--skip-git-repo-check", "hello"]'
)


def test_exec_asks_a_model_before_what_people_tools_and_other_wires_need_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    loaded = _run(EXEC_THAT_ASKS, tmp_path) - _run(BARE, tmp_path)
    others = {"understudy.cli.commands", "understudy.servers.mcp"}
    assert loaded & (NOT_BEFORE_A_REQUEST | others) == set()
    assert {"understudy.cli.exec.events", "understudy.models.wires.responses"} <= loaded
