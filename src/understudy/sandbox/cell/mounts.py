"""The file system as a fully contained command sees it.

Everything is read-only but the roots, /tmp is the conversation's own, /proc shows only its own processes, /dev holds
the harmless devices, /run is empty, masked paths are empty, protected names inside the roots cannot be changed.
"""

import os

from . import kernel
from .plan import Plan
from .protect import Protector
from .roots import beneath, beneath_any, resolve_roots

_DEVICES = (b"null", b"zero", b"full", b"urandom", b"tty")
_LINKS = (
    (b"/proc/self/fd", b"/dev/fd"),
    (b"fd/0", b"/dev/stdin"),
    (b"fd/1", b"/dev/stdout"),
    (b"fd/2", b"/dev/stderr"),
    (b"pts/ptmx", b"/dev/ptmx"),
    (b"urandom", b"/dev/random"),
)
_RUN = (b"/run", b"/var/run")
_KEEP_IN_RUN = (b"/run/current-system", b"/run/booted-system", b"/run/opengl-driver")  # NixOS has its programs there
_BLANK = b"/dev/.blank"
_EMPTY = b"/dev/.empty"
_NO_SUID = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV


class Machine:
    """What is the same for every command, looked up once."""

    def __init__(self) -> None:
        self.tmp = os.path.realpath(b"/tmp")
        self.run_folders = sorted({os.path.realpath(path) for path in _RUN if os.path.isdir(path)})
        self.refilled = [self.tmp, b"/dev/shm"]  # covered by something that can be written
        self.covered = [*self.refilled, *self.run_folders]
        self.devices = [b"/dev/" + name for name in _DEVICES if os.path.exists(b"/dev/" + name)]
        self.counts_per_namespace = _kernel_version() >= (5, 14)  # processes of a user, for RLIMIT_NPROC
        self.shown = [path for path in _KEEP_IN_RUN if os.path.exists(path)]


def _kernel_version() -> "tuple[int, int]":
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()))


class View:
    """Builds the view, in a mount namespace of our own."""

    def __init__(self, plan: Plan, machine: Machine, *, outer_root: bool) -> None:
        self._plan = plan
        self._machine = machine
        self._outer_root = outer_root  # the kernel does not apply RLIMIT_NPROC to the machine's root, whatever its name in here
        self.roots = resolve_roots(plan.roots)
        self._real_tmp = machine.tmp in self.roots or os.path.normpath(plan.workspace) == machine.tmp
        self._private = -1
        self.own_proc = True
        self.counts_processes = False  # whether nobody but us keeps the limit on processes
        self._protector = Protector(self.roots, self._blank)

    def open_private(self) -> None:
        """Take hold of what only the helper's own user may be able to reach, before its rights are given up."""
        kernel.mount(b"none", b"/", b"", kernel.MS_REC | kernel.MS_PRIVATE)
        if self._plan.private_tmp and not self._real_tmp:
            self._private = kernel.open_tree(self._plan.private_tmp)

    def build(self) -> None:
        plan, machine = self._plan, self._machine
        masked = sorted({os.path.realpath(path) for path in plan.masked if os.path.lexists(path)}, key=len)
        trees = [(path, kernel.open_tree(path), _NO_SUID) for path in self.roots if path != b"/"]
        trees += [(path, kernel.open_tree(path), _NO_SUID | kernel.MOUNT_ATTR_RDONLY) for path in self._shown()]
        devices = [(path, kernel.open_tree(path, recursive=False)) for path in machine.devices]
        read_only = 0 if b"/" in self.roots else kernel.MOUNT_ATTR_RDONLY
        kernel.set_mount(b"/", read_only | _NO_SUID)
        self._make_devices(devices)
        self._make_proc()
        self._make_tmp()
        self._cover_run([(path, tree) for path, tree, _ in trees])
        for path, tree, attributes in sorted(trees, key=lambda item: len(item[0])):
            if beneath_any(path, machine.refilled) and path not in machine.refilled:
                _make_stand(path, tree)
            kernel.set_mount(b"", attributes, directory=tree)
            kernel.attach(tree, path)
        self._protector.protect(plan.protected)
        for path in masked:
            self._blank(path)

    def placeholders(self) -> "list[bytes]":
        return self._protector.placeholders

    def release(self) -> None:
        """Let go of the placeholders. The server removes them: here they are still mounted over."""
        self._protector.release()

    def _shown(self) -> "list[bytes]":
        """What is under a covered folder and must be seen all the same, read-only."""
        paths = list(self._machine.shown)
        workspace = os.path.realpath(self._plan.workspace)
        covered = self._machine.covered
        if beneath_any(workspace, covered) and workspace not in covered and not beneath_any(workspace, self.roots):
            paths.append(workspace)
        if self._plan.network == "on":
            resolver = os.path.realpath(b"/etc/resolv.conf")
            if beneath_any(resolver, covered) and os.path.exists(resolver):
                paths.append(resolver)
        return paths

    def _make_devices(self, devices: "list[tuple[bytes, int]]") -> None:
        flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
        kernel.mount(b"tmpfs", b"/dev", b"tmpfs", flags, b"mode=755,size=1m")
        for path, tree in devices:
            os.mknod(path, 0o100666)
            kernel.attach(tree, path)
        for target, path in _LINKS:
            os.symlink(target, path)
        for path in (b"/dev/shm", b"/dev/pts", _BLANK):
            os.mkdir(path, 0o755)
        os.mknod(_EMPTY, 0o100444)
        size = b"mode=1777,size=%dm" % self._plan.shared_memory_mb
        kernel.mount(b"tmpfs", b"/dev/shm", b"tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, size)
        try:
            kernel.mount(b"devpts", b"/dev/pts", b"devpts", flags, b"newinstance,ptmxmode=0666,mode=620")
        except OSError:
            pass  # then there are no terminals inside, which few commands need
        kernel.set_mount(b"/dev", kernel.MOUNT_ATTR_RDONLY, recursive=False)

    def _make_proc(self) -> None:
        try:
            kernel.mount(b"proc", b"/proc", b"proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        except PermissionError:
            # A container hides parts of its /proc and then forbids a fresh one. The old one stays, read-only;
            # Landlock still keeps the command away from what other processes have there.
            self.own_proc = False
            return
        if self._plan.processes and self._outer_root:
            self.counts_processes = True
            self._limit_process_numbers()
        kernel.set_mount(b"/proc", kernel.MOUNT_ATTR_RDONLY)

    def _limit_process_numbers(self) -> None:
        try:  # since 6.14 the highest process number belongs to the PID namespace; 300 are reserved when numbers start over
            descriptor = os.open(b"/proc/sys/kernel/pid_max", os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"%d" % (self._plan.processes + 301))
            os.close(descriptor)
            self.counts_processes = False
        except OSError:
            pass

    def _make_tmp(self) -> None:
        if self._private >= 0:
            kernel.set_mount(b"", _NO_SUID, directory=self._private)
            kernel.attach(self._private, self._machine.tmp)
        elif not self._real_tmp:
            flags = kernel.MS_NOSUID | kernel.MS_NODEV
            kernel.mount(b"tmpfs", self._machine.tmp, b"tmpfs", flags, b"mode=1777,size=256m")

    def _cover_run(self, trees: "list[tuple[bytes, int]]") -> None:
        for folder in self._machine.run_folders:
            inside = [(path, tree) for path, tree in trees if beneath(path, folder)]
            if any(path == folder for path, _ in inside):
                continue  # somebody made it a root
            if not inside:
                self._blank(folder)
                continue
            kernel.mount(b"tmpfs", folder, b"tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, b"mode=755,size=1m")
            for path, tree in inside:
                _make_stand(path, tree)
            kernel.set_mount(folder, kernel.MOUNT_ATTR_RDONLY, recursive=False)

    def _blank(self, path: bytes) -> None:
        """Put something empty and read-only over `path`."""
        try:
            kind = os.lstat(path).st_mode & 0o170000
        except OSError:
            return  # already out of sight
        if kind != 0o120000:
            kernel.attach(kernel.open_tree(_BLANK if kind == 0o040000 else _EMPTY, recursive=False), path)


def _make_stand(path: bytes, tree: int) -> None:
    """Something for a mount to stand on, in a folder that now is empty."""
    if os.path.isdir(b"/proc/self/fd/%d" % tree):
        os.makedirs(path, 0o755, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    if not os.path.lexists(path):
        os.mknod(path, 0o100644)
