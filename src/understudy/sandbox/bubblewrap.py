"""The command line that contains a command by bubblewrap, for kernels without Landlock."""

import os

from understudy.sandbox.spec import Command, Containment
from understudy.sandbox.taking import in_session_of_its_own

# A shell of the sandbox executes the command, so that a missing program ends with 127 as it does elsewhere.
_EXECUTE = ("/bin/sh", "-c", 'exec "$@"', "sh")
_COVERED = ("/run",)


def command_line(
    program: str,
    command: Command,
    containment: Containment,
    *,
    roots: tuple[str, ...],
    workspace: str,
    private_tmp: str | None,
    as_root: bool,
    seccomp: int,
) -> tuple[str, ...]:
    """`roots`: what may be written; `as_root`: bubblewrap itself runs as root; `seccomp`: descriptor of the filter."""
    words = [program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    if containment.network != "on":
        words.append("--unshare-net")  # bubblewrap brings up a loopback of its own inside
    if as_root:
        words += ["--uid", "65534", "--gid", "65534"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc", "--remount-ro", "/proc"]
    for folder in _COVERED:
        if os.path.isdir(folder) and not os.path.islink(folder):
            words += ["--tmpfs", folder]
    words += _temporary(private_tmp, roots, workspace)
    for root in sorted(roots, key=len):
        if os.path.exists(root):
            words += ["--bind", root, root]
    for path in protected_places(containment, roots):
        words += ["--ro-bind", path, path]
    for path in containment.masked:
        real = os.path.realpath(path)
        if os.path.isdir(real):
            words += ["--tmpfs", real, "--remount-ro", real]
        elif os.path.exists(real):
            words += ["--ro-bind", "/dev/null", real]
    words += ["--seccomp", str(seccomp), "--chdir", command.cwd, "--"]
    session = in_session_of_its_own() if command.on_terminal else ()
    return (*words, *session, *_EXECUTE, *command.argv)


def _temporary(private_tmp: str | None, roots: tuple[str, ...], workspace: str) -> list[str]:
    if "/tmp" in (*roots, workspace):
        return []
    words = ["--bind", private_tmp, "/tmp"] if private_tmp is not None else ["--tmpfs", "/tmp"]
    covered = ("/tmp/", *(folder + "/" for folder in _COVERED))
    if workspace.startswith(covered) and workspace not in roots:
        words += ["--ro-bind", workspace, workspace]
    return words


def protected_places(containment: Containment, roots: tuple[str, ...]) -> list[str]:
    """Those that exist, by where links lead: bubblewrap mounts on no link, and would leave a folder behind for what is missing."""
    found: list[str] = []
    for name in containment.protected:
        paths = [name] if name.startswith("/") else [os.path.join(root, name) for root in roots]
        places = map(os.path.realpath, paths)
        found += [place for place in places if os.path.exists(place) and any(place.startswith(root + "/") for root in roots)]
    return found
