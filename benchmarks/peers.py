"""The peers: upstream's programs, from npm, in a folder outside the repository."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from benchmarks.servers import ServerSpec, last, newest, seed

INSTALL_SECONDS = 600
SEED_VERSION, LAST_VERSION, NEWEST_VERSION = "0.20.0", "0.153.4", "0.169.0"
OPENCODE_VERSION, CLAUDE_VERSION = "1.18.33", "2.1.327"


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "understudy-benchmarks"


def find_peers(folder: Path) -> list[ServerSpec]:
    """Install what is not there yet. Raises `RuntimeError` with a word on what is missing."""
    return [
        seed(_binary(folder / SEED_VERSION, SEED_VERSION, "codex-*-linux-musl")),
        last(_binary(folder / LAST_VERSION, LAST_VERSION, "codex")),
    ]


def find_last_codex(folder: Path) -> Path:
    """Its program, installed where it is not there yet. Raises `RuntimeError`, like `find_peers`."""
    return _binary(folder / LAST_VERSION, LAST_VERSION, "codex")


def find_opencode(folder: Path) -> Path:
    """The same for opencode, which has no part in the other comparisons."""
    program = Path(f"opencode-linux-{_node_machine()}") / "bin" / "opencode"
    return _program(folder / f"opencode-{OPENCODE_VERSION}", f"opencode-ai@{OPENCODE_VERSION}", program)


def find_claude(folder: Path) -> Path:
    """The same for Claude Code."""
    package = "@anthropic-ai/claude-code"
    program = Path(f"{package}-linux-{_node_machine()}") / "claude"
    return _program(folder / f"claude-code-{CLAUDE_VERSION}", f"{package}@{CLAUDE_VERSION}", program)


def _node_machine() -> str:
    return {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _program(folder: Path, package: str, path: Path) -> Path:
    """That native program of a package, `path` among its modules; installed where it is not there yet."""
    program = folder / "node_modules" / path
    if not program.exists():
        _install(folder, package)
    if not program.exists():
        raise RuntimeError(f"no program for this machine ({platform.machine()}) in {package}, looked for {program}")
    return program


def find_exec_peers(folder: Path) -> list[ServerSpec]:
    """The same for `exec`."""
    return [newest(_binary(folder / NEWEST_VERSION, NEWEST_VERSION, "codex"))]


def _binary(folder: Path, version: str, pattern: str) -> Path:
    found = _search(folder, pattern)
    if found is None:
        _install(folder, f"@openai/codex@{version}")
        found = _search(folder, pattern)
    if found is None:
        raise RuntimeError(f"no program for this machine ({platform.machine()}) in @openai/codex@{version}, looked in {folder}")
    return found


def _search(folder: Path, pattern: str) -> Path | None:
    """A native program, not the script that starts it."""
    machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for path in sorted(folder.glob(f"node_modules/@openai/**/{pattern}")):
        if machine in str(path) and path.is_file() and os.access(path, os.X_OK) and _is_native(path):
            return path
    return None


def _is_native(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _install(folder: Path, package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is needed to install the peers, and is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"installing {package} into {folder}", flush=True)
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"npm could not install {package}: {done.stderr.strip()[-500:]}")
