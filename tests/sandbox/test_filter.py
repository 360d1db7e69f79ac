"""The seccomp program and the tables it is made from, as data: for both machines, without running anything."""

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.sandbox.cell import seccomp
from understudy.sandbox.cell.syscalls import AUDIT_ARCH, MACHINES, NEWEST_KNOWN, NUMBERS, numbers_for

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
ALLOWED, EPERM, ENOSYS, KILLED = "allowed", "EPERM", "ENOSYS", "killed"
_NAMES = {0x7FFF0000: ALLOWED, 0x00050001: EPERM, 0x00050026: ENOSYS, 0x80000000: KILLED}

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK = 1, 2, 10, 16, 17, 40
STREAM, DATAGRAM, RAW, SEQPACKET = 1, 2, 3, 5
CREATE, TMPFILE = 0o100, 0o20200000


class Filter:
    """Evaluates a program as the kernel does."""

    def __init__(self, machine: str, *, network: str = "off", own_namespaces: bool = True, unix_sockets: bool = False) -> None:
        code = seccomp.program(machine, network=network, own_namespaces=own_namespaces, unix_sockets=unix_sockets)
        self._code = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
        self._machine = machine
        self._numbers = numbers_for(machine)

    def __call__(self, name: str, *arguments: int) -> str:
        return self.verdict(self._numbers[name], *arguments)

    def verdict(self, number: int, *arguments: int, arch: int | None = None) -> str:
        padded = [value & (2**64 - 1) for value in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
        data = struct.pack("<IIQ6Q", number, AUDIT_ARCH[self._machine] if arch is None else arch, 0, *padded)
        at = accumulator = 0
        while True:
            opcode, if_true, if_false, value = self._code[at]
            at += 1
            match opcode:
                case 0x20:
                    accumulator = struct.unpack_from("<I", data, value)[0]
                case 0x54:
                    accumulator &= value
                case 0x05:
                    at += value
                case 0x15:
                    at += if_true if accumulator == value else if_false
                case 0x25:
                    at += if_true if accumulator > value else if_false
                case 0x35:
                    at += if_true if accumulator >= value else if_false
                case 0x45:
                    at += if_true if accumulator & value else if_false
                case 0x06:
                    return _NAMES[value]
                case _:
                    raise AssertionError(f"opcode {opcode:#x}")


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    path = next((Path(name) for name in HEADERS[machine] if Path(name).exists()), None)
    if path is None:
        pytest.skip(f"no kernel headers for {machine} here (apt-get install linux-libc-dev)")
    pattern = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")
    theirs = {name: int(number) for name, number in pattern.findall(path.read_text())}
    ours = numbers_for(machine)
    assert {name: number for name, number in ours.items() if name in theirs} == {
        name: theirs[name] for name in ours if name in theirs
    }
    newer = {name for name in ours if name not in theirs}
    assert all(ours[name] > theirs["landlock_restrict_self"] for name in newer), (
        "only what is newer than the headers may be missing there"
    )
    assert max(ours.values()) <= NEWEST_KNOWN
    absent = set(NUMBERS) - set(ours)
    assert not absent & set(theirs), "what a machine has must be in its table, or the filter does not see it"


def test_what_reaches_outside_is_refused(machine: str) -> None:
    verdict = Filter(machine)
    numbers = numbers_for(machine)
    for name in seccomp.REFUSED:
        if name in numbers:
            assert verdict(name) == EPERM, name
    for name in seccomp.ABSENT:
        assert verdict(name) == ENOSYS, name
    for name in ("close_range", "landlock_create_ruleset", "prctl", "seccomp", "pidfd_send_signal"):
        assert verdict(name) == ALLOWED, name


def test_unknown_calls_and_foreign_machines_are_not_let_through(machine: str) -> None:
    verdict = Filter(machine)
    assert verdict.verdict(NEWEST_KNOWN + 1) == ENOSYS
    assert verdict.verdict(0x40000000 | 39) == ENOSYS
    assert verdict.verdict(0, arch=0x40000003) == KILLED


def test_new_namespaces_are_refused_and_threads_are_not(machine: str) -> None:
    verdict = Filter(machine)
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict("clone", flag | 17) == EPERM
        assert verdict("unshare", flag) == EPERM
    assert verdict("unshare", 0x80) == EPERM
    assert verdict("clone", 0x003D0F00) == ALLOWED  # what pthread_create asks for
    assert verdict("clone", 0x80 | 17) == ALLOWED
    assert verdict("unshare", 0x400) == ALLOWED


def test_terminal_injection_is_refused_however_the_upper_half_is_set(machine: str) -> None:
    verdict = Filter(machine)
    for command in (0x5412, 0x541C, 0x5423):
        assert verdict("ioctl", 0, command) == EPERM
        assert verdict("ioctl", 0, command | 1 << 32) == EPERM
    assert verdict("ioctl", 0, 0x5401) == ALLOWED


def test_no_file_becomes_setuid(machine: str) -> None:
    verdict = Filter(machine)
    for name, at in (("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        before = [0] * at
        assert verdict(name, *before, 0o4755) == EPERM
        assert verdict(name, *before, 0o2775) == ALLOWED
        assert verdict(name, *before, 0o755) == ALLOWED


def test_no_file_is_made_setuid_or_setgid(machine: str) -> None:
    verdict = Filter(machine)
    for special in (0o4755, 0o2755, 0o6000):
        assert verdict("mknodat", 3, 0x10, 0o100000 | special) == EPERM
        for flags in (CREATE, CREATE | 2, TMPFILE | 1):
            assert verdict("openat", 3, 0x10, flags, special) == EPERM
        assert verdict("openat", 3, 0x10, 0, special) == ALLOWED  # without a file to make, the mode is whatever stood there
    assert verdict("openat", 3, 0x10, CREATE, 0o1777) == ALLOWED
    assert verdict("mknodat", 3, 0x10, 0o010644) == ALLOWED
    assert verdict("openat2", 3, 0x10, 0x20, 24) == ENOSYS


def test_what_watches_the_command_keeps_its_limits_and_its_priority(machine: str) -> None:
    verdict = Filter(machine)
    assert verdict("prlimit64", 1, 7, 0x10) == EPERM
    assert verdict("prlimit64", 4321, 7, 0x7F0000000000) == EPERM
    assert verdict("prlimit64", 1, 7, 0) == ALLOWED
    assert verdict("prlimit64", 0, 7, 0x10) == ALLOWED
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert (verdict(name, 1), verdict(name, 0), verdict(name, 77)) == (EPERM, ALLOWED, ALLOWED)
    for name, process, user in (("setpriority", 0, 2), ("ioprio_set", 1, 3)):
        assert (verdict(name, process, 1), verdict(name, process, 0), verdict(name, process, 77)) == (EPERM, ALLOWED, ALLOWED)
        assert verdict(name, user, 0) == EPERM


def test_without_a_network_there_are_only_nameless_pairs(machine: str) -> None:
    verdict = Filter(machine, network="off")
    for name in ("connect", "bind", "listen", "accept", "accept4", "sendmmsg"):
        assert verdict(name) == EPERM
    for family in (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK):
        assert verdict("socket", family, STREAM) == EPERM
    assert verdict("socketpair", AF_UNIX, STREAM | 0o2000000) == ALLOWED
    assert verdict("socketpair", AF_UNIX, SEQPACKET | 0o4000) == ALLOWED
    for kind in set(range(16)) - {STREAM, SEQPACKET}:
        for flags in (0, 0o4000, 0o2000000, 0o2004000, 1 << 32):
            assert verdict("socketpair", AF_UNIX, kind | flags) == EPERM
    assert verdict("socketpair", AF_INET, STREAM) == EPERM
    assert verdict("sendto", 3, 1, 1, 0, 0) == ALLOWED
    assert verdict("sendto", 3, 1, 1, 0, 0x7F0000000000) == EPERM
    assert verdict("sendto", 3, 1, 1, 0, 0x10) == EPERM


@pytest.mark.parametrize("network", ["loopback", "on"])
def test_with_a_network_ordinary_sockets_are_allowed_and_odd_ones_are_not(machine: str, network: str) -> None:
    verdict = Filter(machine, network=network)
    assert verdict("connect") == ALLOWED
    assert verdict("sendto", 3, 1, 1, 0, 0x10) == ALLOWED
    for family in (AF_INET, AF_INET6):
        assert verdict("socket", family, STREAM | 0o4000) == ALLOWED
        assert verdict("socket", family, DATAGRAM | 0o2000000, 17) == ALLOWED
        assert verdict("socket", family, RAW, 1) == EPERM
        assert verdict("socket", family, SEQPACKET, 132) == EPERM
        assert verdict("socket", family, STREAM, 256) == EPERM
    assert verdict("socket", AF_NETLINK, RAW, 0) == ALLOWED
    assert verdict("socket", AF_NETLINK, RAW, 4) == EPERM
    for family in (AF_PACKET, AF_VSOCK, 38):
        assert verdict("socket", family, STREAM) == EPERM
    assert verdict("socket", AF_UNIX, STREAM) == EPERM
    assert verdict("socketpair", AF_UNIX, STREAM) == ALLOWED
    assert verdict("socketpair", AF_UNIX, RAW) == EPERM


@pytest.mark.parametrize("network", ["loopback", "on"])
def test_unix_sockets_are_part_of_a_network_where_they_are_opened(machine: str, network: str) -> None:
    verdict = Filter(machine, network=network, unix_sockets=True)
    assert verdict("socket", AF_UNIX, STREAM | 0o4000) == ALLOWED
    assert verdict("socketpair", AF_UNIX, DATAGRAM) == ALLOWED
    assert verdict("socket", AF_INET, STREAM) == ALLOWED
    assert verdict("socket", AF_NETLINK, RAW, 0) == ALLOWED
    assert verdict("socket", AF_PACKET, RAW) == EPERM
    assert Filter(machine, network="off", unix_sockets=True)("socket", AF_UNIX, STREAM) == EPERM


def test_without_namespaces_shared_memory_and_attributes_are_refused(machine: str) -> None:
    for name in (*seccomp.SHARED_IPC, *seccomp.ATTRIBUTES):
        assert Filter(machine, own_namespaces=False)(name) == EPERM
        assert Filter(machine, own_namespaces=True)(name) == ALLOWED


_FILTERS = {name: Filter(name) for name in MACHINES}
_NAMED = {
    name: {
        numbers_for(name)[call]
        for call in (*seccomp.REFUSED, *seccomp.ABSENT, *seccomp.NETWORK, "socket")
        if call in numbers_for(name)
    }
    for name in MACHINES
}
_BY_ARGUMENT = (
    *("ioctl", "clone", "unshare", "chmod", "fchmod", "fchmodat", "fchmodat2", "personality", "socketpair", "sendto"),
    *("open", "openat", "creat", "mknod", "mknodat", "prlimit64", "setpriority", "ioprio_set"),
    *("sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity"),
)


@given(
    machine=st.sampled_from(MACHINES),
    number=st.integers(0, NEWEST_KNOWN),
    arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6),
)
def test_every_call_gets_the_verdict_of_the_lists(machine: str, number: int, arguments: list[int]) -> None:
    verdict = _FILTERS[machine].verdict(number, *arguments)
    numbers = numbers_for(machine)
    if number in _NAMED[machine]:
        assert verdict in (EPERM, ENOSYS)
    elif number not in {numbers[name] for name in _BY_ARGUMENT if name in numbers}:
        assert verdict == ALLOWED
