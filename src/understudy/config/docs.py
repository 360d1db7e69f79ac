"""What the model is told besides the conversation: AGENTS.md files and the environment it works in."""

import logging
import os
from pathlib import Path
from stat import S_ISREG

from understudy.config.model import Config

logger = logging.getLogger(__name__)

DOC_NAME = "AGENTS.md"
_AFTER_GLOBAL = "\n\n--- project-doc ---\n\n"
_GLOBAL_MAX_BYTES = 1024 * 1024


def user_instructions(config: Config) -> str | None:
    """The user's AGENTS.md, then those of the project from its root down to cwd; None where there are none."""
    parts = (global_doc(config.home), project_docs(config.cwd, config.project_doc_max_bytes))
    return _AFTER_GLOBAL.join(part for part in parts if part) or None


def user_instructions_message(text: str) -> str:
    return f"<user_instructions>\n\n{text}\n\n</user_instructions>"


def environment_context(config: Config) -> str:
    network = "enabled" if config.sandbox.network == "on" else "restricted"
    cwd = str(config.cwd).replace("\r", "\\r").replace("\n", "\\n")  # a folder's name must not add lines of its own
    return (
        f"<environment_context>\n\nCurrent working directory: {cwd}\nApproval policy: {config.approval_policy}\n"
        f"Sandbox policy: {config.sandbox.mode}\nNetwork access: {network}\n\n\n</environment_context>"
    )


def global_doc(home: Path) -> str | None:
    return _read(home / DOC_NAME, _GLOBAL_MAX_BYTES).decode(errors="replace").strip() or None


def project_docs(cwd: Path, max_bytes: int) -> str | None:
    """Every AGENTS.md from the git root to cwd, within one budget of bytes. Without a git root only cwd's."""
    top = find_git_root(cwd) or cwd
    parts: list[str] = []
    for folder in _folders_between(top, cwd):
        if max_bytes <= 0:
            break
        data = _read(folder / DOC_NAME, max_bytes, within=top)
        text = data.decode(errors="replace")
        if text.strip():
            parts.append(text)
            max_bytes -= len(data)
    return "\n\n".join(parts) or None


def find_git_root(cwd: Path) -> Path | None:
    """The nearest folder, from cwd up, with a `.git` of any kind: in a worktree it is a file."""
    return next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), None)


def _folders_between(top: Path, cwd: Path) -> list[Path]:
    below = [folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(top)]
    return below[::-1]


def _read(path: Path, max_bytes: int, within: Path | None = None) -> bytes:
    """The head of a plain file; empty for anything else.

    A project's file may be a link, but only to a place in that project: it is sent to the model, so one that points at
    a secret elsewhere must not be followed.
    """
    try:
        if within and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(within)):
            logger.warning("%s is a link to a place outside its project and was not read", path)
            return b""
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # a FIFO must not hold us up
            return file.read(max_bytes) if S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except FileNotFoundError:
        return b""
    except OSError as error:
        logger.warning("%s was not read: %s", path, error.strerror)
        return b""
