"""Wheels and sdists of these sources, made by the builder that pyproject.toml pins, as other people's builds are made."""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.support.environments import ROOT, python_with

BUILD_SECONDS = 120
INSTALLERS = ("uv==0.13.8", "pipx==1.18.4", "pip")
OF_A_BUILD = ("src", "docs", "pyproject.toml", "README.md", "LICENSE", ".gitignore")


def builder() -> Path:
    """The interpreter that has the pinned builder."""
    [pinned] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["build-constraint-dependencies"]
    return python_with(pinned)


def installer(name: str) -> str:
    """The program `uv`, `uvx` or `pipx`."""
    return str(python_with(*INSTALLERS).with_name(name))


def copy_sources(folder: Path, version: str | None = None) -> Path:
    """What a build reads, in another folder; perhaps as another version."""
    folder.mkdir(parents=True)
    for name in OF_A_BUILD:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
        else:
            shutil.copyfile(ROOT / name, folder / name)
    if version is not None:
        for file, before in (("pyproject.toml", "version = "), ("src/understudy/__init__.py", "__version__ = ")):
            lines = (folder / file).read_text().splitlines()
            changed = [f'{before}"{version}"' if line.startswith(before) else line for line in lines]
            (folder / file).write_text("\n".join(changed) + "\n")
    return folder


def build(sources: Path, into: Path, env: Mapping[str, str] | None = None, umask: int = 0o022) -> tuple[Path, Path]:
    """The wheel and the sdist of a folder."""
    command = [str(builder()), "-m", "hatchling", "build", "-d", str(into)]
    done = subprocess.run(
        command,
        cwd=sources,
        env={**os.environ, **(env or {})},
        umask=umask,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = list(into.glob("*.whl")), list(into.glob("*.tar.gz"))
    return wheel, sdist
