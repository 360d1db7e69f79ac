"""Environments of other people's clients, installed once at their pinned versions and kept between runs.

They lie in `$UNDERSTUDY_TEST_CACHE`, by default in the user's cache folder. One that was not completed is made anew.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 300
# as npm says it
UNREACHABLE = r"\b(EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ETIMEDOUT|ERR_SOCKET_TIMEOUT)\b"


def cache_folder() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy-tests"
    return Path(os.environ.get("UNDERSTUDY_TEST_CACHE") or default)


def python_with(*requirements: str) -> Path:
    """The interpreter of an environment of its own with these packages."""

    def install(folder: Path) -> None:
        if uv := _uv():
            _run([uv, "venv", "--python", sys.executable, str(folder)])
            _run([uv, "pip", "install", "--python", str(folder / "bin" / "python"), *requirements])
        else:
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements])

    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return _installed([version, *requirements], install) / "bin" / "python"


def wheels_of(*requirements: str) -> Path:
    """A folder of wheels with all that these need: an index of one's own, which is always warm."""

    def download(folder: Path) -> None:
        _run([str(python_with("pip")), "-m", "pip", "download", "--quiet", "--only-binary=:all:", "-d", str(folder), *requirements])

    return _installed([f"wheels{sys.version_info.major}.{sys.version_info.minor}", *requirements], download)


def _uv() -> str | None:
    """An installed one; on a bare Debian, where there is no pip, the one that set up this checkout."""
    own = ROOT / ".uv" / "bin" / "uv"
    return shutil.which("uv") or (str(own) if find_spec("ensurepip") is None and own.exists() else None)


def node_with(*packages: str) -> Path:
    """A folder in which Node finds these packages. Skips the test where there is no Node, or no way to the packages."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node and npm are not installed, so the JavaScript clients cannot be run (apt-get install nodejs npm)")

    def install(folder: Path) -> None:
        folder.mkdir()
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        try:
            _run(["npm", "install", "--no-fund", "--no-audit", "--save-exact", *packages], cwd=folder)
        except AssertionError as failed:
            if re.search(UNREACHABLE, str(failed)):
                pytest.skip("npm cannot reach its registry, so the JavaScript clients cannot be installed")
            raise

    return _installed(["node", *packages], install)


def _installed(key: Sequence[str], install: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / f"{key[0]}-{digest}"
    with open(cache / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once
        done = place / ".installed"
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            install(place)  # in its place: environments do not survive being moved
            done.write_text("\n".join(key))
    return place


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed\n{done.stdout}\n{done.stderr}"
