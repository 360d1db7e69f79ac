"""Which folders the user trusts. Until one is, its own `.codex/` and `.mcp.json` change nothing. Reads and writes a file.

Trust belongs to the real path of the one folder and to what its files said at the time: it is not inherited by folders
below, does not follow a `.git` file to another repository, and ends when those files change.
"""

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from understudy.config.own_files import OwnFiles, read_own_files
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
        with _locked(self.file):
            self._write({**self._read(), real: digest})
        return Path(real)

    def distrust(self, folder: Path) -> bool:
        """False where it was not trusted."""
        real = os.path.realpath(folder)
        with _locked(self.file):
            trusted = self._read()
            if trusted.pop(real, None) is None:
                return False
            self._write(trusted)
        return True

    def folders(self) -> tuple[str, ...]:
        return tuple(sorted(self._read()))

    def _read(self) -> dict[str, str]:
        try:
            descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"cannot read {self.file}: {error.strerror}") from None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise ConfigError(f"{self.file} could have been written by others. Expected a file of your own with mode 0600")
            raw = file.read()
        try:
            trusted = json.loads(raw)["trusted"]
        except (ValueError, KeyError, TypeError):
            trusted = None
        if not isinstance(trusted, dict):
            raise ConfigError(
                f'{self.file} is not understood. Expected {{"trusted": {{FOLDER: FINGERPRINT}}}}; remove it to trust nothing'
            )
        return {str(folder): str(mark) for folder, mark in cast(dict[object, object], trusted).items()}

    def _write(self, trusted: Mapping[str, str]) -> None:
        beside = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"trusted": dict(sorted(trusted.items()))}, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.file)


def _project_level(real: str, projects: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The strictest word of the user's table on this folder."""
    levels = {
        table.get("trust_level") for path, table in projects.items() if os.path.isabs(path) and os.path.realpath(path) == real
    }
    return next((level for level in ("untrusted", "trusted") if level in levels), None)


@contextmanager
def _locked(file: Path) -> Generator[None]:
    """One writer at a time. The lock goes with the process."""
    import fcntl

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
