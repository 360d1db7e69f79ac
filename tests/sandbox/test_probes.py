"""Everything a hostile command might try, against every rung, by a plain user's server and by root's.

A refusal means something only for a probe that works where nothing contains it. So all are run unconfined first, as a plain
user (never as root, whose probes might do harm), and those that work there are the ones that discriminate.
"""

import os
import shutil

import pytest

from tests.sandbox.arena import PLAIN_UID, Arena, arena, drive, probe
from tests.sandbox.probes import MUST_WORK, PROBES

ROOT = os.geteuid() == 0
PLAIN = PLAIN_UID if ROOT else os.geteuid()
NEED_SOCKETS = {"ok_loopback_inside", "ok_unix_server_inside"}

# Stopped by file permissions, by the kernel's configuration or by Python, for a plain user and with no sandbox at all.
# What "refused" says about these is told by the runs as root only, or by nothing.
NOT_DISCRIMINATING = {
    *("write_etc", "chown_outside", "raw_icmp", "af_packet", "af_alg_create", "mount_tmpfs", "remount_rw"),
    *("open_by_handle", "bpf", "perf_event", "write_sysctl", "write_cgroup", "x32_syscall", "kmsg_read", "raw_disk_read"),
    *("inherited_fds", "ld_preload_env", "at_job", "real_root", "helper_proc_mem", "helper_descriptors"),
}
# Only where the kernel or the machine has it.
DEPENDS_ON_MACHINE = {
    "setuid_bin",
    "proc_1_root_escape",  # where the first process is one's own, as in many containers
    "io_uring",
    "userns_unshare",
    "userns_clone",
    "userns_clone3",
    "af_vsock_create",
    "mptcp",
    "tcp6",
}

PROTECTED_NAMES_MISSING = {"agentdir_create", "agentdir_fill", "agentfile_by_rename", "agentdir_by_symlink"}
PROTECTED_NAMES = {
    *("git_write", "git_config_write", "git_rename_swap", "git_via_symlink", "protected_link_swap", "protected_ancestor_rename"),
    *PROTECTED_NAMES_MISSING,
}
UNIX_SOCKETS = {"ok_unix_server_inside"}
OUTSIDE_SOCKETS = {
    *("pathname_unix_outside", "unix_by_relative_path", "unix_dgram_sendto", "unix_dgram_sendmsg", "scm_rights_out"),
    *("unix_raw_sendto", "unix_raw_sendmsg"),
}
BUBBLEWRAP_ENDS = {"protected_link_swap"}
BUBBLEWRAP_OPEN = {
    "helper_proc_mem",  # of bubblewrap's own first process, which holds nothing but the command line
    "fifo_outside",
}
NETWORK_ITSELF = {"tcp4", "tcp6", "tcp_bind_lan", "udp", "tcp_fastopen_sendto", "mptcp", "bash_dev_tcp"}

needs_root = pytest.mark.skipif(not ROOT, reason="shows what a server of root does: run the tests as root for it")
needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed (apt-get install bubblewrap)"
)


def outcomes(
    stage: Arena, *, uid: int, rung: str | None = "full", confined: bool = True, **changes: object
) -> tuple[set[str], set[str]]:
    """(attacks that worked, ordinary things that did not)."""
    results = probe(stage, stage.containment(**changes) if confined else None, uid=uid, rung=rung)
    assert set(results) == set(PROBES)
    done = {name for name, (outcome, _) in results.items() if outcome == "done"}
    return done - set(MUST_WORK), set(MUST_WORK) - done


@pytest.mark.slow
def test_unconfined_a_plain_user_can_do_all_that_the_sandbox_is_measured_by() -> None:
    with arena(PLAIN) as stage:
        worked, broken = outcomes(stage, uid=PLAIN, confined=False)
    assert broken == set()
    assert set(PROBES) - set(MUST_WORK) - worked - DEPENDS_ON_MACHINE == NOT_DISCRIMINATING
    assert len(worked) >= 60


def test_a_plain_users_command_can_do_none_of_it() -> None:
    with arena(PLAIN) as stage:
        assert outcomes(stage, uid=PLAIN) == (set(), NEED_SOCKETS)


@pytest.mark.slow
@needs_root
def test_a_command_of_root_on_its_own_workspace_can_do_none_of_it() -> None:
    with arena(0) as stage:
        assert outcomes(stage, uid=0) == (set(), NEED_SOCKETS)


@needs_root
@pytest.mark.slow
def test_a_command_of_root_on_another_users_workspace_can_do_none_of_it() -> None:
    with arena(PLAIN) as stage:
        assert outcomes(stage, uid=0) == (set(), NEED_SOCKETS)


@pytest.mark.slow
@pytest.mark.parametrize("server", [pytest.param(0, marks=needs_root), PLAIN])
def test_a_loopback_of_its_own_lets_all_ordinary_things_but_unix_servers_work_and_opens_nothing(server: int) -> None:
    with arena(server) as stage:
        assert outcomes(stage, uid=server, network="loopback") == (set(), UNIX_SOCKETS)


@pytest.mark.slow
def test_unix_sockets_work_where_they_are_opened_and_then_reach_outside() -> None:
    with arena(PLAIN) as stage:
        assert outcomes(stage, uid=PLAIN, network="loopback", unix_sockets=True) == (OUTSIDE_SOCKETS, set())
        assert outcomes(stage, uid=PLAIN, network="off", unix_sockets=True) == (set(), NEED_SOCKETS)


@pytest.mark.slow
def test_an_open_network_opens_the_network_and_nothing_else() -> None:
    with arena(PLAIN) as stage:
        worked, broken = outcomes(stage, uid=PLAIN, network="on")
    assert worked - NETWORK_ITSELF == set()
    assert {"tcp4", "udp"} <= worked
    assert broken == UNIX_SOCKETS


@pytest.mark.slow
@pytest.mark.parametrize("server", [pytest.param(0, marks=needs_root), PLAIN])
def test_the_landlock_rung_leaves_open_what_it_says(server: int) -> None:
    with arena(PLAIN) as stage:
        worked, broken = outcomes(stage, uid=server, rung="landlock")
    assert worked == {"chmod_outside", "utime_outside", *PROTECTED_NAMES}
    assert broken == {"ok_devshm_or_sem", *NEED_SOCKETS}


def outcomes_of_bubblewrap(stage: Arena, *, uid: int, network: str = "off") -> tuple[set[str], set[str]]:
    containment, names = stage.containment(network=network), [name for name in PROBES if name not in BUBBLEWRAP_ENDS]
    results = probe(stage, containment, *names, uid=uid, rung="bubblewrap")
    assert set(results) == set(names)
    done = {name for name, (outcome, _) in results.items() if outcome == "done"}
    return done - set(MUST_WORK), set(MUST_WORK) - done


@needs_bubblewrap
@pytest.mark.slow
@pytest.mark.parametrize("server", [pytest.param(0, marks=needs_root), PLAIN])
def test_the_bubblewrap_rung_leaves_open_what_it_says(server: int) -> None:
    with arena(server) as stage:
        worked, broken = outcomes_of_bubblewrap(stage, uid=server)
    assert worked == BUBBLEWRAP_OPEN
    assert broken == NEED_SOCKETS


@needs_bubblewrap
@pytest.mark.slow
def test_the_bubblewrap_rung_with_loopback_opens_nothing_more() -> None:
    with arena(PLAIN) as stage:
        assert outcomes_of_bubblewrap(stage, uid=PLAIN, network="loopback") == (BUBBLEWRAP_OPEN, UNIX_SOCKETS)


@pytest.mark.slow
@needs_bubblewrap
def test_the_bubblewrap_rung_ends_a_command_that_moves_a_protected_link() -> None:
    with arena(PLAIN) as stage:
        words = ["sh", "-c", "mv .linked away && mkdir .linked"]
        (ended,) = drive(stage, [(words, stage.containment())], uid=PLAIN, rung="bubblewrap")
        assert (ended["exit_code"], ended["exposed"]) == (137, str(stage.workspace / ".linked"))
