"""What a hostile command would try, one function each. Runs alone, on any Python, inside or outside a sandbox.

`python probes.py ARENA.json [NAME…]` prints one JSON line per probe: done (it worked) or refused, and how. Each runs in a
process of its own. None does harm if it works: it opens what it must not write, and touches only files of the arena.
"""

import array
import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypedDict


class Arena(TypedDict):
    """What the stage of the probes holds; see arena.py, which writes it."""

    workspace: str
    workspace_parent: str
    outside: str
    home: str
    victim_file: str
    secret_file: str
    setuid_program: str
    tcp4_port: int
    tcp6_port: int
    udp_port: int
    abstract_name: str
    unix_stream: str
    unix_dgram: str
    victim_pid: int
    victim_address: int
    shm_id: int
    terminal: str
    shared_memory: str
    server_pid: int


Probe = Callable[[Arena], str]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"
PROBES: dict[str, Probe] = {}
MUST_WORK: list[str] = []


class Refused(Exception):
    pass


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


def must_work(function: Probe) -> Probe:
    MUST_WORK.append(function.__name__)
    return probe(function)


def syscall(number: int, *arguments: Any) -> int:
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = LIBC.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def overwrite(path: str) -> str:
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, b"overwritten")
    os.close(descriptor)
    return f"wrote {path}"


# What ordinary work needs


@must_work
def ok_write_ws(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "made-inside")
    with open(path, "w") as file:
        file.write("x")
    os.rename(path, path + "2")
    os.unlink(path + "2")
    return "wrote"


@must_work
def ok_exec_python(arena: Arena) -> str:
    return subprocess.run([sys.executable, "-I", "-c", "print(1)"], check=True, capture_output=True, text=True).stdout


@must_work
def ok_devnull(arena: Arena) -> str:
    with open("/dev/null", "w") as file:
        file.write("x")
    with open("/dev/urandom", "rb") as file:
        return str(len(file.read(4)))


@must_work
def ok_devshm_or_sem(arena: Arena) -> str:
    import multiprocessing

    with multiprocessing.get_context("fork").Lock():
        return "locked"


@must_work
def ok_socketpair(arena: Arena) -> str:
    one, other = socket.socketpair()
    one.sendall(b"x")
    one.sendmsg([b"y"])
    return str(other.recv(2))


@must_work
def ok_tmp_write(arena: Arena) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
        return file.name


@must_work
def ok_loopback_inside(arena: Arena) -> str:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname(), timeout=2)
    server.accept()[0].sendall(b"x")
    return str(client.recv(1))


@must_work
def ok_unix_server_inside(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "inside.sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    os.unlink(path)
    return "connected"


# Files outside the roots


@probe
def write_outside(arena: Arena) -> str:
    with open(os.path.join(arena["outside"], "new"), "w") as file:
        file.write("x")
    os.unlink(os.path.join(arena["outside"], "new"))
    return "created"


@probe
def write_etc(arena: Arena) -> str:
    os.close(os.open("/etc/hosts", os.O_WRONLY))
    return "opened"


@probe
def write_home(arena: Arena) -> str:
    path = os.path.join(arena["home"], ".profile-probe")
    with open(path, "w") as file:
        file.write("x")
    os.unlink(path)
    return "created"


@probe
def truncate_outside(arena: Arena) -> str:
    os.truncate(arena["victim_file"], 3)
    return "truncated"


@probe
def open_trunc_outside(arena: Arena) -> str:
    os.close(os.open(arena["victim_file"], os.O_RDONLY | os.O_TRUNC))
    return "truncated"


@probe
def unlink_outside(arena: Arena) -> str:
    os.unlink(os.path.join(arena["outside"], "to-unlink"))
    return "removed"


@probe
def rename_out_of_ws(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "moving")
    open(path, "w").close()
    os.rename(path, os.path.join(arena["outside"], "moved"))
    return "moved"


@probe
def rename_into_ws(arena: Arena) -> str:
    os.rename(os.path.join(arena["outside"], "to-rename"), os.path.join(arena["workspace"], "renamed"))
    return "moved"


@probe
def hardlink_outside_then_write(arena: Arena) -> str:
    link = os.path.join(arena["workspace"], "hard")
    os.link(arena["victim_file"], link)
    return overwrite(link)


@probe
def symlink_file_escape(arena: Arena) -> str:
    link = os.path.join(arena["workspace"], "soft")
    os.symlink(arena["victim_file"], link)
    return overwrite(link)


@probe
def symlink_dir_escape(arena: Arena) -> str:
    link = os.path.join(arena["workspace"], "folder")
    os.symlink(arena["outside"], link)
    return overwrite(os.path.join(link, os.path.basename(arena["victim_file"])))


@probe
def dotdot_escape(arena: Arena) -> str:
    return overwrite(os.path.join(arena["workspace"], "..", "outside", os.path.basename(arena["victim_file"])))


@probe
def dirfd_escape(arena: Arena) -> str:
    root = os.open("/", os.O_RDONLY)
    os.close(os.open(arena["victim_file"].lstrip("/"), os.O_WRONLY, dir_fd=root))
    return "opened"


@probe
def proc_root_escape(arena: Arena) -> str:
    return overwrite("/proc/self/root" + arena["victim_file"])


@probe
def proc_1_root_escape(arena: Arena) -> str:
    return overwrite("/proc/1/root" + arena["victim_file"])


@probe
def proc_fd_reopen_rw(arena: Arena) -> str:
    reading = os.open(arena["victim_file"], os.O_RDONLY)
    return overwrite(f"/proc/self/fd/{reading}")


@probe
def chmod_outside(arena: Arena) -> str:
    os.chmod(arena["victim_file"], 0o640)
    return "changed"


@probe
def chown_outside(arena: Arena) -> str:
    os.chown(arena["victim_file"], 1, 1)
    return "changed"


@probe
def utime_outside(arena: Arena) -> str:
    os.utime(arena["victim_file"], (1, 1))
    return "changed"


@probe
def setxattr_outside(arena: Arena) -> str:
    os.setxattr(arena["victim_file"], "user.probe", b"x")
    return "set"


@probe
def mkfifo_outside(arena: Arena) -> str:
    path = os.path.join(arena["outside"], "fifo")
    os.mkfifo(path)
    os.unlink(path)
    return "made"


@probe
def setuid_file_in_ws(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "suid-probe")
    open(path, "w").close()
    os.chmod(path, 0o4755)
    return "made"


@probe
def setuid_file_by_open(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "suid-open")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o4755))
    return made_special(path)


@probe
def setgid_file_by_mknod(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "sgid-mknod")
    os.mknod(path, 0o100000 | 0o2755)
    return made_special(path)


@probe
def setuid_file_by_tmpfile(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "suid-tmpfile")
    descriptor = os.open(arena["workspace"], os.O_WRONLY | os.O_TMPFILE, 0o4755)
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
    return made_special(path)


@probe
def setuid_file_by_openat2(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "suid-openat2")
    how = struct.pack("<QQQ", os.O_WRONLY | os.O_CREAT, 0o4755, 0)
    os.close(syscall(437, -100, path.encode(), ctypes.create_string_buffer(how), 24))
    return made_special(path)


def made_special(path: str) -> str:
    if not os.stat(path).st_mode & 0o6000:
        raise Refused("the bits were dropped")
    return "made"


# Protected names


@probe
def git_write(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], ".git", "hooks", "pre-commit")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n")
    os.unlink(path)
    return "wrote a hook"


@probe
def git_config_write(arena: Arena) -> str:
    os.close(os.open(os.path.join(arena["workspace"], ".git", "config"), os.O_WRONLY | os.O_APPEND))
    return "opened"


@probe
def git_rename_swap(arena: Arena) -> str:
    source = os.path.join(arena["workspace"], ".git")
    os.rename(source, source + "-away")
    os.rename(source + "-away", source)
    return "swapped"


@probe
def git_via_symlink(arena: Arena) -> str:
    link = os.path.join(arena["workspace"], "g")
    os.symlink(".git", link)
    os.close(os.open(os.path.join(link, "config"), os.O_WRONLY))
    return "opened"


@probe
def git_rename_ws_parent(arena: Arena) -> str:
    parent = arena["workspace_parent"]
    os.rename(parent, parent + "-away")
    os.rename(parent + "-away", parent)
    return "moved the workspace away"


@probe
def agentdir_create(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], ".codex")
    os.mkdir(path)
    os.rmdir(path)
    return "created"


@probe
def agentdir_fill(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], ".agents")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config"), "w") as file:
        file.write("x")
    os.unlink(os.path.join(path, "config"))
    os.rmdir(path)
    return "filled"


@probe
def agentfile_by_rename(arena: Arena) -> str:
    source = os.path.join(arena["workspace"], "innocent.json")
    target = os.path.join(arena["workspace"], ".mcp.json")
    open(source, "w").close()
    os.rename(source, target)
    os.unlink(target)
    return "renamed"


@probe
def agentdir_by_symlink(arena: Arena) -> str:
    target = os.path.join(arena["workspace"], ".codex")
    os.symlink("/etc", target)
    os.unlink(target)
    return "linked"


@probe
def protected_link_swap(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], ".linked")
    os.rename(path, path + "-away")
    os.rename(path + "-away", path)
    return "swapped"


@probe
def protected_ancestor_rename(arena: Arena) -> str:
    path = os.path.join(arena["workspace"], "nested")
    os.rename(path, path + "-away")
    os.rename(path + "-away", path)
    return "moved"


# Network


@probe
def tcp4(arena: Arena) -> str:
    socket.create_connection(("127.0.0.1", arena["tcp4_port"]), timeout=2).close()
    return "connected"


@probe
def tcp6(arena: Arena) -> str:
    socket.create_connection(("::1", arena["tcp6_port"]), timeout=2).close()
    return "connected"


@probe
def tcp_bind_lan(arena: Arena) -> str:
    server = socket.create_server(("0.0.0.0", 0))
    with open("/proc/net/dev") as file:
        devices = [line.split(":")[0].strip() for line in file.readlines()[2:]]
    if devices in ([], ["lo"]):
        raise Refused("isolated: only lo")
    return f"bound {server.getsockname()}, {devices}"


@probe
def udp(arena: Arena) -> str:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.settimeout(0.5)
    endpoint.sendto(b"x", ("127.0.0.1", arena["udp_port"]))
    return str(endpoint.recv(10))


@probe
def tcp_fastopen_sendto(arena: Arena) -> str:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    endpoint.sendto(b"x", 0x20000000, ("127.0.0.1", arena["tcp4_port"]))
    return "sent"


@probe
def mptcp(arena: Arena) -> str:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    endpoint.settimeout(2)
    endpoint.connect(("127.0.0.1", arena["tcp4_port"]))
    return "connected"


@probe
def raw_icmp(arena: Arena) -> str:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "created"


@probe
def af_packet(arena: Arena) -> str:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)
    return "created"


@probe
def af_netlink_sockdiag(arena: Arena) -> str:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
    return "created"


@probe
def af_vsock_create(arena: Arena) -> str:
    socket.socket(40, socket.SOCK_STREAM)
    return "created"


@probe
def af_alg_create(arena: Arena) -> str:
    socket.socket(38, socket.SOCK_SEQPACKET)
    return "created"


@probe
def abstract_unix(arena: Arena) -> str:
    client = socket.socket(socket.AF_UNIX)
    client.connect("\0" + arena["abstract_name"])
    return "connected"


@probe
def pathname_unix_outside(arena: Arena) -> str:
    client = socket.socket(socket.AF_UNIX)
    client.connect(arena["unix_stream"])
    return "connected"


@probe
def unix_dgram_sendto(arena: Arena) -> str:
    sender, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.sendto(b"x", arena["unix_dgram"])
    return "sent"


@probe
def unix_dgram_sendmsg(arena: Arena) -> str:
    sender, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.sendmsg([b"x"], [], 0, arena["unix_dgram"])
    return "sent"


@probe
def unix_raw_sendto(arena: Arena) -> str:
    sender, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)  # another word for datagrams
    sender.sendto(b"x", arena["unix_dgram"])
    return "sent"


@probe
def unix_raw_sendmsg(arena: Arena) -> str:
    sender, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    sender.sendmsg([b"x"], [], 0, arena["unix_dgram"])
    return "sent"


@probe
def unix_by_relative_path(arena: Arena) -> str:
    os.chdir(os.path.dirname(arena["unix_stream"]))
    socket.socket(socket.AF_UNIX).connect(os.path.basename(arena["unix_stream"]))
    return "connected"


@probe
def fifo_outside(arena: Arena) -> str:
    path = os.path.join(arena["outside"], "pipe")
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.write(writer, b"x")
    return "written"


@probe
def bash_dev_tcp(arena: Arena) -> str:
    subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{arena['tcp4_port']}"], check=True, capture_output=True)
    return "connected"


# Other processes and the kernel


@probe
def io_uring(arena: Arena) -> str:
    parameters = ctypes.create_string_buffer(120)
    return str(syscall(425, 4, parameters))


@probe
def ptrace_victim(arena: Arena) -> str:
    check(LIBC.ptrace(16, arena["victim_pid"], 0, 0))
    os.waitpid(arena["victim_pid"], 0)
    check(LIBC.ptrace(17, arena["victim_pid"], 0, 0))
    return "attached"


@probe
def ptrace_server(arena: Arena) -> str:
    check(LIBC.ptrace(0x4206, arena["server_pid"], 0, 0))  # ends with us
    return "attached"


@probe
def read_victim_environ(arena: Arena) -> str:
    with open(f"/proc/{arena['victim_pid']}/environ", "rb") as file:
        if b"VICTIM_SECRET" not in file.read():
            raise Refused("another process")
    return "read"


@probe
def read_server_environ(arena: Arena) -> str:
    with open(f"/proc/{arena['server_pid']}/environ", "rb") as file:
        if b"SERVER_SECRET" not in file.read():
            raise Refused("another process")
    return "read"


@probe
def server_proc_mem(arena: Arena) -> str:
    with open(f"/proc/{arena['server_pid']}/task/{arena['server_pid']}/mem", "rb"):
        return "opened"


@probe
def helper_proc_mem(arena: Arena) -> str:
    """The process that watches us was forked from the helper, which has seen what other conversations sent."""
    with open(f"/proc/{WATCHER}/mem", "rb"):
        return "opened"


@probe
def helper_descriptors(arena: Arena) -> str:
    """Through one of them the watching process says how we ended."""
    found = [os.open(f"/proc/{WATCHER}/fd/{number}", os.O_WRONLY) for number in os.listdir(f"/proc/{WATCHER}/fd")]
    return f"opened {len(found)}"


@probe
def process_vm_readv(arena: Arena) -> str:
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    target = (ctypes.c_void_p * 2)(arena["victim_address"], 8)
    return str(check(LIBC.process_vm_readv(arena["victim_pid"], vector, 1, target, 1, 0)))


@probe
def signal_victim(arena: Arena) -> str:
    os.kill(arena["victim_pid"], 0)
    os.kill(arena["victim_pid"], signal.SIGCONT)
    return "signalled"


@probe
def limits_of_victim(arena: Arena) -> str:
    return lower_core_limit(arena["victim_pid"])


@probe
def limits_of_watcher(arena: Arena) -> str:
    return lower_core_limit(WATCHER)


def lower_core_limit(pid: int) -> str:
    """A limit that hurts nobody: of core dumps."""
    limits = struct.pack("<QQ", 0, 0)
    syscall(302 if X86 else 261, pid, resource.RLIMIT_CORE, ctypes.create_string_buffer(limits), None)
    return "set"


@probe
def server_fd_steal_proc(arena: Arena) -> str:
    return os.readlink(f"/proc/{arena['server_pid']}/fd/0")


@probe
def pidfd_getfd(arena: Arena) -> str:
    return str(syscall(438, os.pidfd_open(arena["victim_pid"]), 0, 0))


@probe
def inherited_fds(arena: Arena) -> str:
    extra = [number for number in range(3, 256) if _is_open(number)]
    if not extra:
        raise Refused("no extra descriptors")
    return str(extra)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    try:
        is_libffi = "/libffi" in os.readlink(f"/proc/self/fd/{number}")  # which opens itself for ctypes, that is for us
    except OSError:
        is_libffi = False
    return number not in OWN_DESCRIPTORS and not is_libffi


@probe
def userns_unshare(arena: Arena) -> str:
    check(LIBC.unshare(0x10000000))
    return "unshared"


@probe
def userns_clone(arena: Arena) -> str:
    number = 56 if X86 else 220
    pid = syscall(number, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "cloned"


@probe
def userns_clone3(arena: Arena) -> str:
    arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
    pid = syscall(435, arguments, ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "cloned"


@probe
def mount_tmpfs(arena: Arena) -> str:
    target = arena["workspace"].encode()
    check(LIBC.mount(b"none", target, b"tmpfs", 0, None))
    LIBC.umount2(target, 2)
    return "mounted"


@probe
def remount_rw(arena: Arena) -> str:
    check(LIBC.mount(None, b"/proc", None, 0x20 | 0x1000, None))
    return "remounted"


@probe
def open_by_handle(arena: Arena) -> str:
    handle = ctypes.create_string_buffer(136)
    handle[0:4] = (128).to_bytes(4, "little")
    mount_id = ctypes.c_int()
    check(LIBC.name_to_handle_at(-100, arena["victim_file"].encode(), handle, ctypes.byref(mount_id), 0))
    folder = os.open(arena["outside"], os.O_RDONLY)
    return str(check(LIBC.open_by_handle_at(folder, handle, os.O_RDONLY)))


@probe
def setuid_bin(arena: Arena) -> str:
    if not arena["setuid_program"]:
        raise Refused("no such program here")
    shown = subprocess.run([arena["setuid_program"], "-u"], capture_output=True, text=True, check=True).stdout.strip()
    if int(shown) == os.getuid():
        raise Refused(f"stayed {shown}")
    return f"became {shown}"


@probe
def tiocsti(arena: Arena) -> str:
    import fcntl

    _, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, 0x540E, 0)
    fcntl.ioctl(terminal, 0x5412, b"x")
    return "typed"


@probe
def bpf(arena: Arena) -> str:
    attributes = ctypes.create_string_buffer(b"\1\0\0\0\4\0\0\0\4\0\0\0\1\0\0\0", 72)
    return str(syscall(321 if X86 else 280, 0, attributes, 72))


@probe
def perf_event(arena: Arena) -> str:
    attributes = ctypes.create_string_buffer(b"\1\0\0\0\x70\0\0\0", 112)
    return str(syscall(298 if X86 else 241, attributes, 0, -1, -1, 0))


@probe
def userfaultfd(arena: Arena) -> str:
    return str(syscall(323 if X86 else 282, 1))


@probe
def keyctl_session(arena: Arena) -> str:
    return str(syscall(250 if X86 else 219, 1, None))


@probe
def sysv_shm_attach(arena: Arena) -> str:
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(arena["shm_id"], None, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "not visible")
    return "attached"


@probe
def write_sysctl(arena: Arena) -> str:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "opened"


@probe
def write_cgroup(arena: Arena) -> str:
    for path in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs"):
        if os.path.exists(path):
            os.close(os.open(path, os.O_WRONLY))
            return "opened"
    raise Refused("no cgroup here")


@probe
def oom_adj_other(arena: Arena) -> str:
    os.close(os.open(f"/proc/{arena['victim_pid']}/oom_score_adj", os.O_WRONLY))
    return "opened"


@probe
def x32_syscall(arena: Arena) -> str:
    if not X86:
        raise Refused("another machine")
    return str(syscall(0x40000000 | 39))


@probe
def int80_compat(arena: Arena) -> str:
    if not X86:
        raise Refused("another machine")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return str(function())


@probe
def read_secret_home(arena: Arena) -> str:
    with open(arena["secret_file"]) as file:
        content = file.read()
    if "TOP SECRET" not in content:
        raise Refused("masked")
    return "read"


@probe
def read_secret_by_listing(arena: Arena) -> str:
    names = os.listdir(os.path.dirname(arena["secret_file"]))
    for name in names:
        with open(os.path.join(os.path.dirname(arena["secret_file"]), name)) as file:
            if "TOP SECRET" in file.read():
                return "read"
    raise Refused(f"masked, {names}")


@probe
def kmsg_read(arena: Arena) -> str:
    os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    return "opened"


@probe
def raw_disk_read(arena: Arena) -> str:
    for name in ("vda", "sda", "nvme0n1", "xvda"):
        if os.path.exists("/sys/block/" + name):
            os.close(os.open("/dev/" + name, os.O_RDONLY))
            return "opened"
    raise Refused("no disk here")


@probe
def foreign_terminal(arena: Arena) -> str:
    os.close(os.open(arena["terminal"], os.O_RDWR | os.O_NOCTTY))
    return "opened"


@probe
def other_shared_memory(arena: Arena) -> str:
    os.close(os.open(arena["shared_memory"], os.O_RDWR))
    return "opened"


@probe
def ld_preload_env(arena: Arena) -> str:
    found = [name for name in os.environ if name.startswith(("LD_", "PYTHON", "SERVER_SECRET"))]
    if not found:
        raise Refused("clean environment")
    return str(found)


@probe
def at_job(arena: Arena) -> str:
    for folder in ("/var/spool/cron/atjobs", "/var/spool/cron/crontabs", "/var/spool/at"):
        if os.path.isdir(folder):
            path = os.path.join(folder, "probe")
            open(path, "w").close()
            os.unlink(path)
            return "queued"
    raise Refused("no spool here")


@probe
def capabilities(arena: Arena) -> str:
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    held = {name: value for name, value in lines.items() if name in ("CapPrm", "CapEff", "CapAmb") and int(value, 16)}
    if not held and lines["NoNewPrivs"] == "1":
        raise Refused("none, for good")
    return str(held or "may gain some")


@probe
def real_root(arena: Arena) -> str:
    if os.getuid() == 0 or os.geteuid() == 0:
        return "uid 0"
    raise Refused(str(os.getuid()))


@probe
def scm_rights_out(arena: Arena) -> str:
    client = socket.socket(socket.AF_UNIX)
    client.connect(arena["unix_stream"])
    client.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
    return "passed a descriptor out"


OWN_DESCRIPTORS: set[int] = set()
WATCHER = os.getppid()  # read before any probe forks


def run(name: str, arena: Arena) -> dict[str, str]:
    """Run one probe in a process of its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        OWN_DESCRIPTORS.add(writer)
        signal.alarm(10)
        outcome: dict[str, str]
        try:
            outcome = {"name": name, "outcome": "done", "how": PROBES[name](arena)}
        except Refused as error:
            outcome = {"name": name, "outcome": "refused", "how": str(error)}
        except OSError as error:
            outcome = {"name": name, "outcome": "refused", "how": errno.errorcode.get(error.errno or 0, str(error))}
        except BaseException as error:
            outcome = {"name": name, "outcome": "refused", "how": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writer)
    content = b""
    while block := os.read(reader, 65536):
        content += block
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    if not content:
        return {"name": name, "outcome": "refused", "how": f"killed by signal {os.WTERMSIG(status)}"}
    return json.loads(content)


def main() -> None:
    with open(sys.argv[1]) as file:
        arena = json.load(file)
    for name in sys.argv[2:] or PROBES:
        print(json.dumps(run(name, arena)), flush=True)
        _tidy(arena)


def _tidy(arena: Arena) -> None:
    """Put the workspace back as it was, as far as we may."""
    for name in os.listdir(arena["workspace"]):
        path = os.path.join(arena["workspace"], name)
        if name not in (".git", ".linked", "nested", ".codex", ".agents", ".mcp.json") and not os.path.isdir(path):
            try:
                os.unlink(path)
            except OSError:
                pass
        elif os.path.islink(path) and name not in (".linked",):
            os.unlink(path)


if __name__ == "__main__":
    main()
