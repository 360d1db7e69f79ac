"""The file system as a fully contained command sees it.

Everything is read-only but the roots, /tmp is the conversation's own, /proc shows only its own processes, /dev holds
the harmless devices, /run is empty, masked paths are empty, protected names inside the roots cannot be changed.
"""

import os

from understudy.places.walking import beneath, check, is_folder, real_paths, step

from . import kernel
from .exposure import MountWatch
from .plan import Plan
from .protect import Protector
from .roots import beneath_any, open_pins, outermost, shows

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
_OPEN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = 0o040000
_EEXIST, _ELOOP, _ESTALE = 17, 40, 116
_ATTEMPTS = 20


class Machine:
    """What is the same for every command, looked up once."""

    def __init__(self) -> None:
        self.tmp = os.path.realpath(b"/tmp")
        self.run_folders = sorted({os.path.realpath(path) for path in _RUN if os.path.isdir(path)})
        self.refilled = [self.tmp, b"/dev/shm"]  # folders that are covered by something writable
        self.covered = [*self.refilled, *self.run_folders]
        self.devices = [b"/dev/" + name for name in _DEVICES if os.path.exists(b"/dev/" + name)]
        self.counts_per_namespace = _kernel_version() >= (5, 14)  # counts processes of a user, for RLIMIT_NPROC
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
        self.roots = outermost(plan.roots, machine.covered)
        self._real_tmp = machine.tmp in self.roots or plan.workspace == machine.tmp
        self._private = -1
        self.own_proc = True
        self.counts_processes = False  # whether only we enforce the limit on processes
        self._protector: Protector | None = None
        self.watch = MountWatch([])

    def open_private(self) -> None:
        """Open folders that perhaps only the helper's own user can reach, before we give up its rights."""
        kernel.mount(b"none", b"/", b"", kernel.MS_REC | kernel.MS_PRIVATE)
        if self._plan.private_tmp and not self._real_tmp:
            self._private = kernel.open_tree(self._plan.private_tmp)

    def build(self) -> None:
        plan, machine = self._plan, self._machine
        named = plan.masked
        linked: set[str] = set()
        plan.masked = sorted({os.fsencode(path) for path in real_paths(map(os.fsdecode, named), linked)}, key=len)
        opened = open_pins(plan)
        present = [path for path in plan.roots if path in opened]
        self.roots = outermost(present, machine.covered)
        trees = [(path, kernel.open_tree(b"", directory=opened[path]), _NO_SUID) for path in self.roots if path != b"/"]
        for path in self._shown():
            tree = kernel.open_tree(b"", directory=opened[path]) if path in opened else kernel.open_tree(path)
            trees.append((path, tree, _NO_SUID | kernel.MOUNT_ATTR_RDONLY))
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
            self._attach(tree, path)
        mounts = {path: tree for path, tree, _ in trees}
        roots = [(path, mounts[path] if path != b"/" else os.open(b"/", _OPEN)) for path in self.roots]
        self._protector = protector = Protector(roots, {_FOLDER: _BLANK, 0: _EMPTY})
        for path in present:
            if path not in self.roots:  # those are mounts already, and contain what is mounted in them
                protector.pin(path)  # a root inside another one is content of the other, but must not be moved away
        protector.protect(plan.protected, present)
        protector.keep(plan.kept, present)
        for path in named:
            if os.fsdecode(path) in linked:
                protector.pin_links(path)
        for path in plan.masked:
            if not protector.hide(path):
                self._blank(path)
        for descriptor in opened.values():
            os.close(descriptor)
        self.watch = MountWatch(protector.mounted())

    def _attach(self, tree: int, path: bytes) -> None:
        """Mount a root at its path, even if somebody exchanges that meanwhile."""
        target = kernel.open_plain(path)
        if path in self._plan.pins and not beneath_any(path, self._machine.covered):
            check(target, path, *self._plan.pins[path])
        kernel.attach(tree, b"", directory=target)
        os.close(target)

    @property
    def has_private_tmp(self) -> bool:
        """Whether /tmp is the conversation's folder, rather than the machine's or one of this command alone."""
        return self._private >= 0

    def placeholders(self) -> "list[bytes]":
        return [] if self._protector is None else self._protector.placeholders

    def release(self) -> None:
        """Let go of the placeholders. The server removes them, because here they are still covered."""
        if self._protector is not None:
            self._protector.release()

    def _shown(self) -> "list[bytes]":
        """Paths below a covered folder that must stay visible, read-only."""
        paths = list(self._machine.shown)
        workspace = self._plan.workspace
        covered = self._machine.covered
        seen = any(shows(root, workspace, covered) for root in self.roots)
        if beneath_any(workspace, covered) and workspace not in covered and not seen:
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
            pass  # then the command has no terminals, which few need
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
            try:
                os.write(descriptor, b"%d" % (self._plan.processes + 301))
            finally:
                os.close(descriptor)  # while it is open, /proc cannot be made read-only
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
            found = kernel.open_plain(path)
        except OSError as error:
            if error.errno == _ELOOP and os.path.realpath(path) != path:
                raise OSError(_ESTALE, "another program replaced it just now", path) from None
            return  # already out of sight
        kernel.attach(kernel.open_tree(_BLANK if is_folder(found) else _EMPTY, recursive=False), b"", directory=found)
        os.close(found)


def _make_stand(path: bytes, tree: int) -> None:
    """Make something to mount on, in a folder that belongs to the conversation: replace what is in the way."""
    if _stands(path, folder=is_folder(tree)):
        return
    *folders, last = [name for name in path.split(b"/") if name]
    current = os.open(b"/", _OPEN)
    for name in folders:
        following = _stand(current, name, folder=True)
        os.close(current)
        current = following
    os.close(_stand(current, last, folder=is_folder(tree)))
    os.close(current)


def _stands(path: bytes, *, folder: bool) -> bool:
    """Whether it exists; usually it does, from the command before."""
    try:
        found = kernel.open_plain(path)
    except OSError:
        return False
    fits = is_folder(found) == folder
    os.close(found)
    return fits


def _stand(parent: int, name: bytes, *, folder: bool) -> int:
    """Create or open it. Other commands of the conversation may do the same, so look again at what they just made."""
    for _ in range(_ATTEMPTS):
        try:
            found = step(parent, name, _OPEN)
            if is_folder(found) == folder:
                return found
            os.close(found)
            os.rename(name, b".moved-" + os.urandom(8).hex().encode(), src_dir_fd=parent, dst_dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != _ELOOP:
                raise
            _remove(parent, name)
        try:
            if folder:
                os.mkdir(name, 0o755, dir_fd=parent)
            else:
                os.mknod(name, 0o100644, dir_fd=parent)
        except FileExistsError:
            pass
    raise OSError(_EEXIST, "something is put in the way again and again", name)


def _remove(parent: int, link: bytes) -> None:
    try:
        os.unlink(link, dir_fd=parent)
    except FileNotFoundError:
        pass
