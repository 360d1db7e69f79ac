"""A person installs it by each of the ways that are documented, gets an answer, upgrades, and uninstalls.

The index is a folder, and everything else is new: home, cache, tools. So is what a first start costs.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.archives import ROOT, build, copy_sources, installer
from tests.support.environments import wheels_of
from understudy import __version__

BEFORE = "0.0.1"  # the same sources as an earlier version
COMMAND_SECONDS = 120
FIRST_ANSWER_SECONDS = 15  # 3 to 5 when this was written, on two busy cores
MOST_BYTES = 40_000_000  # installed, without the interpreter
PACKAGE = "understudy-codex"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("archives")]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of an earlier version and of this one."""
    folder = tmp_path_factory.mktemp("releases")
    wheels: dict[str, Path] = {}
    for version in (BEFORE, __version__):
        wheels[version], _ = build(copy_sources(folder / f"sources-{version}", version), folder / version)
    return wheels


@dataclass
class Machine:
    """A person's home, where nothing of ours is, and an index of packages in a folder."""

    home: Path
    index: Path

    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.home}/.local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "UV_DEFAULT_INDEX": self.index.as_uri(),
            "UV_PYTHON": sys.executable,
            "PIP_INDEX_URL": self.index.as_uri(),
            "PIP_CONFIG_FILE": os.devnull,
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }

    def publish(self, wheel: Path) -> None:
        """As a page for each package, which lists its files (PEP 503)."""
        page = self.index / wheel.name.split("-")[0].replace("_", "-").replace(".", "-").lower() / "index.html"
        page.parent.mkdir(exist_ok=True)
        with page.open("a") as lines:
            lines.write(f'<a href="{wheel.as_uri()}">{wheel.name}</a><br>\n')

    def call(self, *command: str, code: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=self.home / "project",
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def finds(self, name: str) -> str | None:
        return shutil.which(name, path=self.env()["PATH"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    index = tmp_path / "index"
    index.mkdir()
    home = tmp_path / "home"
    for folder in (home / "project", home / ".codex"):
        folder.mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text('model_provider = "scripted"\n')
    machine = Machine(home, index)
    for wheel in wheels_of(*requirements()).glob("*.whl"):
        machine.publish(wheel)
    return machine


def requirements() -> list[str]:
    named: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return [*named, "pip"]  # which pipx wants to have anew


def answers(machine: Machine, program: str) -> None:
    assert "scripted model" in machine.call(program, "exec", "--skip-git-repo-check", "hi")


def conversations(machine: Machine) -> list[str]:
    return [each["conversation_id"] for each in json.loads(machine.call("understudy", "conversations", "--json"))]


def found_by_doctor(machine: Machine) -> dict[str, str]:
    report = json.loads(machine.call("understudy", "doctor", "--json"))
    assert report["ok"]
    return {finding["name"]: finding["text"] for finding in report["findings"]}


WAYS = {
    "uv tool": (
        lambda: [installer("uv"), "tool", "install", PACKAGE],
        lambda: [installer("uv"), "tool", "upgrade", PACKAGE],
        lambda: [installer("uv"), "tool", "uninstall", PACKAGE],
    ),
    "pipx": (
        lambda: [installer("pipx"), "install", PACKAGE],
        lambda: [installer("pipx"), "upgrade", PACKAGE],
        lambda: [installer("pipx"), "uninstall", PACKAGE],
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_it_is_installed_upgraded_and_uninstalled_and_conversations_stay(
    way: tuple[Callable[[], list[str]], ...], machine: Machine, releases: dict[str, Path]
) -> None:
    install, upgrade, uninstall = way
    machine.publish(releases[BEFORE])
    machine.call(*install())
    for name in ("understudy", "understudy-codex"):
        assert BEFORE in machine.call(name, "--version")
    answers(machine, "understudy")
    [before] = conversations(machine)

    assert found_by_doctor(machine)["extras"].startswith("installed: none; not installed: chat, ")

    machine.publish(releases[__version__])
    machine.call(*upgrade())
    for name in ("understudy", "understudy-codex"):
        assert __version__ in machine.call(name, "--version")
    assert conversations(machine) == [before]
    answers(machine, "understudy-codex")
    assert len(conversations(machine)) == 2
    assert installed_bytes(machine) <= MOST_BYTES
    assert found_by_doctor(machine)["uninstalling"].startswith(f"leaves {machine.home}/.codex/understudy, ")

    machine.call(*uninstall())
    assert (machine.finds("understudy"), machine.finds("understudy-codex")) == (None, None)
    left = [path for path in machine.home.rglob("*") if "understudy" in path.name and path.is_dir()]
    assert [str(path.relative_to(machine.home)) for path in left if ".cache" not in path.parts] == [".codex/understudy"]


def installed_bytes(machine: Machine) -> int:
    """What the packages take; links to the interpreter are not followed. pip compiles what it installs, uv does not."""
    program = machine.finds("understudy")
    assert program is not None
    environment = Path(program).resolve().parents[1]
    sizes = {path: path.lstat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink()}
    assert len(sizes) > 500
    return sum(sizes.values())


def test_uvx_gives_a_first_answer_where_nothing_was_before(machine: Machine, releases: dict[str, Path]) -> None:
    machine.publish(releases[__version__])
    began = time.monotonic()
    said = machine.call(installer("uvx"), PACKAGE, "exec", "--skip-git-repo-check", "hi")
    seconds = time.monotonic() - began
    assert "scripted model" in said
    assert seconds <= FIRST_ANSWER_SECONDS
    assert machine.finds("understudy") is None
    assert __version__ in machine.call(installer("uvx"), "--from", PACKAGE, "understudy", "--version")


def test_hooks_run_where_no_extra_is_installed(machine: Machine, releases: dict[str, Path]) -> None:
    machine.publish(releases[__version__])
    machine.call(*WAYS["uv tool"][0]())
    hook = {"hooks": [{"type": "command", "command": f"touch {machine.home}/it-ran"}]}
    (machine.home / ".codex" / "hooks.json").write_text(json.dumps({"hooks": {"SessionStart": [hook]}}))
    answers(machine, "understudy")
    assert (machine.home / "it-ran").exists()


def test_a_version_that_is_not_there_is_not_upgraded_to(machine: Machine, releases: dict[str, Path]) -> None:
    machine.publish(releases[__version__])
    machine.call(*WAYS["uv tool"][0]())
    machine.call(*WAYS["uv tool"][1]())
    assert __version__ in machine.call("understudy", "--version")
    machine.call(installer("uv"), "tool", "install", f"{PACKAGE}==9.9.9", code=1)
    answers(machine, "understudy")
