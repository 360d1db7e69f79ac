"""Which folders the user trusts. Until one is, its own `.env`, `.codex/` and `.mcp.json` change nothing. Reads and writes a file.

Trust belongs to the real path of the one folder and to what its files said at the time: it is not inherited by folders
below, does not follow a `.git` file to another repository, and ends when those files change.
"""

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from understudy.errors import ConfigError

Standing = Literal["trusted", "changed", "unknown"]

OWN_FILES = (".env", ".mcp.json", ".codex")
_MAX_FILES = 2_000
_MAX_BYTES = 16 * 1024 * 1024


class TrustStore(msgspec.Struct, frozen=True):
    """`trust.json` of our state folder."""

    file: Path

    def standing(self, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> Standing:
        """`changed`: trusted once, but the folder's own files are not those any more.

        `projects` is the table of the same name in the user's configuration, where `trust_level = "trusted"` counts as well;
        it knows nothing of the files.
        """
        real = os.path.realpath(folder)
        trusted = self._read().get(real)
        if trusted is not None:
            return "trusted" if trusted == fingerprint(Path(real)) else "changed"
        return "trusted" if _is_trusted_project(real, projects or {}) else "unknown"

    def is_trusted(self, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> bool:
        return self.standing(folder, projects) == "trusted"

    def trust(self, folder: Path) -> Path:
        """Trust the folder as it is now; return its real path. Raises `ConfigError` where there is no such folder."""
        real = os.path.realpath(folder)
        if not os.path.isdir(real):
            raise ConfigError(f"cannot trust {folder}: it is not a folder")
        print_of_files = fingerprint(Path(real))
        with _locked(self.file):
            self._write({**self._read(), real: print_of_files})
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


def fingerprint(folder: Path) -> str:
    """Of all that the folder's own files say, links by where they lead. Raises `ConfigError` where that is too much to read."""
    digest = hashlib.sha256()
    budget = _MAX_BYTES
    for count, path in enumerate(_own_files(folder)):
        content = _content(path)
        budget -= len(content)
        if count >= _MAX_FILES or budget < 0:
            raise ConfigError(f"cannot trust {folder}: its {', '.join(OWN_FILES)} hold too much to check")
        for part in (os.fsencode(path.relative_to(folder)), content):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()


def _own_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for name in OWN_FILES:
        path = folder / name
        if path.is_symlink() or path.is_file():
            found.append(path)
        elif path.is_dir():
            below = (Path(place) / name for place, folders, files in os.walk(path) for name in (*files, *folders))
            found.extend(sorted(each for each in below if each.is_symlink() or each.is_file()))
    return found


def _content(path: Path) -> bytes:
    try:
        if path.is_symlink():
            target = os.fsencode(os.path.realpath(path))
            return b"link:" + target + b":" + (path.read_bytes()[: _MAX_BYTES + 1] if path.is_file() else b"")
        with path.open("rb") as file:
            return b"file:" + file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _is_trusted_project(real: str, projects: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(
        table.get("trust_level") == "trusted" and os.path.isabs(path) and os.path.realpath(path) == real
        for path, table in projects.items()
    )


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
