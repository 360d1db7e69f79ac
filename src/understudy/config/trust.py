"""Which folders the user trusts.

Until a folder is trusted, its `.codex/` and `.mcp.json` change nothing. Its files are read once, so that the bytes that are judged
are the bytes that are used.
"""

import hashlib
import os
import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from errno import ELOOP
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Any, Literal, cast

import msgspec

from understudy.config.private_file import PrivateFile
from understudy.errors import ConfigError

OWN_FILES = (".mcp.json", ".codex", ".agents", ".claude")
INSTRUCTIONS = re.compile(r"(agents|claude)[^/]*\.md", re.IGNORECASE)  # files at the top of the folder with instructions for agents
_OTHERS = (".claude/worktrees",)  # whole checkouts, which do not count as this folder's own files
_MAX_FILES = 2_000
_MAX_BYTES = 16 * 1024 * 1024
_MAX_DEPTH = 32
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnFiles(msgspec.Struct, frozen=True):
    digest: str
    contents: Mapping[str, bytes]  # only plain files, by their path below the folder
    others: tuple[str, ...] = ()  # everything else: links, which are not followed, and pipes


def read_own_files(folder: Path) -> OwnFiles:
    """`folder` is a real path. Raises `ConfigError` if it contains too much to check, or cannot be read."""
    reading = _Reading(folder)
    with _opened(folder) as root:
        for name in (*OWN_FILES, *_instructions(root)):
            reading.entry(root, name, name, depth=0)
    digest = hashlib.sha256()
    for path, (kind, content) in sorted(reading.found.items()):
        for part in (os.fsencode(path), kind, content):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    plain = {path: content for path, (kind, content) in reading.found.items() if kind == b"file"}
    others = tuple(path for path, (kind, _) in reading.found.items() if kind != b"file")
    return OwnFiles(digest.hexdigest(), plain, others)


def read_plain_file(folder: Path, path: str) -> bytes | None:
    """A file below the folder, opened without following links; None if it is missing or not a file. Raises `ConfigError`."""
    reading = _Reading(folder)
    *folders, name = path.split("/")
    with ExitStack() as opened:
        above = opened.enter_context(_opened(folder))
        try:
            for part in folders:
                above = os.open(part, _FOLDER | os.O_RDONLY, dir_fd=above)
                opened.callback(os.close, above)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == ELOOP:
                return None
            raise ConfigError(f"cannot read {folder / path}: {error.strerror}") from None
        reading.entry(above, name, path, depth=0)
    kind, content = reading.found.get(path, (b"", b""))
    return content if kind == b"file" else None


def _instructions(root: int) -> list[str]:
    with os.scandir(root) as entries:
        return [entry.name for entry in entries if INSTRUCTIONS.fullmatch(entry.name)]


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    """The folder, opened part by part, so that none of them can have become a link."""
    descriptor = os.open(folder.anchor, _FOLDER | os.O_RDONLY)
    try:
        for position, part in enumerate(folder.parts[1:], start=2):
            below = _open_folder(part, descriptor, folder, is_last=position == len(folder.parts))
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open_folder(part: str, above: int, folder: Path, *, is_last: bool) -> int:
    only_passing = 0 if is_last else getattr(os, "O_PATH", 0)  # folders on the way may be unreadable
    try:
        return os.open(part, _FOLDER | os.O_RDONLY | only_passing, dir_fd=above)
    except OSError as error:
        raise ConfigError(f"cannot read {folder}: {error.strerror}") from None


class _Reading:
    def __init__(self, folder: Path) -> None:
        self.found: dict[str, tuple[bytes, bytes]] = {}
        self._folder = folder
        self._left = _MAX_BYTES

    def entry(self, above: int, name: str, path: str, depth: int) -> None:
        if path in _OTHERS:
            return
        try:
            mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
            if S_ISLNK(mode):
                self._keep(path, b"link", os.fsencode(os.readlink(name, dir_fd=above)))
            elif S_ISDIR(mode):
                self._tree(above, name, path, depth)
            elif S_ISREG(mode):
                self._keep(path, b"file", self._content(above, name))
            else:
                self._keep(path, b"other", b"")
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"cannot read {self._folder / path}: {error.strerror}") from None

    def _tree(self, above: int, name: str, path: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise self._too_much()
        descriptor = os.open(name, _FOLDER | os.O_RDONLY, dir_fd=above)
        try:
            for each in sorted(os.listdir(descriptor)):
                self.entry(descriptor, each, f"{path}/{each}", depth + 1)
        finally:
            os.close(descriptor)

    def _content(self, above: int, name: str) -> bytes:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
        with open(descriptor, "rb") as file:
            if not S_ISREG(os.fstat(descriptor).st_mode):  # replaced since we looked at it
                return b""
            return file.read(self._left + 1)

    def _keep(self, path: str, kind: bytes, content: bytes) -> None:
        self._left -= len(content)
        if self._left < 0 or len(self.found) >= _MAX_FILES:
            raise self._too_much()
        self.found[path] = kind, content

    def _too_much(self) -> ConfigError:
        return ConfigError(f"cannot trust {self._folder}: {' and '.join(OWN_FILES)} hold too much to check")


Standing = Literal["trusted", "changed", "unknown"]


class Judged(msgspec.Struct, frozen=True):
    standing: Standing  # `changed`: trusted once, but its own files have changed since
    files: OwnFiles | None = None  # of a trusted folder: exactly the bytes that were judged


class TrustStore(msgspec.Struct, frozen=True):
    """`trust.json` of our state folder."""

    file: Path

    def judge(self, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> Judged:
        """`projects` is that table of the user's configuration. `trust_level = "trusted"` there counts whatever the files contain;
        `"untrusted"` overrides everything.
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
            return Judged("changed")  # it was readable when it was trusted
        return Judged("trusted", files) if level == "trusted" or files.digest == trusted else Judged("changed")

    def standing(self, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> Standing:
        return self.judge(folder, projects).standing

    def trust(self, folder: Path) -> Path:
        """Trust the folder as it is now; return its real path. Raises `ConfigError` if there is no such folder."""
        real = os.path.realpath(folder)
        if not os.path.isdir(real):
            raise ConfigError(f"cannot trust {folder}: it is not a folder")
        digest = read_own_files(Path(real)).digest
        with PrivateFile(self.file).locked():
            self._write({**self._read(), real: digest})
        return Path(real)

    def distrust(self, folder: Path) -> bool:
        """False if it was not trusted."""
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
    """The strictest entry for this folder in the user's table."""
    levels = {
        table.get("trust_level") for path, table in projects.items() if os.path.isabs(path) and os.path.realpath(path) == real
    }
    return next((level for level in ("untrusted", "trusted") if level in levels), None)
