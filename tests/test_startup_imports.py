"""What is imported before a server has answered `initialize`: little, and nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}

LIST_TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

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

# A newcomer is added here on purpose, or it is moved off the way to the first answer.
STANDARD_LIBRARY = frozenset(
    [
        "collections",
        "contextlib",
        "copyreg",
        "enum",
        "functools",
        "itertools",
        "json",
        "keyword",
        "operator",
        "re",
        "reprlib",
        "sre",
        "types",
        "typing",
        "warnings",
    ]
)
OURS = {"understudy"} | {
    f"understudy.{name}" for name in ("cli", "cli.main", "servers", "servers.mcp", "servers.mcp.first", "servers.mcp.hello")
}


def test_only_a_few_light_modules_are_loaded_before_initialize_is_answered(tmp_path: Path) -> None:
    bare = _run("import sys; sys.stderr.write('\\n'.join(sys.modules) + '\\0')", tmp_path)
    loaded = _run(PROGRAM, tmp_path) - bare
    new = {name for name in loaded - OURS if name.split(".")[0].lstrip("_") not in STANDARD_LIBRARY}
    assert new - set(sys.builtin_module_names) == set()
    assert "understudy.servers.mcp.first" in loaded


def test_a_server_that_lists_its_tools_has_nothing_heavy_loaded(tmp_path: Path) -> None:
    assert _run(WHOLE_PROGRAM, tmp_path) & HEAVY == set()


def _run(program: str, cwd: Path) -> set[str]:
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in (INITIALIZE, LIST_TOOLS))
    done = subprocess.run([sys.executable, "-c", program], input=lines, capture_output=True, cwd=cwd, timeout=30, check=False)
    names, end, rest = done.stderr.decode().partition("\0")
    assert end, f"the program did not say what it loaded: {done.stderr.decode()}"
    assert not rest
    return set(names.split("\n"))
