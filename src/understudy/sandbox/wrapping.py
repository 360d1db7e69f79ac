"""bubblewrap's command line, and the names in the roots that its mounts keep from the command.

bubblewrap mounts on paths, and makes for good what is missing there. So placeholders stand for missing names; the process above
bubblewrap makes them (`cell/covering.py`). It cannot mount on a link: links on the way are watched, and a command that changes one
is ended.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from understudy.places.placeholders import is_placeholder
from understudy.places.resolving import is_within
from understudy.sandbox.cell.protect import git_folder, links_on
from understudy.sandbox.spec import Command, Containment
from understudy.sandbox.taking import in_session_of_its_own

# A shell inside the sandbox executes the command, so that a missing program gives exit code 127 as elsewhere.
_EXECUTE = ("/bin/sh", "-c", 'exec "$@"', "sh")
_COVERED = ("/run",)


@dataclass
class KeptNames:
    """Real paths in the roots."""

    frozen: list[str] = field(default_factory=list[str])  # exist, and are read-only
    missing: list[str] = field(default_factory=list[str])  # to be covered
    masked: list[str] = field(default_factory=list[str])  # also missing ones
    links: list[str] = field(default_factory=list[str])  # lead to one of them
    ways: list[str] = field(default_factory=list[str])  # the folders between a root and what is in it

    @property
    def watched(self) -> list[str]:
        return list(dict.fromkeys((*self.frozen, *self.missing, *self.masked, *self.links, *self.ways)))


def kept_names(containment: Containment, roots: tuple[str, ...], may_be_made: Iterable[str] = ()) -> KeptNames:
    """`may_be_made`: protected names that are kept only where they exist."""
    found = KeptNames()
    for name in containment.protected:
        for path in [name] if name.startswith("/") else [os.path.join(root, name) for root in roots]:
            if name not in may_be_made or os.path.lexists(path):
                _add_protected(found, os.path.normpath(path), roots)
    for path in map(os.path.normpath, containment.masked):
        _add_links(found, path, roots)
        real = os.path.realpath(path)
        if _contains(roots, real):
            found.masked.append(real)
            if not _stands(real) and os.path.isdir(os.path.dirname(real)):
                found.missing.append(real)
    hidden = (*found.frozen, *found.masked)
    found.missing = [path for path in dict.fromkeys(found.missing) if not any(path != by and is_within(path, by) for by in hidden)]
    found.ways = sorted(set(_ways((*found.frozen, *found.missing, *found.masked, *roots), roots)))
    return found


def _ways(paths: Iterable[str], roots: tuple[str, ...]) -> Iterator[str]:
    """Not where everything is a root: /dev, /proc, /run and /tmp are not the machine's there."""
    roots = tuple(root for root in roots if root != "/")
    for path in paths:
        above = os.path.dirname(path)
        while _contains(roots, above):
            if os.path.isdir(above):
                yield above
            above = os.path.dirname(above)


def _add_protected(found: KeptNames, path: str, roots: tuple[str, ...]) -> None:
    _add_links(found, path, roots)
    real = os.path.realpath(path)
    if _stands(real):
        if _contains(roots, real) and os.path.exists(real):  # not for links in a circle
            found.frozen.append(real)
        if (named := git_folder(os.fsencode(real))) is not None:
            _add_repository(found, os.fsdecode(named), roots)
    elif (first := _first_missing(real)) is not None and _contains(roots, first):
        found.missing.append(first)


def _add_repository(found: KeptNames, named: str, roots: tuple[str, ...]) -> None:
    """What the `.git` file of a worktree or submodule names."""
    _add_links(found, named, roots)
    folder = os.path.realpath(named)
    worktrees = os.path.dirname(folder)
    for each in (folder, *([os.path.dirname(worktrees)] if os.path.basename(worktrees) == "worktrees" else [])):
        if _contains(roots, each) and os.path.exists(each):
            found.frozen.append(each)


def _add_links(found: KeptNames, path: str, roots: tuple[str, ...]) -> None:
    found.links += [link for link in map(os.fsdecode, links_on(os.fsencode(path))) if _contains(roots, link)]


def _contains(roots: tuple[str, ...], path: str) -> bool:
    return any(path != root and is_within(path, root) for root in roots)


def _stands(path: str) -> bool:
    """Whether something real is there. A placeholder of another command may be gone at any time."""
    return os.path.lexists(path) and not is_placeholder(path)


def _first_missing(path: str) -> str | None:
    """The topmost name on the way that is missing; None if a file is on the way."""
    above = os.path.dirname(path)
    while not _stands(above):
        path, above = above, os.path.dirname(above)
    return path if os.path.isdir(above) else None


def command_line(
    program: str,
    command: Command,
    containment: Containment,
    *,
    roots: tuple[str, ...],
    names: KeptNames,
    workspace: str,
    private_tmp: str | None,
    as_root: bool,
    seccomp: int,
) -> tuple[tuple[str, ...], int]:
    """The words, and the index at which the mounts over missing names belong.

    `roots`: where the command may write; `as_root`: bubblewrap itself runs as root; `seccomp`: descriptor of the filter.
    """
    words = [program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    if containment.network != "on":
        words.append("--unshare-net")  # bubblewrap provides a loopback interface inside
    if as_root:
        words += ["--uid", "65534", "--gid", "65534"]
    words += ["--bind" if "/" in roots else "--ro-bind", "/", "/"]
    words += ["--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc", "--remount-ro", "/proc"]
    for folder in _COVERED:
        if os.path.isdir(folder) and not os.path.islink(folder):
            words += ["--tmpfs", folder]
    words += _temporary(private_tmp, roots, workspace)
    present = [root for root in roots if root != "/" and os.path.exists(root)]
    for path in sorted({*present, *names.ways}, key=len):  # mounted on itself, a folder on the way cannot be moved
        words += ["--bind", path, path]
    for path in sorted(dict.fromkeys(names.frozen), key=len):
        words += ["--ro-bind", path, path]
    at = len(words)
    words += _masks(containment)
    words += ["--seccomp", str(seccomp), "--chdir", command.cwd, "--"]
    session = in_session_of_its_own() if command.on_terminal else ()
    return (*words, *session, *_EXECUTE, *command.argv), at


def _masks(containment: Containment) -> list[str]:
    words: list[str] = []
    covered: list[str] = []
    for real in sorted({os.path.realpath(path) for path in containment.masked}, key=len):
        if any(is_within(real, folder) for folder in covered) or not _stands(real):
            continue  # nothing can be mounted in what is empty
        if os.path.isdir(real):
            covered.append(real)
            words += ["--tmpfs", real, "--remount-ro", real]
        else:
            words += ["--ro-bind", "/dev/null", real]
    return words


def _temporary(private_tmp: str | None, roots: tuple[str, ...], workspace: str) -> list[str]:
    if "/tmp" in (*roots, workspace):
        return []
    words = ["--bind", private_tmp, "/tmp"] if private_tmp is not None else ["--tmpfs", "/tmp"]
    covered = ("/tmp/", *(folder + "/" for folder in _COVERED))
    if workspace.startswith(covered) and workspace not in roots:
        words += ["--ro-bind", workspace, workspace]
    return words
