"""The Debian package on a bare Debian: installed, run as a plain user, upgraded, removed, and nothing of it is left."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.release.debian import PLACE, package
from scripts.release.locked import installed_with

from tests.packaging.test_from_nothing import system
from tests.support.archives import build, copy_sources
from tests.support.environments import wheels_of
from understudy import __version__

MINOR = 11  # of the Python of Debian 12, which `system` makes
MOST_BYTES = 40_000_000
SECONDS = 300
LATER = "99.1"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
__all__ = ["system"]


def inside(system: Path, *command: str, code: int = 0) -> str:
    env = {"HOME": "/home/someone", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["chroot", str(system), *command],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def as_user(system: Path, command: str) -> str:
    return inside(system, "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "sh", "-c", f"cd ~ && {command}")


def made(version: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed: install the package dpkg")
    wheel, _ = build(copy_sources(folder / "sources", version), folder / "dist")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels_of(*(each.pin for each in installed_with()))))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return package(wheel, version, folder, folder / "work", MINOR)


def test_it_is_installed_run_upgraded_and_removed(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, later = (made(version, tmp_path / version, monkeypatch) for version in (__version__, LATER))
    for file in (now, later):
        shutil.copy(file, system / file.name)
    inside(system, "useradd", "--create-home", "--uid", "1000", "someone")
    before = {path for top in ("usr", "etc", "opt") for path in (system / top).rglob("*")}

    inside(system, "dpkg", "-i", f"/{now.name}")
    as_user(system, "mkdir .codex && echo 'model_provider = \"scripted\"' > .codex/config.toml")
    for name in ("understudy", "understudy-codex"):
        assert __version__ in as_user(system, f"{name} --version")
        assert "scripted model" in as_user(system, f"{name} exec --skip-git-repo-check hi")
    assert "# The first half hour" in as_user(system, "understudy help quickstart")
    files = [path for path in (system / PLACE).rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.suffix == ".pyc" for path in files)
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES

    inside(system, "dpkg", "-i", f"/{later.name}")
    assert LATER in as_user(system, "understudy --version")
    assert as_user(system, "understudy conversations --json").count("conversation_id") == 2

    inside(system, "dpkg", "--purge", "understudy-codex")
    after = {path for top in ("usr", "etc", "opt") for path in (system / top).rglob("*")}
    assert sorted(after - before) == []
    assert (system / "home/someone/.codex/understudy").is_dir()


def test_the_same_wheel_gives_the_same_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(__version__, tmp_path / "a", monkeypatch)
    before = os.umask(0o077)
    try:
        second = made(__version__, tmp_path / "elsewhere", monkeypatch)
    finally:
        os.umask(before)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
