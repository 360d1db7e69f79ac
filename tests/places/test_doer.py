"""The rights of whoever a command would be: a thread has them for a moment, and no other thread ever does."""

import ctypes
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from understudy.places.doer import Doer, doer_in, has_powers
from understudy.places.places import Places
from understudy.places.resolving import resolve_places

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up: run the tests as root for it")

SETGID = 6  # a capability, by its number
USER = Doer(12345, 23456)
ROOT_WITHOUT_POWERS = Doer(0, 0, with_groups=True)


@pytest.fixture
def secret() -> Generator[Path]:
    """Of a third user, in a folder that everybody may enter."""
    folder = Path("/var/tmp") / f"doer-{os.getpid()}-{threading.get_ident()}"
    folder.mkdir()
    file = folder / "secret"
    file.write_text("secret")
    file.chmod(0o600)
    os.chown(file, 34567, 34567)
    try:
        folder.chmod(0o777)
        yield file
    finally:
        for each in folder.iterdir():
            each.unlink()
        folder.rmdir()


def rights() -> tuple[list[str], int]:
    """Of this thread, as the kernel has them, and how many threads have other ones than the first."""
    wanted = ("Uid", "Gid", "Groups", "CapEff", "CapPrm")
    with open(f"/proc/self/task/{threading.get_native_id()}/status", encoding="ascii") as file:
        return [line.split(":", 1)[1].strip() for line in file if line.split(":", 1)[0] in wanted], os.geteuid()


@pytest.mark.parametrize("doer", [USER, ROOT_WITHOUT_POWERS])
def test_it_has_nothing_but_its_own(secret: Path, doer: Doer) -> None:
    before = rights()

    def make() -> os.stat_result:
        made = secret.parent / "made"
        made.write_text("x")
        return made.stat()

    with pytest.raises(PermissionError):
        doer.act(secret.read_text)
    with pytest.raises(PermissionError):
        doer.act(lambda: os.chown(secret, 1, 1))
    made = doer.act(make)
    assert (made.st_uid, made.st_gid) == doer[:2]
    (uids, gids, groups, _, effective), user = doer.act(rights)
    assert (uids.split()[-1], gids.split()[-1]) == (str(doer.uid), str(doer.gid))
    assert uids.split()[:3] == ["0", "0", "0"], "somebody with the doer's rights could reach into our memory"
    assert groups == (before[0][2] if doer.with_groups else "")
    assert (int(effective, 16), user) == (0, 0)
    assert rights() == before
    assert secret.read_text() == "secret"


def test_nobody_else_ever_has_these_rights(secret: Path) -> None:
    """Many at once, of several doers, failing and succeeding; nested ones too."""
    doers = [Doer(10_000 + number, 10_000 + number) for number in range(5)]
    ours = rights()

    def once(number: int) -> bool:
        doer = doers[number % len(doers)]

        def work() -> int:
            if number % 3 == 0:
                raise ValueError(number)
            return int(doer.act(rights)[0][0].split()[-1])

        try:
            as_doer = doer.act(work) == doer.uid
        except ValueError as error:
            as_doer = error.args == (number,)
        return as_doer and rights() == ours and secret.read_text() == "secret"

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(once, range(600)))
    assert rights() == ours


def test_where_they_cannot_be_taken_on_nothing_is_done(secret: Path) -> None:
    """A server that may not change its groups, as in many containers; nor does work for one user go on as another."""
    child = os.fork()
    if not child:
        libc = ctypes.CDLL(None)
        header, words = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        libc.capget(ctypes.byref(header), ctypes.byref(words))
        words[0] = words[1] = words[1] & ~(1 << SETGID)
        libc.capset(ctypes.byref(header), ctypes.byref(words))
        before, done = rights(), list[int]()
        try:
            USER.act(lambda: done.append(1))
        except PermissionError:
            os._exit(0 if not done and rights() == before and secret.read_text() == "secret" else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(PermissionError, match="of one user"):
        USER.act(lambda: ROOT_WITHOUT_POWERS.act(secret.read_text))


def test_nothing_is_imported_with_them() -> None:
    """The import system would remember for everybody what they could not find."""
    with pytest.raises(ImportError, match="is to be imported before"):
        USER.act(lambda: __import__("understudy_nowhere.module"))
    with pytest.raises(ModuleNotFoundError):
        __import__("understudy_nowhere.module")


@pytest.mark.parametrize(
    ("owner", "contained", "doer"),
    [(0, True, ROOT_WITHOUT_POWERS), (12345, True, Doer(12345, 12345)), (0, False, None), (12345, False, None)],
)
def test_who_it_is(tmp_path: Path, owner: int, contained: bool, doer: Doer | None) -> None:
    os.chown(tmp_path, owner, owner)
    places = Places(resolve_places([str(tmp_path)]), contained=contained)
    assert places.doer == doer
    os.chown(tmp_path, 777, 777)  # commands follow their workspace too
    assert places.doer == (Doer(777, 777) if contained else None)


def test_a_server_without_powers_gives_up_nothing(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresgid(99, 99, 99)
        os.setresuid(99, 99, 99)
        has_powers.cache_clear()
        os._exit(0 if doer_in(str(tmp_path)) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
