"""Which folders the user trusts. Until one is, its own `.codex/` and `.mcp.json` change nothing. Reads and writes a file.

Trust belongs to the real path of the one folder and to what its files said at the time: it is not inherited by folders
below, does not follow a `.git` file to another repository, and ends when those files change.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from understudy.config.own_files import OwnFiles, read_own_files
from understudy.config.private_file import PrivateFile
from understudy.errors import ConfigError

Standing = Literal["trusted", "changed", "unknown"]


class Judged(msgspec.Struct, frozen=True):
    standing: Standing  # `changed`: trusted once, but the folder's own files are not those any more
    files: OwnFiles | None = None  # of a trusted folder: the very bytes that were judged


class TrustStore(msgspec.Struct, frozen=True):
    """`trust.json` of our state folder."""

    file: Path

    def judge(self, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> Judged:
        """`projects` is the table of the same name in the user's configuration. `trust_level = "trusted"` there counts whatever
        the files say; `"untrusted"` wins over everything.
        """
        real = os.path.realpath(folder)
        level = _project_level(real, projects or {})
        if level == "untrusted":
            return Judged("unknown")
        trusted = self._read().get(real)
        if trusted is None and level is None:
            return Judged("unknown")
        try:
            files = read_own_files(Path(real))
        except ConfigError:
            return Judged("changed")  # it could be read when it was trusted
        return Judged("trusted", files) if level == "trusted" or files.digest == trusted else Judged("changed")

    def standing(self, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> Standing:
        return self.judge(folder, projects).standing

    def trust(self, folder: Path) -> Path:
        """Trust the folder as it is now; return its real path. Raises `ConfigError` where there is no such folder."""
        real = os.path.realpath(folder)
        if not os.path.isdir(real):
            raise ConfigError(f"cannot trust {folder}: it is not a folder")
        digest = read_own_files(Path(real)).digest
        with PrivateFile(self.file).locked():
            self._write({**self._read(), real: digest})
        return Path(real)

    def distrust(self, folder: Path) -> bool:
        """False where it was not trusted."""
        real = os.path.realpath(folder)
        with PrivateFile(self.file).locked():
            trusted = self._read()
            if trusted.pop(real, None) is None:
                return False
            self._write(trusted)
        return True

    def folders(self) -> tuple[str, ...]:
        return tuple(sorted(self._read()))

    def _read(self) -> dict[str, str]:
        content = PrivateFile(self.file).read()
        if content is None:
            return {}
        trusted = content.get("trusted")
        if not isinstance(trusted, dict):
            raise ConfigError(
                f'{self.file} is not understood. Expected {{"trusted": {{FOLDER: FINGERPRINT}}}}; remove it to trust nothing'
            )
        return {str(folder): str(mark) for folder, mark in cast(dict[object, object], trusted).items()}

    def _write(self, trusted: Mapping[str, str]) -> None:
        PrivateFile(self.file).write({"trusted": dict(sorted(trusted.items()))})


def _project_level(real: str, projects: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The strictest word of the user's table on this folder."""
    levels = {
        table.get("trust_level") for path, table in projects.items() if os.path.isabs(path) and os.path.realpath(path) == real
    }
    return next((level for level in ("untrusted", "trusted") if level in levels), None)
