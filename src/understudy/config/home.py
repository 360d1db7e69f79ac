"""Where the user's files are (`$CODEX_HOME`, else `~/.codex`), and where an install keeps the pages of docs/."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from understudy.errors import ConfigError
from understudy.protocol.encodable import is_unicode, visible

STATE_FOLDER = "understudy"


def find_home(env: Mapping[str, str]) -> Path:
    """The configuration folder, absolute. If the user named one, it must exist; the default one need not."""
    named = env.get("CODEX_HOME", "")
    default = str(user_home(env) / ".codex")
    if not is_unicode(named or default):
        raise ConfigError(f"the folder `{visible(named or default)}` is not named in valid UTF-8; set CODEX_HOME to one that is")
    if not named:
        return Path(default)
    try:
        home = Path(named).resolve(strict=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"CODEX_HOME names `{named}`, which cannot be used: {reason}. Create that folder or unset CODEX_HOME."
        ) from None
    if not home.is_dir():
        raise ConfigError(f"CODEX_HOME names `{named}`, which is not a folder. Name a folder or unset CODEX_HOME.")
    return home


def user_home(env: Mapping[str, str]) -> Path:
    """Raises `ConfigError` if nothing says where it is. A relative HOME would mean a folder wherever we happen to run."""
    named = env.get("HOME", "")
    if os.path.isabs(named):
        return Path(named)
    import pwd  # imported here because few users have no HOME

    try:
        known = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        known = ""
    if not os.path.isabs(known):
        raise ConfigError("HOME names no absolute path, and the system knows no home of this user; set HOME or CODEX_HOME")
    return Path(known)


def state_dir(home: Path) -> Path:
    return home / STATE_FOLDER


def expand(text: str, *, base: Path, env: Mapping[str, str]) -> Path:
    """The absolute path for `text`: expands a leading `~`, and starts at `base` if it is relative."""
    if text == "~" or text.startswith("~/"):
        return user_home(env) / text[2:]
    return base / text


# Does not follow links. For missing files, `os.path.lexists` raises an exception internally and takes three times as long.
is_there: Callable[[str | os.PathLike[str]], bool] = os.path.lexists
if os.access in os.supports_follow_symlinks:
    is_there = partial(os.access, mode=os.F_OK, follow_symlinks=False)


def page_path(name: str, part: str = "") -> str:
    """For texts that send a person to a page, or to a part of it."""
    return os.path.join(sys.prefix, "share", "doc", "understudy", name) + (f"#{part}" if part else "")
