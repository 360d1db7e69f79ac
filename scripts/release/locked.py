"""What the lock says is installed beside the program: exact versions, with the digest of every file."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from scripts.release.running import ROOT

PACKAGE = "understudy-codex"
EXTRAS = ("chat", "http", "images", "keyring", "mcp", "oauth", "postgres", "telemetry")  # `testing` is for those who write clients
NOT_HERE = ("sys_platform == 'win32'", "sys_platform == 'emscripten'", "os_name == 'nt'", "platform_system == 'Windows'")


@dataclass(frozen=True)
class Locked:
    name: str
    version: str
    needs: tuple[str, ...]  # names
    sdist: tuple[str, str] | None  # address, sha256
    files: tuple[tuple[str, str], ...]

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"


def installed_with(extras: Sequence[str] = ()) -> list[Locked]:
    """All that an install has beside us, by name. What only Windows or a browser needs is left out."""
    known = _read_lock()
    found: dict[str, Locked] = {}
    waiting = [*_needed(known[PACKAGE], extras)]
    while waiting:
        name, wanted = waiting.pop()
        needs = list(_needed(known[name], wanted))
        if name not in found:
            found[name] = _locked(known[name], needs)
            waiting += needs
        elif more := [each for each in needs if each[0] not in found[name].needs]:  # named once more, with an extra
            found[name] = _locked(known[name], [*((each, ()) for each in found[name].needs), *more])
            waiting += more
    return [found[name] for name in sorted(found)]


@cache
def _read_lock() -> dict[str, Any]:
    return {each["name"]: each for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}


def _needed(package: dict[str, Any], extras: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    optional: dict[str, Any] = package.get("optional-dependencies", {})
    for need in (*package.get("dependencies", ()), *(need for extra in extras for need in optional.get(extra, ()))):
        marker = need.get("marker", "")
        if " or " in marker or not any(word in marker for word in NOT_HERE):
            wanted = need.get("extra", ())
            yield need["name"], (wanted,) if isinstance(wanted, str) else tuple(wanted)


def _locked(package: dict[str, Any], needs: Sequence[tuple[str, Sequence[str]]]) -> Locked:
    files = tuple((str(file["url"]), _digest(file)) for file in package.get("wheels", ()))
    sdist = package.get("sdist")
    source = (str(sdist["url"]), _digest(sdist)) if sdist else None
    return Locked(package["name"], package["version"], tuple(sorted({name for name, _ in needs})), source, files)


def _digest(file: dict[str, Any]) -> str:
    return str(file["hash"]).removeprefix("sha256:")
