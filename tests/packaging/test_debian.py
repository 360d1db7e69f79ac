"""The Debian package: the same wheel gives the same bytes."""

import os
import shutil
from pathlib import Path

import pytest
from scripts.release.debian import package
from scripts.release.locked import installed_with

from tests.support.archives import build, copy_sources
from tests.support.environments import wheels_of
from understudy import __version__

MINOR = 11  # of the Python of Debian 12, which `system` makes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def made(version: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed: install the package dpkg")
    wheel, _ = build(copy_sources(folder / "sources", version), folder / "dist")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels_of(*(each.pin for each in installed_with()))))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return package(wheel, version, folder, folder / "work", MINOR)


def test_the_same_wheel_gives_the_same_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(__version__, tmp_path / "a", monkeypatch)
    before = os.umask(0o077)
    try:
        second = made(__version__, tmp_path / "elsewhere", monkeypatch)
    finally:
        os.umask(before)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
