"""A tool reaches files, programs and people only through policy: it imports nothing that acts, and is handed nothing that does."""

import ast
import sys
from pathlib import Path

import pytest

import understudy
from understudy.tools.registry import TOOLS
from understudy.tools.tool import ToolContext

PACKAGE = Path(understudy.__file__).parent
FOLDER = PACKAGE / "tools"

# Beside the tools themselves: what hands them the acts, what the acts are given, and the list of tools.
NOT_TOOLS = {"tool.py", "host.py", "session.py", "registry.py", "__init__.py"}
TOOLS_AND_HELPERS = sorted(path for path in FOLDER.glob("*.py") if path.name not in NOT_TOOLS)

# All that a tool may import. What is missing here and only computes may be added.
_TEXT = {"base64", "difflib", "hashlib", "json", "re", "string", "textwrap", "unicodedata"}
HARMLESS = {*_TEXT, "collections", "dataclasses", "datetime", "enum", "functools", "itertools", "math", "msgspec", "typing"}
OURS = (
    "understudy.errors",
    "understudy.protocol",
    "understudy.text",
    *(f"understudy.tools.{name}" for name in ("calls", "output", "tool")),
)
_CODE = {"__builtins__", "__import__", "__loader__", "__spec__", "breakpoint", "compile", "eval", "exec"}
REACHING = {*_CODE, "delattr", "getattr", "globals", "locals", "open", "print", "setattr", "vars"}


def may_import(module: str) -> bool:
    return module.partition(".")[0] in HARMLESS or any(module == name or module.startswith(f"{name}.") for name in OURS)


def is_private(owner: ast.expr, name: str) -> bool:
    if name.startswith("__"):
        return name != "__name__"
    return name.startswith("_") and not (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def reached_by_a_tool(text: str) -> list[str]:
    """What in the source of a tool could get round `ToolContext`."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if not may_import(alias.name)]
            case ast.ImportFrom(level=level, module=module, names=names):
                said = "." * level + (module or "")
                wanted = [said] if said != "understudy.tools" else [f"{said}.{alias.name}" for alias in names]
                found += [name for name in wanted if level or not may_import(name)]
            case ast.Name(id=name, ctx=ast.Load()) if name in REACHING:
                found.append(name)
            case ast.Attribute(value=owner, attr=name) if is_private(owner, name):
                found.append(f".{name}")
            case _:
                pass
    return found


@pytest.mark.parametrize("path", TOOLS_AND_HELPERS, ids=lambda path: path.name)
def test_a_tool_has_nothing_at_hand_but_its_context(path: Path) -> None:
    found = reached_by_a_tool(path.read_text())
    assert not found, f"{path.name} uses {found}: go through ToolContext (CONTRIBUTING.md, 'Add a tool')"


def test_every_tool_is_looked_at() -> None:
    modules = {FOLDER / f"{entry.module.removeprefix('understudy.tools.')}.py" for entry in TOOLS}
    assert modules <= set(TOOLS_AND_HELPERS)


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd')",
        "import os",
        "import os.path",
        "from os import path",
        "from pathlib import Path",
        "import subprocess",
        "import asyncio",
        "import socket, json",
        "import importlib",
        "import ctypes",
        "import sys",
        "import io",
        "from understudy.sandbox.runner import Sandbox",
        "from understudy.places.reading import read_for_model",
        "from understudy.tools.acts.commands import run_command",
        "from understudy.tools import acts",
        "from understudy.tools import host",
        "from understudy.tools.patch.plan import apply_plan",
        "from .acts import commands",
        "from . import acts",
        "import understudy.engine.turn.turn",
        "import understudy.tools",
        "def run(self, call, context):\n    context._host.sandbox.run(None)",
        "def run(self, call, context):\n    return context._host.settings.environment",
        "def run(self, call, context):\n    return getattr(context, '_host')",
        "def run(self, call, context):\n    return context.run_command.__func__.__globals__",
        "def run(self, call, context):\n    return self.__class__",
        "__import__('os').system('x')",
        "eval('1')",
        "read = open",
        "vars(context)",
    ],
)
def test_a_tool_that_tries_to_act_unjudged_is_found(attempt: str) -> None:
    assert reached_by_a_tool(attempt)


def test_what_only_computes_is_no_attempt() -> None:
    imports = "import re\nfrom collections.abc import Iterator\nfrom understudy.protocol.items import FunctionCall\n"
    assert reached_by_a_tool(imports + "class A:\n    _x = 1\n    def f(self): return self._x\n") == []
    assert {name for name in HARMLESS if name not in sys.stdlib_module_names} == {"msgspec"}


def test_a_context_gives_judged_acts_and_nothing_else() -> None:
    """Whoever adds one shows in a test that it judges, asks and records before it acts."""
    public = {name for name in dir(ToolContext) if not name.startswith("_")}
    looking = {"list_files", "read_file", "read_lines", "search", "view_image"}
    running = {"run_command", "start_session", "write_input"}
    assert public == {"apply_patch", "edit_file", "show_plan", "ask_user", *looking, *running, "call_other_server", "use_resources"}
    assert ToolContext.__slots__ == ("_call_id", "_host")


def test_only_the_context_uses_the_acts() -> None:
    users = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if FOLDER / "acts" not in path.parents and "tools.acts" in path.read_text()
    ]
    by_a_person = ["engine/ops/undoing.py"]  # who wants a turn undone: no tool has a part in it
    by_a_person += ["engine/hooks/loading.py", "engine/hooks/running.py"]  # whose hooks they are: what trust covers of them
    by_a_person += ["engine/hooks/responses.py"]  # and a file that they are told of, as the tool has read it
    by_a_person += ["engine/hooks/of_conversation.py"]  # likewise, before each of them runs
    by_a_person += ["engine/workspaces/setup_commands.py"]  # who wants a new workspace, and says what is to run in it first
    by_a_person += ["engine/setup/programs.py"]  # whose programs the configuration starts: what they run is protected
    by_a_person += ["engine/turn/until.py"]  # who says by a command when a task is done: `exec --until`
    assert users == [*sorted(by_a_person), "tools/registry.py", "tools/tool.py"]  # the second loads them before they are needed


# -- behind the context

# These touch files, and are only reached by what was judged. Whoever adds one says here why it must.
TOUCH_FILES = {
    "registry.py": "reads our own descriptions",
    "acts/files.py": "reads what `places` has opened",
    "acts/look_worker.py": "reads what `places` has opened, in a process of its own",
    "acts/looking.py": "finds the conversation's own temporary folder, starts that process, and compares folders for editors",
    "acts/ripgrep.py": "hands files that `places` has opened to ripgrep, which is looked for outside the project",
    "acts/dependencies.py": "looks what a command may run, fingerprints that, and locks files of our own state folder",
    "acts/wildcards.py": "looks which names fit the wildcards of a command, to find what it may run",
    "acts/commands.py": "makes the conversation's own temporary folder",
    "mcp/http.py": "knows the state folder, where logins to other servers are kept",
    "mcp/servers.py": "hands that folder on",
    "mcp/login.py": "keeps logins to other servers in files of our own state folder",
    "mcp/stdio.py": "makes the pipe by which a server of the user's is spoken to",
    "patch/door.py": "the one door for changes to files",
    "patch/commit.py": "writes what the door has judged",
    "patch/paths.py": "finds the real place of a path, for the door",
    "patch/placement.py": "looks whether a patch would complete a repository, for the door",
    "patch/turn_diff.py": "looks for the repository that a changed file is in",
}
FORBIDDEN_MODULES = {"subprocess", "shutil", "socket", "urllib", "http", "glob", "tempfile", "pathlib", "asyncio.subprocess"}
HARMLESS_OF_OS = {"path", "fsencode", "fsdecode", "sep", "linesep", "environ", "getpid", "strerror", "PathLike"}
LOOKING = {"exists", "isfile", "isdir", "islink", "lexists", "getsize", "getmtime", "realpath", "samefile"}


def touches_files(text: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)) if module in FORBIDDEN_MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id="open")):
                found.append("open()")
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name not in HARMLESS_OF_OS and name.islower():
                found.append(f"os.{name}")
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=name) if name in LOOKING:
                found.append(f"os.path.{name}")
            case _:
                pass
    return found


def test_behind_the_context_only_a_few_files_touch_the_disk() -> None:
    found = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py") if touches_files(path.read_text())}
    assert found == set(TOUCH_FILES)
