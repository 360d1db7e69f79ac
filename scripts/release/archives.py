"""Wheel and sdist: built twice by the pinned builder, compared byte for byte, and refused where they hold or lack something."""

import shutil
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

from scripts.release.running import ROOT, run, say

NEVER_PACKED = (".git/", ".venv/", ".env", "auth.json", "credentials.json", "tests/", "benchmarks/", "scripts/")
NEEDED = ("understudy/cli/main.py", "understudy/engine/instructions.md")


def build(into: Path, work: Path) -> tuple[Path, Path]:
    """The archives, which a second build in another folder has made the same."""
    python = new_environment(work / "builder")
    run([str(python), "-m", "pip", "install", "--quiet", pinned_builder()])
    wheel, sdist = _build_once(python, ROOT, into)
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "again", filter="data")
    [sources] = (work / "again").iterdir()
    for first, second in zip((wheel, sdist), _build_once(python, sources, work / "again-dist"), strict=True):
        if first.read_bytes() != second.read_bytes():
            raise SystemExit(
                f"release: {first.name} differs when it is built again from the sdist: the sources do not decide its bytes"
            )
    say("a second build gives the same bytes")
    return wheel, sdist


def _build_once(python: Path, sources: Path, into: Path) -> tuple[Path, Path]:
    run([str(python), "-m", "hatchling", "build", "-d", str(into)], cwd=sources)
    [wheel], [sdist] = list(into.glob("*.whl")), list(into.glob("*.tar.gz"))
    return wheel, sdist


def pinned_builder() -> str:
    [pinned] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["build-constraint-dependencies"]
    return str(pinned)


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        check_names(wheel, archive.namelist(), NEEDED, NEVER_PACKED)


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    check_names(sdist, names, [f"src/{name}" for name in NEEDED], NEVER_PACKED)


def check_names(archive: Path, names: Sequence[str], needed: Sequence[str], never_packed: Sequence[str]) -> None:
    for name in names:
        if any(name.startswith(never) or f"/{never}" in name for never in never_packed):
            raise SystemExit(f"release: {archive.name} holds {name}, which does not belong there")
    if missing := [name for name in needed if name not in names]:
        raise SystemExit(f"release: {archive.name} lacks {missing[0]}")


def new_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def find_program(name: str) -> str | None:
    """One that is installed, or the one that set up this checkout."""
    own = ROOT / ".uv" / "bin" / name
    return shutil.which(name) or (str(own) if own.exists() else None)
