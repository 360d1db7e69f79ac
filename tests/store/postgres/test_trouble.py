"""A database that is away, connections that are cut at the worst moment, processes that are killed or stand still."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import cast, get_args

import psycopg
import pytest

from tests.store.conformance.writing import claim_of, place_of, written
from tests.store.records import append, new_id, noticed, opened, user_message
from tests.support.database_proxy import Cut, DatabaseProxy
from tests.support.postgres import Server, the_server
from understudy.errors import Fenced, StoreError, Unavailable
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt, Send
from understudy.store.log import Holder
from understudy.store.postgres.log import PostgresLog
from understudy.testing.waiting import WAIT_SECONDS, Watched

SHORT = 3.0  # a lease
LONG = 300.0  # one that no test waits for


@pytest.fixture
def url() -> str:
    return the_server().new_tables()


@asynccontextmanager
async def over_a_proxy(folder: Path, url: str, lease_seconds: float) -> AsyncGenerator[tuple[PostgresLog, DatabaseProxy]]:
    with tempfile.TemporaryDirectory(prefix="understudy-px-", dir="/tmp") as short:
        async with DatabaseProxy(Path(short), the_server().folder) as proxy:
            log = PostgresLog(folder, proxy.url(url), asyncio.get_running_loop(), lease_seconds=lease_seconds)
            yield log, proxy
            proxy.release()
            await asyncio.to_thread(log.close)


@pytest.mark.parametrize("cut", get_args(Cut))
async def test_what_is_cut_off_in_its_commit_is_done_once(tmp_path: Path, url: str, cut: Cut) -> None:
    name, other = new_id(), new_id()
    async with over_a_proxy(tmp_path, url, LONG) as (log, proxy):
        await append(log, opened(name))
        await append(log, opened(other))
        await claim_of(log, name)
        proxy.cut = cut
        outcomes = await asyncio.gather(
            written(lambda done: log.append(noticed(name, 2, 2, claims=True, count=3), done)),
            written(lambda done: log.post(other, Send(user_message("once")), done)),
            written(lambda done: log.append(noticed(name, 2, 5), done)),
        )
        assert proxy.cut is None, "a transaction was cut off"
        assert outcomes == [None, None, None]
        await proxy.deliver_what_is_late()
        assert [entry.seq for entry in await log.read(name)] == [1, 2, 3, 4, 5]
        assert len(await log.letters(other)) == 1
        await append(log, noticed(name, 2, 6))
        audited = await log.audit(name)
        assert audited is not None
        assert (audited.records, audited.broken) == (6, None)


@pytest.mark.parametrize("cut", get_args(Cut))
async def test_a_claim_whose_answer_was_cut_off_is_had(tmp_path: Path, url: str, cut: Cut) -> None:
    name = new_id()
    async with over_a_proxy(tmp_path, url, LONG) as (log, proxy):
        await append(log, opened(name))
        proxy.cut = cut
        claim = await claim_of(log, name)
        assert proxy.cut is None
        await proxy.deliver_what_is_late()
        assert claim.position.last_seq == 1
        await append(log, noticed(name, claim.position.epoch + 1, 2, claims=True))


async def test_a_database_that_is_away_for_less_than_a_lease_is_waited_for_and_the_loop_is_not(tmp_path: Path, url: str) -> None:
    name, turns = new_id(), 0
    async with over_a_proxy(tmp_path, url, LONG) as (log, proxy):
        await append(log, opened(name))
        claim = await claim_of(log, name)
        proxy.hold()
        appended = asyncio.ensure_future(written(lambda done: log.append(noticed(name, 2, 2, claims=True), done)))
        read = asyncio.ensure_future(log.read(name))
        for _ in range(50):
            await asyncio.sleep(0.01)
            turns += 1
        assert (turns, appended.done(), read.done()) == (50, False, False)
        proxy.release()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await appended is None
            assert len(await read) in (1, 2)
        assert not claim.is_lost


@pytest.mark.slow
async def test_after_a_lease_without_the_database_all_is_lost_and_told_and_begins_anew(tmp_path: Path, url: str) -> None:
    name = new_id()
    async with over_a_proxy(tmp_path, url, SHORT) as (log, proxy):
        await append(log, opened(name))
        claim = await claim_of(log, name)
        proxy.hold()
        appended = asyncio.ensure_future(written(lambda done: log.append(noticed(name, 2, 2, claims=True), done)))
        async with asyncio.timeout(WAIT_SECONDS):
            await claim.lost.wait()
            error = await appended
        assert isinstance(error, Unavailable)
        assert error.outcome == "unknown"
        with pytest.raises(Unavailable, match="does not answer"):
            await log.find(name)
        proxy.release()
        again = await _soon_claimed(log, name)
        last = again.position.last_seq
        assert last in (1, 2)
        await append(log, noticed(name, again.position.epoch + 1, last + 1, claims=True))


async def _soon_claimed(log: PostgresLog, name: ConversationId):
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                claim = await log.claim(name)
            except StoreError:
                claim = Holder()
            if not isinstance(claim, Holder):
                return claim
            await asyncio.sleep(0.05)


async def test_hints_that_are_lost_with_their_session_come_again(tmp_path: Path, url: str) -> None:
    name = new_id()
    loop = asyncio.get_running_loop()
    with closing(PostgresLog(tmp_path, url, loop)) as log, closing(PostgresLog(tmp_path, url, loop)) as other:
        await append(log, opened(name))
        told, watched = [0], Watched()

        def tell() -> None:
            told[0] += 1
            watched.change()

        log.listen(name, tell)
        await watched.until(lambda: told[0] or None, "the word that it listens")
        told[0] = 0
        with psycopg.connect(url, autocommit=True) as operator:
            operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'understudy read'")
        await watched.until(lambda: told[0] or None, "the word that something may have been missed")
        told[0] = 0
        assert await written(lambda done: other.post(name, Interrupt(), done)) is None
        await watched.until(lambda: told[0] or None, "a hint")
        assert await place_of(log, name) == (1, 1, True)


async def test_letters_of_many_at_once_are_read_once_each(tmp_path: Path, url: str) -> None:
    """A number that is given before its letter is committed can be overtaken: whoever reads would believe to have read both."""
    name = new_id()
    loop = asyncio.get_running_loop()
    logs = [PostgresLog(tmp_path, url, loop) for _ in range(4)]
    reader, posters = logs[0], logs[1:]
    await append(reader, opened(name))
    await claim_of(reader, name)
    each = 40

    async def post(of: int, log: PostgresLog) -> None:
        for number in range(each):
            assert await written(lambda done, number=number: log.post(name, Interrupt(f"{of} {number}"), done)) is None

    posting = asyncio.gather(*(post(of, log) for of, log in enumerate(posters)))
    seen: list[str] = []
    taken, seq = 0, 1
    async with asyncio.timeout(WAIT_SECONDS * 2):
        while len(seen) < each * len(posters):
            letters = [letter for letter in await reader.letters(name) if letter.number > taken]
            if not letters:
                continue
            seen += [cast(Interrupt, letter.op).turn for letter in letters]
            taken, seq = letters[-1].number, seq + 1
            await append(reader, noticed(name, 2, seq, claims=seq == 2, taken=taken))
        await posting
    assert len(set(seen)) == len(seen)
    for of in range(len(posters)):
        assert [word for word in seen if word.startswith(f"{of} ")] == [f"{of} {number}" for number in range(each)]
    for log in logs:
        await asyncio.to_thread(log.close)


# -- other processes

CHILD = """
import asyncio, sys
from pathlib import Path
from tests.store.records import noticed
from understudy.protocol.ids import ConversationId
from understudy.store.postgres.log import PostgresLog

async def main(folder, url, lease, name):
    log = PostgresLog(Path(folder), url, asyncio.get_running_loop(), lease_seconds=float(lease))
    claim = await log.claim(ConversationId(name))
    print("has it", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    done = asyncio.get_running_loop().create_future()
    log.append(noticed(ConversationId(name), claim.position.epoch + 1, 2, claims=True), done.set_result)
    error = await done
    await asyncio.wait_for(claim.lost.wait(), 60)
    print(type(error).__name__, claim.is_lost, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def a_process_that_has(name: ConversationId, folder: Path, url: str, lease_seconds: float) -> AsyncGenerator[Process]:
    words = [sys.executable, "-c", CHILD, str(folder), url, str(lease_seconds), name]
    child = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
    try:
        assert child.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            assert await child.stdout.readline() == b"has it\n"
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def test_what_a_killed_process_had_is_free_at_once(tmp_path: Path, url: str) -> None:
    name = new_id()
    with closing(PostgresLog(tmp_path, url, asyncio.get_running_loop(), lease_seconds=LONG)) as log:
        await append(log, opened(name))
        async with a_process_that_has(name, tmp_path, url, LONG) as child:
            held = await log.claim(name)
            assert isinstance(held, Holder)
            assert held.process == child.pid
            child.kill()
            await child.wait()
            assert await log.holder(name) is None
            claim = await claim_of(log, name)
        await append(log, noticed(name, claim.position.epoch + 1, 2, claims=True))


@pytest.mark.slow
async def test_a_process_that_stood_still_for_longer_than_its_lease_writes_nothing_more(tmp_path: Path, url: str) -> None:
    name = new_id()
    with closing(PostgresLog(tmp_path, url, asyncio.get_running_loop(), lease_seconds=LONG)) as log:
        await append(log, opened(name))
        async with a_process_that_has(name, tmp_path, url, SHORT) as child:
            os.kill(child.pid, signal.SIGSTOP)
            claim = await _soon_claimed(log, name)
            await append(log, noticed(name, claim.position.epoch + 1, 2, claims=True))
            os.kill(child.pid, signal.SIGCONT)
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(b"go on\n")
            async with asyncio.timeout(WAIT_SECONDS):
                assert (await child.stdout.readline()).decode().split() == [Fenced.__name__, "True"]
        assert len(await log.read(name)) == 2


# -- a server of the test's own


@pytest.fixture
def own_server() -> Generator[Server]:
    the_server()  # skips where there can be none
    with tempfile.TemporaryDirectory(prefix="understudy-pg-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.mark.slow
async def test_nothing_that_was_acknowledged_is_lost_by_a_crash_of_the_database_under_load(
    tmp_path: Path, own_server: Server
) -> None:
    names = [new_id() for _ in range(8)]
    acknowledged = dict.fromkeys(names, 1)
    url = own_server.new_tables()
    log = PostgresLog(tmp_path, url, asyncio.get_running_loop(), lease_seconds=LONG)
    ending = False

    async def write(name: ConversationId) -> None:
        await append(log, opened(name))
        epoch = (await claim_of(log, name)).position.epoch + 1
        while not ending:
            seq = acknowledged[name] + 1
            assert await written(lambda done, seq=seq: log.append(noticed(name, epoch, seq, claims=seq == 2), done)) is None
            acknowledged[name] = seq

    writing = asyncio.gather(*(write(name) for name in names))
    for _ in range(3):
        reached = min(acknowledged.values())
        async with asyncio.timeout(WAIT_SECONDS):
            while min(acknowledged.values()) < reached + 5:
                assert not writing.done() or writing.result()
                await asyncio.sleep(0.01)
        await asyncio.to_thread(own_server.stop)
        await asyncio.to_thread(own_server.start)
    ending = True
    async with asyncio.timeout(WAIT_SECONDS):
        await writing
    for name in names:
        audited = await log.audit(name)
        assert audited is not None
        assert (audited.records, audited.broken) == (acknowledged[name], None)
    await asyncio.to_thread(log.close)
