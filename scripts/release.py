"""Builds wheel and sdist into `dist`, tries both in fresh environments, and writes the notes from CHANGELOG.md.

Run by `make release`. Nothing is published: what to do with the files is said at the end.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
UNRELEASED = "not released yet"
NEVER_PACKED = (".git/", ".venv/", ".env", "auth.json", "credentials.json")
NOT_IN_WHEELS = ("tests/", "benchmarks/", "docs/")
NEEDED = ("understudy/cli/main.py", "understudy/engine/instructions.md")
LONGEST = 600.0  # seconds for one step


def main() -> None:
    version = version_of(ROOT / "pyproject.toml")
    heading, notes = notes_for(version, (ROOT / "CHANGELOG.md").read_text())
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        work = Path(folder)
        wheel, sdist = build(work)
        check_wheel(wheel)
        check_sdist(sdist)
        for archive in (wheel, sdist):
            try_out(archive, version, work / archive.suffix.strip("."))
    (DIST / f"notes-{version}.md").write_text(notes)
    say(f"dist has {wheel.name}, {sdist.name} and notes-{version}.md")
    if UNRELEASED in heading:
        say(f"CHANGELOG.md still says “{UNRELEASED}” for {version}: put the date there, and run this again, before it is tagged")
    say(f"to publish: git tag v{version}, then upload the two archives with uv publish or twine")


def version_of(pyproject: Path) -> str:
    return str(tomllib.loads(pyproject.read_text())["project"]["version"])


def notes_for(version: str, changelog: str) -> tuple[str, str]:
    """The heading of a version, and what stands under it."""
    found = re.search(rf"^## ({re.escape(version)}(?![\w.])[^\n]*)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[2].strip():
        raise SystemExit(f"release: CHANGELOG.md has no notes for {version}")
    return found[1], f"# understudy {version}\n\n{found[2].strip()}\n"


def build(work: Path) -> tuple[Path, Path]:
    uv = shutil.which("uv")
    if uv is not None and run([uv, "build", "--quiet", "--out-dir", str(DIST)], must=False):
        say("built with uv")
    else:
        python = new_environment(work / "build")
        run([str(python), "-m", "pip", "install", "--quiet", "hatchling"])
        run([str(python), "-m", "hatchling", "build", "-d", str(DIST)])
    [wheel], [sdist] = list(DIST.glob("*.whl")), list(DIST.glob("*.tar.gz"))
    return wheel, sdist


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        check_names(wheel, archive.namelist(), NEEDED, (*NEVER_PACKED, *NOT_IN_WHEELS))


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    ours = [name for name in names if not name.startswith("tests/")]  # which have made-up secrets
    check_names(sdist, ours, [f"src/{name}" for name in NEEDED], NEVER_PACKED)


def check_names(archive: Path, names: Sequence[str], needed: Sequence[str], never_packed: Sequence[str]) -> None:
    for name in names:
        if any(name.startswith(never) or f"/{never}" in name for never in never_packed):
            raise SystemExit(f"release: {archive.name} holds {name}, which does not belong there")
    if missing := [name for name in needed if name not in names]:
        raise SystemExit(f"release: {archive.name} lacks {missing[0]}")


def try_out(archive: Path, version: str, folder: Path) -> None:
    """Install it where nothing else is, and have it answer without a key and without a network."""
    uvx = shutil.which("uvx")
    if uvx is not None and run([uvx, "--from", str(archive), "understudy", "--version"], must=False):
        say(f"uvx runs {archive.name}")
    python = new_environment(folder)
    run([str(python), "-m", "pip", "install", "--quiet", str(archive)])
    program = str(python.with_name("understudy"))
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    (home / "config.toml").write_text('model_provider = "scripted"\n')
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "CODEX_HOME": str(home)}
    for words, wanted in ((["--version"], version), (["exec", "--skip-git-repo-check", "hi"], "scripted model")):
        done = subprocess.run(
            [program, *words],
            cwd=project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        if done.returncode != 0 or wanted not in done.stdout:
            raise SystemExit(f"release: `understudy {' '.join(words)}` of {archive.name} failed:\n{done.stdout}{done.stderr}")
    say(f"{archive.name} works in a fresh environment")


def new_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def run(command: list[str], *, must: bool = True) -> bool:
    done = subprocess.run(command, cwd=ROOT, timeout=LONGEST, check=False)
    if done.returncode != 0 and must:
        raise SystemExit(f"release: {' '.join(command[:4])} … failed with {done.returncode}")
    return done.returncode == 0


def say(text: str) -> None:
    print(f"release: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
