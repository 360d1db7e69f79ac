"""Claims: one owner among all processes, whose death frees them, and no child keeps them."""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

from tests.store.records import append, claimed, is_free, new_id, noticed, open_log, opened
from tests.support.answered import answered
from understudy.store.locks import ByteLocks, Flock
from understudy.store.log import Holder
from understudy.store.sqlite.event_log import SqliteLog, number_of
from understudy.testing.waiting import WAIT_SECONDS

HOLDER = """
import subprocess, sys
from pathlib import Path
from tests.support.answered import answered
from understudy.store.log import Holder
from understudy.store.sqlite.event_log import SqliteLog

log = SqliteLog(Path(sys.argv[1]))
claims = [answered(log.claim(name)) for name in sys.argv[2:]]
child = subprocess.Popen(["sleep", "60"])
print(child.pid, *("no" if isinstance(claim, Holder) else "yes" for claim in claims), flush=True)
sys.stdin.readline()
claims[0].release()
print("released", flush=True)
sys.stdin.readline()
"""


class OtherProcess:
    """Another process that claims conversations and has a child that outlives it."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder), *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.child, *self.got = self._line().split()

    def release(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._line() == "released\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def clean_up(self) -> None:
        self.kill()
        os.kill(int(self.child), signal.SIGKILL)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


async def test_a_conversation_has_one_owner_and_others_see_it(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name, free = new_id(), new_id()
    claim = claimed(log, name)
    assert answered(other.claim(name)) == Holder()
    assert not is_free(other, name)
    assert is_free(log, name), "our own claims are known to their holders"
    assert is_free(other, free)
    claim.release()
    claim.release()
    again = claimed(other, name)
    assert not is_free(log, name)
    again.release()
    assert is_free(log, name)
    log.close()
    other.close()


async def test_a_killed_process_frees_its_claims_though_its_child_lives(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    held, also, free = new_id(), new_id(), new_id()
    holder = OtherProcess(tmp_path, held, also)
    try:
        assert holder.got == ["yes", "yes"]
        assert answered(log.claim(held)) == Holder()
        assert not is_free(log, held)
        claimed(log, free)  # other conversations are not touched
        holder.release()
        claimed(log, held)
        assert answered(log.claim(also)) == Holder()
        holder.kill()
        os.kill(int(holder.child), 0)  # alive, and it inherited nothing
        claimed(log, also)
    finally:
        holder.clean_up()
        log.close()


async def test_an_overtaken_owner_is_refused_by_its_epoch(tmp_path: Path) -> None:
    """What a lock cannot do on every disk the epoch does."""
    import pytest

    from understudy.errors import Fenced

    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    await append(other, noticed(name, 2, 2, claims=True))
    with pytest.raises(Fenced, match=name):
        await append(log, noticed(name, 1, 2))
    log.close()
    other.close()


def test_a_lock_is_one_byte_and_the_descriptor_is_not_inherited(tmp_path: Path) -> None:
    first, second = ByteLocks(tmp_path / "locks"), ByteLocks(tmp_path / "locks")
    numbers = [0, 1, 2, number_of("ffffffff-ffff-ffff-ffff-ffffffffffff"), number_of("00000000-0000-0000-ffff-ffffffffffff")]
    assert first.try_lock(numbers[0])
    for number in numbers[1:4]:
        assert second.try_lock(number)
        assert not first.try_lock(number)
    assert not second.try_lock(numbers[4])
    assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o600
    first.close()
    assert second.try_lock(numbers[0])
    second.close()


async def test_a_claim_may_be_given_back_after_the_store_is_closed(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    claim = claimed(log, name)
    log.close()
    claim.release()
    claimed(other, name)
    other.close()


def test_the_kernel_is_spoken_to_in_the_layout_of_the_platform() -> None:
    number = 0x0102030405060708
    linux, macos = Flock("linux"), Flock("darwin")
    assert linux.pack(1, number) == struct.pack("hhqqi4x", 1, 0, number, 1, 0)
    assert macos.pack(3, number) == struct.pack("qqihh", number, 1, 0, 3, 0)
    for layout in (linux, macos):
        assert layout.kind(layout.pack(2, number)) == 2


def test_the_holder_of_a_claim_is_named(tmp_path: Path) -> None:
    source = (
        "import sys; from pathlib import Path; from understudy.store.sqlite.event_log import SqliteLog\n"
        "from tests.support.answered import answered\n"
        "log = SqliteLog(Path(sys.argv[1])); claim = answered(log.claim(sys.argv[2])); print('held', flush=True); sys.stdin.read()"
    )
    name = new_id()
    log = SqliteLog(tmp_path)
    assert answered(log.holder(name)) is None
    holder = subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert answered(log.holder(name, identify=True)) == Holder(holder.pid)
    holder.communicate(timeout=WAIT_SECONDS)
    assert answered(log.holder(name)) is None
    log.close()
