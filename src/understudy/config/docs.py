"""What the model is told of its place: AGENTS.md files, and the environment it works in."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.places.masks import Masks
from understudy.places.places import Places
from understudy.places.reading import NotForModels, read_for_model

logger = logging.getLogger(__name__)

DOC_NAME = "AGENTS.md"
SKILL_FOLDERS = (".agents/skills", ".codex/skills")  # of a project
_AFTER_GLOBAL = "\n\n--- project-doc ---\n\n"
_GLOBAL_MAX_BYTES = 1024 * 1024


def user_instructions(config: Config, places: Places | None = None, folders: Sequence[str] = ()) -> str | None:
    """The user's AGENTS.md, then those of the project from its root down to cwd; None where there are none.

    `folders`: the project's, where they are known already.
    """
    places = places or places_of(config)
    parts = (global_doc(config.home, places.masks), project_docs(places, config.project_doc_max_bytes, folders))
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


def global_doc(home: Path, masks: Masks) -> str | None:
    return _read(str(home / DOC_NAME), _GLOBAL_MAX_BYTES, masks).decode(errors="replace").strip() or None


def project_docs(places: Places, max_bytes: int, folders: Sequence[str] = ()) -> str | None:
    """Every AGENTS.md from the git root to cwd, within one budget of bytes. Without a git root only cwd's."""
    if (complaint := places.complaint()) is not None:
        logger.warning("no AGENTS.md of the project was read: %s", complaint)
        return None
    cwd = places.pinned[0].path
    if not folders or folders[0] != cwd:  # it may have been reached by a link
        folders = project_folders(cwd)
    parts: list[str] = []
    for folder in reversed(folders):
        if max_bytes <= 0:
            break
        data = _read(os.path.join(folder, DOC_NAME), max_bytes, places.masks, within=folders[-1])
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
    while not os.path.lexists(f"{folders[-1]}/.git"):
        above = os.path.dirname(folders[-1])
        if above == folders[-1]:
            return [cwd]
        folders.append(above)
    return folders


def skill_folders(home: Path, project: Sequence[str]) -> list[str]:
    """Folders that may hold skills: the user's own, and those of the project. Asked for every conversation; see `skills`."""
    folders = [f"{folder}/{name}" for folder in project for name in SKILL_FOLDERS]
    return [folder for folder in (f"{home}/skills", *folders) if os.path.lexists(folder)]


def _read(path: str, max_bytes: int, masks: Masks, within: str = "/") -> bytes:
    """The head of a plain file; empty for anything else.

    A project's file may be a link, but only to a place in that project: it is sent to the model, so one that points at
    a secret elsewhere must not be followed.
    """
    try:
        return read_for_model(path, masks, max_bytes, within=within)
    except FileNotFoundError:
        return b""
    except NotForModels as error:
        logger.warning("%s was not read: %s", path, error)
        return b""
    except OSError as error:
        logger.warning("%s was not read: %s", path, error.strerror)
        return b""
