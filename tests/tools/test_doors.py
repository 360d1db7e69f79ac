"""A tool reaches files and programs only through policy: by `ToolContext`, or by one of the few modules that stand behind it."""

import ast
from pathlib import Path

import pytest

import understudy.tools

FOLDER = Path(understudy.tools.__file__).parent

# These judge before they act, or are only reached by what was judged. Whoever adds one has to show that in a test.
DOORS = {
    "registry.py": "reads our own descriptions",
    "named.py": "looks which folders are there, to find what a command may run",
    "ground.py": "fingerprints what a command stands on, for the question",
    "shell.py": "makes the conversation's own temporary folder",
    "still.py": "locks files of our own state folder, never the model's",
    "patch/door.py": "the one door for changes to files",
    "patch/commit.py": "writes what the door has judged",
    "patch/paths.py": "finds the real place of a path, for the door",
    "patch/plan.py": "reads what the door has opened",
    "patch/repositories.py": "looks whether a patch would complete a repository, for the door",
    "patch/turn_diff.py": "looks for the repository that a changed file is in",
}
FORBIDDEN_MODULES = {"subprocess", "shutil", "socket", "urllib", "http", "glob", "tempfile", "pathlib", "asyncio.subprocess"}
HARMLESS_OF_OS = {"path", "fsencode", "fsdecode", "sep", "linesep", "environ", "getpid", "strerror", "PathLike"}
LOOKING = {"exists", "isfile", "isdir", "islink", "lexists", "getsize", "getmtime", "realpath", "samefile"}


def reaches_out(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
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


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_tool_touches_neither_files_nor_programs_by_itself(path: Path) -> None:
    name = str(path.relative_to(FOLDER))
    found = [] if name in DOORS else reaches_out(path)
    assert not found, f"{name} uses {found}: go through ToolContext and policy (CONTRIBUTING.md, 'A tool for the model')"


def test_a_toy_that_reads_a_file_would_be_found(tmp_path: Path) -> None:
    toy = tmp_path / "toy.py"
    for text in (
        "open('/x')",
        "import os\nos.open('/x', 0)",
        "from pathlib import Path\nPath('/x').read_text()",
        "import subprocess",
    ):
        toy.write_text(text)
        assert reaches_out(toy)


def test_every_door_is_there() -> None:
    assert [name for name in DOORS if not (FOLDER / name).exists()] == []
