"""Changing the user's config.toml: by one process at a time, all of it or nothing."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from understudy.config.file import parse_toml
from understudy.config.private_file import PrivateFile
from understudy.config.schema import Tree
from understudy.errors import ConfigError


def edit_config_file(home: Path, change: Callable[[str], str], check: Callable[[Tree], None] | None = None) -> Path:
    """Apply a change (of `toml_text`) to the file, which is created where there is none, and say where it lies.

    `check` gets what the file would then hold. Raises `ConfigError`, and so may `change` and `check`; nothing is written then.
    """
    path = home / "config.toml"
    try:
        with PrivateFile(home / "understudy" / "config.toml").locked():
            real = Path(os.path.realpath(path))  # some people keep the file elsewhere, and a link to it here
            text, status = _read(real)
            parse_toml(path, text)
            changed = change(text)
            if changed == text:
                return path
            if check is not None:
                check(parse_toml(path, changed))
            _write(real, changed, status)
    except OSError as error:
        raise ConfigError(f"{error.filename or path} cannot be written: {error.strerror}") from None
    return path


def _read(path: Path) -> tuple[str, os.stat_result | None]:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            return file.read().decode(), status
    except FileNotFoundError:
        return "", None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 (byte {error.start})") from None


def _write(path: Path, text: str, before: os.stat_result | None) -> None:
    """All of it or nothing, with the owner and rights that the file had."""
    beside = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if not _unchanged(path, before):
            raise ConfigError(f"{path} was changed by someone else just now: look at it, and try again")
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _unchanged(path: Path, before: os.stat_result | None) -> bool:
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return before is None
    return before is not None and (now.st_ino, now.st_mtime_ns, now.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
