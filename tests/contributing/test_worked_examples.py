"""The worked examples of CONTRIBUTING.md: in a copy of the repository they build, pass their own tests, and break no rule."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks
from understudy.testing.waiting import WAIT_SECONDS

PAGE = ROOT / "CONTRIBUTING.md"
FILE = re.compile(r"# ((?:src|tests|docs)/\S+)\n")
COPIED = (
    *("src", "tests", "docs", "scripts", "pyproject.toml"),
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"),
)
RULES = ("tests/test_import_order.py", "tests/test_startup_imports.py")

# What else has to hold for each example.
EXAMPLES = {
    "Add a tool": ("tests/tools/test_what_tools_can_reach.py",),
    "Add a provider": ("tests/models/test_providers.py",),
    "Add an op": ("tests/test_house.py", "tests/engine/test_handle.py"),
    "Add a front door": ("tests/cli/test_commands.py", "tests/test_engine_border.py"),
}


def examples() -> dict[str, list[Block]]:
    """The blocks below each heading of the section, by heading."""
    found: dict[str, list[Block]] = {}
    headings = [(number, line[4:]) for number, line in enumerate(PAGE.read_text().splitlines(), 1) if line.startswith("### ")]
    for block in blocks("python", "diff"):
        if block.page == PAGE:
            found.setdefault([name for number, name in headings if number < block.line][-1], []).append(block)
    return found


def test_every_example_is_built() -> None:
    assert set(examples()) == set(EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_works_in_a_copy_of_the_repository(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    copy_repository(copy)
    written = [path for block in examples()[name] for path in put(block, copy)]
    tests = [path for path in written if path.startswith("tests/")]
    assert tests, "an example shows its test too"
    for words in (["check"], ["format", "--check"]):
        checked = run(copy, [sys.executable, "-m", "ruff", *words, *(path for path in written if path.endswith(".py"))])
        assert checked.returncode == 0, checked.stdout
    command = [sys.executable, "-m", "pytest", f"--basetemp={tmp_path / 'made'}"]
    done = run(copy, [*command, *tests, *RULES, *EXAMPLES[name]])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert counted(copy, tests) <= int(re.findall(r"(\d+) passed", done.stdout)[-1]), done.stdout


def copy_repository(copy: Path) -> None:
    copy.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, copy / name)


def put(block: Block, copy: Path) -> list[str]:
    """Write the file that a block is, or apply the patch that it is; the paths that are new or changed."""
    if block.language == "diff":
        command = [sys.executable, "-m", "understudy", "apply-patch"]
        done = run(copy, command, block.text)
        assert done.returncode == 0, f"{block.name}: {done.stderr}"
        return re.findall(r"^\*\*\* (?:Add|Update) File: (.+)$", block.text, re.MULTILINE)
    named = FILE.match(block.text)
    assert named, f"{block.name}: its first line says which file it is"
    path = copy / named[1]
    assert not path.exists(), f"{named[1]} is there already"
    path.write_text(block.text.removeprefix(named[0]))
    return [named[1]]


def counted(copy: Path, tests: Sequence[str]) -> int:
    """How many tests there are in files of an example."""
    nodes = [node for path in tests for node in ast.walk(ast.parse((copy / path).read_text()))]
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_") for node in nodes)


def run(copy: Path, command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=copy, env=env, input=given, capture_output=True, text=True, timeout=60 * WAIT_SECONDS, check=False
    )
