"""Which system calls a command may make, as a seccomp program.

All calls are allowed except those named here: calls that reach outside the command (other processes, mounts, namespaces, kernel
settings, sockets), and large, rarely needed parts of the kernel.
"""

import struct
from collections.abc import Iterable

from .syscalls import AUDIT_ARCH, NEWEST_KNOWN, numbers_for

EPERM = 1
ENOSYS = 38
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

# BPF opcodes: load a word, compare and jump, return.
_LOAD = 0x20
_EQUAL = 0x15
_GREATER = 0x25
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06
_JUMP = 0x05
_AND = 0x54

_NUMBER_AT = 0
_ARCH_AT = 4

_NAMESPACES_CLONE = 0x7E020000  # all of CLONE_NEW* but NEWTIME, whose bit belongs to the exit signal here
_NAMESPACES_UNSHARE = 0x7E020080
_SETUID = 0o4000
_SETUID_OR_SETGID = 0o6000
_MAKES_A_FILE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: only with these does the call have a mode
_PRIORITY_OF_A_USER = {"setpriority": 2, "ioprio_set": 3}  # PRIO_USER, IOPRIO_WHO_USER
_FIRST_PROCESS = 1
_TERMINAL_INJECTION = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)  # plain, 32 bit, old uname, no address randomisation, query only

_AF_UNIX = 1
_AF_INET = 2
_AF_INET6 = 10
_AF_NETLINK = 16
_SOCK_STREAM = 1
_SOCK_DGRAM = 2
_SOCK_SEQPACKET = 5
_SOCKET_TYPE = 0xF  # the other bits of that argument are SOCK_NONBLOCK and SOCK_CLOEXEC
_PROTOCOLS = (0, 1, 6, 17, 58, 262)  # default, ICMP, TCP, UDP, ICMPv6, MPTCP; others would load rarely used kernel modules
_WHOLE = 0xFFFFFFFF

REFUSED = (
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp"),
    # mounts and namespaces
    *("setns", "mount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount", "open_tree", "open_tree_attr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at", "fanotify_init"),
    # ways into the kernel
    *("bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "modify_ldt", "lsm_set_self_attr"),
    *("move_pages", "migrate_pages", "lookup_dcookie", "vhangup", "uselib", "ustat", "sysfs", "_sysctl", "nfsservctl"),
    # the machine
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct"),
    *("quotactl", "quotactl_fd", "settimeofday", "clock_settime", "sethostname", "setdomainname", "iopl", "ioperm", "syslog"),
)
# Answered as if this kernel had no such call, because programs then use older calls. `clone3` and `openat2` have their arguments in
# memory, where a filter cannot see them.
ABSENT = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
# Refused if the command has no IPC namespace of its own.
SHARED_IPC = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl"),
    *("mq_open", "mq_unlink"),
)
# Refused if no read-only mount protects the attributes of files outside the roots.
ATTRIBUTES = (
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    "file_setattr",
)
NETWORK = ("connect", "bind", "listen", "accept", "accept4", "sendmmsg")


Instruction = tuple[int, int, int, int]  # opcode, jump if true, jump if false, value
Code = list[Instruction]


def _argument_at(index: int, *, high: bool = False) -> int:
    return 16 + 8 * index + (4 if high else 0)


def _verdicts(if_matched: int, otherwise: int) -> Code:
    return [(_RETURN, 0, 0, if_matched), (_RETURN, 0, 0, otherwise)]


def _any_bit(argument: int, bits: int, error: int = EPERM) -> Code:
    """Refuse if any of `bits` is set. The kernel reads only 32 bits of these arguments, so only those are tested."""
    return [(_LOAD, 0, 0, _argument_at(argument)), (_ANY_BIT, 0, 1, bits), *_verdicts(_ERRNO | error, _ALLOW)]


def _one_of(argument: int, values: tuple[int, ...], *, listed: int, others: int) -> Code:
    code = [(_LOAD, 0, 0, _argument_at(argument))]
    for index, value in enumerate(values):
        code.append((_EQUAL, len(values) - index, 0, value))
    return [*code, (_RETURN, 0, 0, others), (_RETURN, 0, 0, listed)]


def _pointer_set(argument: int) -> Code:
    return [
        (_LOAD, 0, 0, _argument_at(argument)),
        (_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, _argument_at(argument, high=True)),
        (_EQUAL, 1, 0, 0),
        *_verdicts(_ERRNO | EPERM, _ALLOW),
    ]


def _all_of(*conditions: "tuple[int, int, tuple[int, ...]]") -> Code:
    """Allow calls that meet every condition (argument, bits of it, allowed values of those bits). Refuse all others."""
    code: Code = []
    for argument, bits, values in conditions:
        code += [(_LOAD, 0, 0, _argument_at(argument)), (_AND, 0, 0, bits)]
        code += [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
        code.append((_RETURN, 0, 0, _ERRNO | EPERM))
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _pairs_without_addresses() -> Code:
    """For socketpair: only kinds that cannot send to an address. For unix sockets, "raw" means datagrams."""
    return _all_of((0, _WHOLE, (_AF_UNIX,)), (1, _SOCKET_TYPE, (_SOCK_STREAM, _SOCK_SEQPACKET)))


def _ordinary_sockets(*, unix: bool) -> Code:
    """For socket: internet (not raw), the netlink protocol that lists interfaces, and unix if wanted.

    A unix socket can connect to any path, and no filter, mount or Landlock version in use here can distinguish another program's
    socket from one that the command has made.
    """
    netlink = _all_of((2, _WHOLE, (0,)))
    internet = _all_of((0, _WHOLE, (_AF_INET, _AF_INET6)), (1, _SOCKET_TYPE, (_SOCK_STREAM, _SOCK_DGRAM)), (2, _WHOLE, _PROTOCOLS))
    permitted: Code = [(_EQUAL, 0, 1, _AF_UNIX), (_RETURN, 0, 0, _ALLOW)] if unix else []
    family: Code = [(_LOAD, 0, 0, _argument_at(0)), *permitted, (_EQUAL, 0, len(netlink), _AF_NETLINK)]
    return [*family, *netlink, *internet]


def _plain_mode(flags: int, mode: int) -> Code:
    """For open and similar calls: no file may become setuid or setgid."""
    return [
        (_LOAD, 0, 0, _argument_at(flags)),
        (_ANY_BIT, 0, 3, _MAKES_A_FILE),
        (_LOAD, 0, 0, _argument_at(mode)),
        (_ANY_BIT, 0, 1, _SETUID_OR_SETGID),
        *_verdicts(_ERRNO | EPERM, _ALLOW),
    ]


def _own_limits() -> Code:
    """For prlimit64: read any limits, set only one's own, or the command could kill the process that watches it."""
    return [(_LOAD, 0, 0, _argument_at(0)), (_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW), *_pointer_set(2)]


def _priority(of_a_user: int) -> Code:
    """Not for all processes of the user, nor for the process that watches the command."""
    return [
        (_LOAD, 0, 0, _argument_at(0)),
        (_EQUAL, 2, 0, of_a_user),
        (_LOAD, 0, 0, _argument_at(1)),
        (_EQUAL, 0, 1, _FIRST_PROCESS),
        *_verdicts(_ERRNO | EPERM, _ALLOW),
    ]


def program(machine: str, *, network: str, own_namespaces: bool, unix_sockets: bool = False) -> bytes:
    """The filter for one kind of command. `own_namespaces`: it has its own mounts and IPC.

    `unix_sockets`: if there is a network, allow unix sockets, too.
    """
    numbers = numbers_for(machine)
    verdicts: dict[int, Code] = {}
    for name, code in _verdicts_by_name(network, own_namespaces=own_namespaces, unix_sockets=unix_sockets):
        if name in numbers:
            verdicts[numbers[name]] = code
    head: Code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_GREATER, 0, 1, NEWEST_KNOWN),  # this also covers all x32 calls, which have bit 30 set
        (_RETURN, 0, 0, _ERRNO | ENOSYS),
    ]
    code = [*head, *_search(sorted(verdicts.items()))]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _search(verdicts: list[tuple[int, Code]]) -> Code:
    """A binary search, because the kernel evaluates the whole filter for every call number when it is installed."""
    if len(verdicts) > 3:
        middle = len(verdicts) // 2
        below, above = _search(verdicts[:middle]), _search(verdicts[middle:])
        return [(_AT_LEAST, 0, 1, verdicts[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above]
    code: Code = []
    for number, block in verdicts:
        code += [(_EQUAL, 0, len(block), number), *block]
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _verdicts_by_name(network: str, *, own_namespaces: bool, unix_sockets: bool) -> Iterable[tuple[str, Code]]:
    for name in _refused(network, own_namespaces=own_namespaces):
        yield name, [(_RETURN, 0, 0, _ERRNO | EPERM)]
    for name in ABSENT:
        yield name, [(_RETURN, 0, 0, _ERRNO | ENOSYS)]
    yield from _argument_rules()
    yield from _network_rules(network, unix_sockets=unix_sockets)


def _argument_rules() -> Iterable[tuple[str, Code]]:
    yield "ioctl", _one_of(1, _TERMINAL_INJECTION, listed=_ERRNO | EPERM, others=_ALLOW)
    yield "clone", _any_bit(0, _NAMESPACES_CLONE)
    yield "unshare", _any_bit(0, _NAMESPACES_UNSHARE)
    for name, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        yield name, _any_bit(argument, _SETUID)  # setgid is usual for folders, which cannot be recognized here
    for name, argument in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        yield name, _any_bit(argument, _SETUID_OR_SETGID)
    yield "open", _plain_mode(1, 2)
    yield "openat", _plain_mode(2, 3)
    yield "personality", _one_of(0, _PERSONALITIES, listed=_ALLOW, others=_ERRNO | EPERM)
    yield "prlimit64", _own_limits()
    for name, of_a_user in _PRIORITY_OF_A_USER.items():
        yield name, _priority(of_a_user)
    for name in ("sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity"):
        yield name, _one_of(0, (_FIRST_PROCESS,), listed=_ERRNO | EPERM, others=_ALLOW)


def _network_rules(network: str, *, unix_sockets: bool) -> Iterable[tuple[str, Code]]:
    if network == "off":
        yield "sendto", _pointer_set(4)
    else:
        yield "socket", _ordinary_sockets(unix=unix_sockets)
    if network == "off" or not unix_sockets:
        yield "socketpair", _pairs_without_addresses()
    else:
        yield "socketpair", _one_of(0, (_AF_UNIX,), listed=_ALLOW, others=_ERRNO | EPERM)


def _refused(network: str, *, own_namespaces: bool) -> Iterable[str]:
    yield from REFUSED
    if not own_namespaces:
        yield from SHARED_IPC
        yield from ATTRIBUTES
    if network == "off":
        yield "socket"
        yield from NETWORK
