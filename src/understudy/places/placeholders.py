"""Recognizes the empty folders that the sandbox puts in place of missing protected names (`sandbox/cell/placeholder.py`). They
exist only while a command runs and mean nothing: a `.git` of this kind is no repository.
"""

import os

MODE = 0o1700  # set by mkdir itself, so it is never missing; nobody else sets the sticky bit on a private folder
TIME = 1_000_000_007  # for file systems without modes: the folder is dated 2001
AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_INHERITED = 0o2000  # the group bit, which a folder may inherit
_KIND, _FOLDER = 0o170000, 0o040000


def is_marked(entry: os.stat_result) -> bool:
    mode = entry.st_mode & ~_INHERITED
    return mode == _FOLDER | MODE or (mode & _KIND == _FOLDER and entry.st_mtime_ns == TIME * 1_000_000_000)


def is_placeholder(name: "bytes | str", folder: int | None = None) -> bool:
    """Whether that name in the open folder is one; for a path, `folder` is not needed."""
    try:
        descriptor = os.open(name, AS_FOLDER, dir_fd=folder)
    except OSError:
        return False
    try:
        return is_marked(os.fstat(descriptor)) and not os.listdir(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def begins_repository(folder: str) -> bool:
    """Whether the folder has a `.git` that makes it a repository (in a worktree it is a file). An empty `.git` folder does not
    count, as in git: some programs leave one behind, and then all below would be one project.
    """
    path = os.path.join(folder, ".git")
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:  # a file, or not readable
        return os.path.lexists(path)
