"""The file system as a fully contained command sees it.

Everything is read-only but the roots, /tmp is the conversation's own, /proc shows only its own processes, /dev holds
the harmless devices, /run is empty, masked paths are empty, protected names inside the roots cannot be changed.
"""

import os

from . import kernel, placeholder
from .plan import Plan

_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_LINKS = ((b"/proc/self/fd", b"fd"), (b"fd/0", b"stdin"), (b"fd/1", b"stdout"), (b"fd/2", b"stderr"), (b"pts/ptmx", b"ptmx"))
_RUN = (b"/run", b"/var/run")
_KEEP_IN_RUN = (b"/run/current-system", b"/run/booted-system", b"/run/opengl-driver")  # NixOS has its programs there
_BLANK = b"/dev/.blank"
_EMPTY = b"/dev/.empty"
_NO_SUID = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_MOST_SOCKETS = 512


def beneath(path: bytes, parent: bytes) -> bool:
    return path == parent or parent == b"/" or path.startswith(parent + b"/")


def beneath_any(path: bytes, parents: "list[bytes]") -> bool:
    return any(beneath(path, parent) for parent in parents)


def resolve_roots(paths: "list[bytes]") -> "list[bytes]":
    """The real paths of the roots that exist, outermost only.

    A root inside another one adds nothing, and its name may have been turned into a link by an earlier command: so a
    path is never followed once it has entered a root.
    """
    roots: list[bytes] = []
    for path in sorted({os.path.normpath(path) for path in paths}, key=lambda path: path.count(b"/") if path != b"/" else 0):
        real = _resolve_outside(path, roots)
        if real is not None:
            roots.append(real)
    return roots


def _resolve_outside(path: bytes, roots: "list[bytes]", depth: int = 0) -> bytes | None:
    at = b"/"
    names = [name for name in path.split(b"/") if name]
    while names:
        if beneath_any(at, roots):
            return None
        step = os.path.join(at, names.pop(0))
        try:
            target = os.readlink(step)
        except OSError:
            at = step
            continue
        if depth > 40:
            return None
        return _resolve_outside(os.path.normpath(os.path.join(at, target, *names)), roots, depth + 1)
    if beneath_any(at, roots) or not os.path.lexists(at):
        return None
    return at


class View:
    """Builds the view in a fresh mount namespace. `held` keeps placeholders alive; they go away with the process."""

    def __init__(self, plan: Plan, *, outer_root: bool) -> None:
        self._plan = plan
        self._outer_root = outer_root  # the kernel does not apply RLIMIT_NPROC to the machine's root, whatever its name in here
        self._tmp = os.path.realpath(b"/tmp")
        self._roots = resolve_roots(plan.roots)
        self.roots = self._roots
        self.placeholders: list[bytes] = []
        self.held: list[int] = []
        self.own_proc = True
        self._private = -1

    def open_private(self) -> None:
        """Take hold of what only the helper's own user may be able to reach, before its rights are given up."""
        kernel.mount("none", b"/", "", kernel.MS_REC | kernel.MS_PRIVATE)
        if self._plan.private_tmp and not self._shows_real_tmp():
            self._private = kernel.open_tree(self._plan.private_tmp)

    def build(self, sockets: "list[bytes]") -> None:
        plan = self._plan
        masked = self._real(plan.masked)
        covered = [self._tmp, *self._run_folders()]
        trees = [(path, kernel.open_tree(path)) for path in self._roots if path != b"/"]
        shown = self._open_shown(covered)
        devices = [
            (name, kernel.open_tree(b"/dev/" + name, recursive=False)) for name in _DEVICES if os.path.exists(b"/dev/" + name)
        ]
        read_only = 0 if b"/" in self._roots else kernel.MOUNT_ATTR_RDONLY
        kernel.set_mount(b"/", add=read_only | kernel.MOUNT_ATTR_NOSUID)
        self._make_devices(devices)
        self._make_proc()
        self._make_tmp()
        for folder in self._run_folders():
            kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
        for path, tree in (*shown, *trees):
            self._make_stand(path, covered, folder=os.path.isdir(b"/proc/self/fd/%d" % tree))
        for folder in self._run_folders():
            kernel.set_mount(folder, add=kernel.MOUNT_ATTR_RDONLY, recursive=False)
        for _, tree in shown:
            kernel.set_mount(b"", directory=tree, add=kernel.MOUNT_ATTR_RDONLY | _NO_SUID)
        for path, tree in sorted((*shown, *trees), key=lambda item: item[0].count(b"/")):
            kernel.set_mount(b"", directory=tree, add=_NO_SUID)
            kernel.attach(tree, path)
            os.close(tree)
        self._protect()
        for path in masked:
            self._blank(path)
        for path in sockets[:_MOST_SOCKETS]:
            if not beneath_any(path, [*self._roots, self._tmp, *self._run_folders()]):
                self._blank(path)

    def _real(self, paths: "list[bytes]") -> "list[bytes]":
        found = {os.path.realpath(path) for path in paths if os.path.lexists(path)}
        return sorted(found, key=lambda path: path.count(b"/"))

    def _run_folders(self) -> "list[bytes]":
        return sorted({os.path.realpath(path) for path in _RUN if os.path.isdir(path)})

    def _shows_real_tmp(self) -> bool:
        return self._tmp in (*self._roots, os.path.normpath(self._plan.workspace))

    def _open_shown(self, covered: "list[bytes]") -> "list[tuple[bytes, int]]":
        """What is under a covered folder and must be seen all the same, read-only."""
        paths = [path for path in _KEEP_IN_RUN if os.path.exists(path)]
        workspace = os.path.realpath(self._plan.workspace)
        if beneath_any(workspace, covered) and not beneath_any(workspace, self._roots) and workspace not in covered:
            paths.append(workspace)
        if self._plan.network == "on":
            names = os.path.realpath(b"/etc/resolv.conf")
            if beneath_any(names, covered) and os.path.exists(names):
                paths.append(names)
        return [(path, kernel.open_tree(path)) for path in paths]

    def _make_stand(self, path: bytes, covered: "list[bytes]", *, folder: bool) -> None:
        """Something for a mount to stand on, in a folder that now is empty."""
        if not beneath_any(path, covered) or path in covered:
            return
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        if folder:
            os.makedirs(path, 0o755, exist_ok=True)
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def _make_devices(self, devices: "list[tuple[bytes, int]]") -> None:
        flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
        kernel.mount("tmpfs", b"/dev", "tmpfs", flags, "mode=755,size=1m")
        for name, tree in devices:
            os.close(os.open(b"/dev/" + name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
            kernel.attach(tree, b"/dev/" + name)
            os.close(tree)
        for target, name in _LINKS:
            os.symlink(target, b"/dev/" + name)
        for name in (b"/dev/shm", b"/dev/pts", _BLANK):
            os.mkdir(name, 0o755)
        os.close(os.open(_EMPTY, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
        size = f"mode=1777,size={self._plan.shared_memory_mb}m"
        kernel.mount("tmpfs", b"/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, size)
        kernel.mount("devpts", b"/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")
        kernel.set_mount(b"/dev", add=kernel.MOUNT_ATTR_RDONLY, recursive=False)

    def _make_proc(self) -> None:
        try:
            kernel.mount("proc", b"/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        except PermissionError:
            # A container hides parts of its /proc and then forbids a fresh one. The old one stays, read-only;
            # Landlock still keeps the command away from what other processes have there.
            self.own_proc = False
            return
        if self._plan.processes and self._outer_root:
            self._limit_process_numbers()
        kernel.set_mount(b"/proc", add=kernel.MOUNT_ATTR_RDONLY)

    def _limit_process_numbers(self) -> None:
        try:  # since 6.14 the highest process number belongs to the PID namespace; 300 are reserved when numbers start over
            descriptor = os.open(b"/proc/sys/kernel/pid_max", os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"%d" % (self._plan.processes + 301))
            os.close(descriptor)
        except OSError:
            pass

    def _make_tmp(self) -> None:
        if self._private >= 0:
            kernel.set_mount(b"", directory=self._private, add=_NO_SUID)
            kernel.attach(self._private, self._tmp)
            os.close(self._private)
        elif not self._shows_real_tmp():
            kernel.mount("tmpfs", self._tmp, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777,size=256m")

    def _blank(self, path: bytes) -> None:
        try:
            mode = os.lstat(path).st_mode & 0o170000
        except OSError:
            return  # already out of sight
        if mode == 0o120000:
            return
        tree = kernel.open_tree(_BLANK if mode == 0o040000 else _EMPTY, recursive=False)
        kernel.set_mount(b"", directory=tree, add=kernel.MOUNT_ATTR_RDONLY, recursive=False)
        kernel.attach(tree, path)
        os.close(tree)

    def remove_placeholders(self) -> None:
        """Take our covers off and remove the folders under them, unless another command still needs them."""
        for descriptor in self.held:
            os.close(descriptor)
        self.held.clear()
        for path in self.placeholders:
            try:
                kernel.unmount(path)
            except OSError:
                continue
            placeholder.remove(path)

    # Protected names

    def _protect(self) -> None:
        for name in self._plan.protected:
            if name.startswith(b"/"):
                self._protect_path(os.path.normpath(name))
                continue
            for root in self._roots:
                if os.path.isdir(root):
                    self._protect_path(os.path.normpath(os.path.join(root, name)))

    def _protect_path(self, path: bytes, depth: int = 0) -> None:
        """Keep `path` as it is: its content, its name, and every folder name on the way from its root."""
        root = next((root for root in self._roots if beneath(path, root) and path != root), None)
        if root is None or depth > 8:
            return
        at = root
        names = path[len(root) :].strip(b"/").split(b"/")
        for index, name in enumerate(names):
            at = os.path.join(at, name)
            try:
                mode = os.lstat(at).st_mode & 0o170000
            except FileNotFoundError:
                self._cover(at)
                return
            if mode == 0o120000:
                self._pin(at)
                self._protect_path(os.path.realpath(os.path.join(at, *names[index + 1 :])), depth + 1)
                return
            if index < len(names) - 1:
                self._pin(at)
        if placeholder.is_placeholder(at):
            self._cover(at)
            return
        self._freeze(at)
        if os.path.isfile(at):
            for folder in _git_folders(at):
                self._protect_path(folder, depth + 1)

    def _cover(self, path: bytes) -> None:
        try:
            held = placeholder.hold(path)
        except PermissionError:
            return  # the command has no right to create it either
        except OSError as error:
            if error.errno == 30:  # EROFS
                return
            raise
        if held is not None:
            self.held.append(held)
            self.placeholders.append(path)
            self._blank(path)
        else:
            self._freeze(path)

    def _pin(self, path: bytes) -> None:
        """Make a name a mount point, which cannot be renamed or removed; links included."""
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            tree = kernel.open_tree(b"", directory=descriptor)
            kernel.attach(tree, b"", directory=descriptor)
            os.close(tree)
        finally:
            os.close(descriptor)

    def _freeze(self, path: bytes) -> None:
        tree = kernel.open_tree(path, follow=False)
        kernel.set_mount(b"", directory=tree, add=kernel.MOUNT_ATTR_RDONLY)
        kernel.attach(tree, path)
        os.close(tree)


def _git_folders(pointer: bytes) -> "list[bytes]":
    """Where a `.git` file of a worktree or submodule points to."""
    try:
        descriptor = os.open(pointer, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        content = os.read(descriptor, 4096)
        os.close(descriptor)
    except OSError:
        return []
    if not content.startswith(b"gitdir:"):
        return []
    folder = os.path.realpath(os.path.join(os.path.dirname(pointer), content[7:].strip()))
    found = [folder]
    parent = os.path.dirname(folder)
    if os.path.basename(parent) == b"worktrees":
        found.append(os.path.dirname(parent))
    return found
