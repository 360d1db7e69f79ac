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
    return _read(str(home / DOC_NAME), _GLOBAL_MAX_BYTES).decode(errors="replace").strip() or None


def project_docs(cwd: Path, max_bytes: int) -> str | None:
    """Every AGENTS.md from the git root to cwd, within one budget of bytes. Without a git root only cwd's."""
    folders = project_folders(str(cwd))
    parts: list[str] = []
    for folder in reversed(folders):
        if max_bytes <= 0:
            break
        data = _read(os.path.join(folder, DOC_NAME), max_bytes, within=folders[-1])
        text = data.decode(errors="replace")
        if text.strip():
            parts.append(text)
            max_bytes -= len(data)
    return "\n\n".join(parts) or None


def project_folders(cwd: str) -> list[str]:
    """From cwd up to the nearest folder with a `.git` of any kind (in a worktree it is a file); only cwd where there is none.

    In plain text: this is done for every conversation.
    """
    folders = [cwd]
    while not os.path.lexists(os.path.join(folders[-1], ".git")):
        above = os.path.dirname(folders[-1])
        if above == folders[-1]:
            return [cwd]
        folders.append(above)
    return folders


def _read(path: str, max_bytes: int, within: str | None = None) -> bytes:
    """The head of a plain file; empty for anything else.

    A project's file may be a link, but only to a place in that project: it is sent to the model, so one that points at
    a secret elsewhere must not be followed.
    """
    try:
        if not os.path.lexists(path):
            return b""
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
