"""How to tell the empty folders that the sandbox puts where a protected name is missing (`sandbox/cell/placeholder.py`) from a
user's own. They stand in writable folders while a command runs there, and mean nothing: a `.git` of this kind is no repository.
"""

import os

MODE = 0o1700  # given by mkdir itself, so there is no moment without it; nobody sets the sticky bit on a private folder
TIME = 1_000_000_007  # for file systems that keep no modes: the folder is said to be of 2001
AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_INHERITED = 0o2000  # the parent folder may hand down its group bit
_KIND, _FOLDER = 0o170000, 0o040000


def is_marked(entry: os.stat_result) -> bool:
    mode = entry.st_mode & ~_INHERITED
    return mode == _FOLDER | MODE or (mode & _KIND == _FOLDER and entry.st_mtime_ns == TIME * 1_000_000_000)


def is_placeholder(name: "bytes | str", folder: int | None = None) -> bool:
    """Of that name in the open folder; a path needs none."""
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
    """Whether there is a `.git` of any kind in it (in a worktree it is a file). An empty folder is none, for git neither: some
    programs leave one behind where they ran, and then all that lies below would be one project.
    """
    path = os.path.join(folder, ".git")
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:  # a file, or nothing that may be read
        return os.path.lexists(path)
