"""Which host has a conversation, who may claim it, and where a new one goes."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.store.conformance.writing import claim_of, written
from tests.store.records import append, new_id, noticed, opened
from tests.support.postgres import the_server
from understudy.errors import Fenced, HostAway, StandsElsewhere
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt
from understudy.store.elsewhere import Elsewhere, why_not
from understudy.store.log import Holder
from understudy.store.postgres.host_lock import HostLock
from understudy.store.postgres.log import PostgresLog
from understudy.testing.waiting import WAIT_SECONDS

SHORT = 2.0  # a lease


class Hosts:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = the_server().new_tables()

    @contextmanager
    def log(self, name: str | None, *, front: bool = False, moves: bool = False, lease: float = 300.0) -> Generator[PostgresLog]:
        state = self.folder / (name or "unnamed")
        state.mkdir(exist_ok=True)
        loop = asyncio.get_running_loop()
        with closing(PostgresLog(state, self.url, loop, host=name, front=front, moves=moves, lease_seconds=lease)) as log:
            yield log

    def say(self, query: str, *values: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(query.encode(), values)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode()).fetchall()

    async def until_one_waits(self) -> None:
        """For a lock that another transaction has."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not self.ask("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


async def elsewhere(log: PostgresLog, name: ConversationId) -> Elsewhere:
    found = await log.claim(name)
    assert isinstance(found, Elsewhere)
    return found


async def test_only_processes_of_its_host_claim_a_conversation(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a") as a, hosts.log("a") as beside, hosts.log("b") as b, hosts.log("x", front=True) as x:
        await append(a, opened(name))
        found = await elsewhere(b, name)
        assert (found.host, found.alive) == ("a", False), "nobody serves it yet"
        assert isinstance(why_not(name, found), HostAway)
        assert await a.hosts.serve(uuid4(), "http://a/mcp", anew=True) is not None
        for other in (b, x):
            found = await elsewhere(other, name)
            assert (found.host, found.address, found.alive) == ("a", "http://a/mcp", True)
            assert isinstance(why_not(name, found), StandsElsewhere)
        claim = await claim_of(beside, name)
        found = await a.claim(name)
        assert type(found) is Holder
        claim.release()
        assert await written(lambda done: x.post(name, Interrupt(), done)) is None
        assert list(await a.hosts.waiting() or ()) == [name]
        assert list(await b.hosts.waiting() or ()) == []


async def test_one_that_is_on_no_host_is_had_by_the_first_that_goes_on_with_it(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a") as a, hosts.log("b") as b, hosts.log("x", front=True) as x:
        await append(a, opened(name))
        hosts.say("UPDATE conversations SET host = NULL")
        reason = why_not(name, await elsewhere(x, name))
        assert isinstance(reason, HostAway)
        assert "it is on no host yet" in str(reason)
        (await claim_of(b, name)).release()
        await written(lambda done: b.post(name, Interrupt(), done))
        assert (await elsewhere(a, name)).host == "b"


async def test_whoever_has_the_lock_of_the_folder_serves_at_once_and_another_folder_waits_for_the_lease(hosts: Hosts) -> None:
    disk = uuid4()
    with hosts.log("a") as first, hosts.log("a") as second:
        assert await first.hosts.serve(disk, "", anew=True) is not None
        name = new_id()
        await append(first, opened(name))
        claim = await claim_of(first, name)
        assert await second.hosts.serve(uuid4(), "", anew=True) is None
        assert await second.hosts.serve(disk, "", anew=True) is not None
        assert list(await second.hosts.waiting() or ()) == [name], "what the one before had in hand"
        taken = await claim_of(second, name)
        late = await written(lambda done: first.append(noticed(name, claim.position.epoch + 1, 2, claims=True), done))
        assert isinstance(late, Fenced)
        await append(second, noticed(name, taken.position.epoch + 1, 2, claims=True))


def test_the_lock_of_a_folder_has_one_holder_and_a_lasting_id(tmp_path: Path) -> None:
    with closing(HostLock(tmp_path)) as first, closing(HostLock(tmp_path)) as second:
        disk = first.take()
        assert isinstance(disk, UUID)
        assert second.take() is None
    with closing(HostLock(tmp_path)) as third:
        assert third.take() == disk


async def test_new_folders_are_spread_and_known_ones_stay_where_they_are(hosts: Hosts) -> None:
    with hosts.log("a") as a, hosts.log("b") as b, hosts.log("x", front=True) as x:
        assert await x.hosts.begin(new_id(), "/early", b"{}") is None
        assert await x.hosts.unplaced() == 1
        for log in (a, b):
            assert await log.hosts.serve(uuid4(), "", anew=True) is not None
        assert len(await a.hosts.to_begin()) == 1, "what nobody had room for"
        places = [await x.hosts.begin(new_id(), f"/{number}", b"{}") for number in range(5)]
        assert (places.count("a"), places.count("b")) == (2, 3)
        assert await x.hosts.begin(new_id(), "/0", b"{}") == places[0]
        await x.hosts.drain("b")
        assert {await x.hosts.begin(new_id(), f"/more{number}", b"{}") for number in range(3)} == {"a"}
        assert await b.hosts.waiting() is None


async def test_what_nobody_waits_for_any_more_is_not_made(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a") as a, hosts.log("x", front=True) as x:
        assert await a.hosts.serve(uuid4(), "", anew=True) is not None
        assert await x.hosts.begin(name, "/w", b"{}") == "a"
        assert [found for found, _ in await a.hosts.to_begin()] == [name]
        assert not (await x.hosts.became_of(name, gives_up=True)).begun
        assert await written(lambda done: a.append(opened(name), done)) is not None
        assert await a.find(name) is None


async def test_nor_where_its_worker_takes_long_and_looks_again_meanwhile(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a") as a, hosts.log("x", front=True) as x:
        assert await a.hosts.serve(uuid4(), "", anew=True) is not None
        await x.hosts.begin(name, "/w", b"{}")
        await a.hosts.to_begin()
        await x.hosts.became_of(name, gives_up=True)
        assert await a.hosts.to_begin() == []
        assert await written(lambda done: a.append(opened(name), done)) is not None
        assert await a.find(name) is None


async def test_a_folder_in_which_nothing_came_to_be_stays_on_no_host(hosts: Hosts) -> None:
    given_up, refused, late = new_id(), new_id(), new_id()
    with hosts.log("a") as a, hosts.log("x", front=True) as x:
        assert await a.hosts.serve(uuid4(), "", anew=True) is not None
        for name in (given_up, refused, late):
            await x.hosts.begin(name, f"/{name}", b"{}")
        await a.hosts.refuse(refused, "error no")
        await x.hosts.became_of(given_up, gives_up=True)
        hosts.say("UPDATE beginnings SET asked = asked - interval '2 hours' WHERE id = %s", late)
        await a.hosts.to_begin()
        assert hosts.ask("SELECT path FROM workspaces") == []
        clone = f"/home/of/x/{given_up}"
        await x.hosts.begin(given_up, clone, b"{}")
        await a.hosts.to_begin()
        await append(a, opened(given_up))
        assert (clone,) not in hosts.ask("SELECT path FROM workspaces"), "it is where the worker made it"


async def test_one_that_is_moved_while_it_is_asked_for_is_not_had_by_its_former_host(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a") as a, hosts.log("b") as b:
        await append(a, opened(name))
        assert await b.hosts.serve(uuid4(), "", anew=True) is not None
        with psycopg.connect(hosts.url) as moving:
            moving.execute("UPDATE conversations SET host = 'b', epoch = epoch + 1")
            asked = asyncio.create_task(a.claim(name))
            await hosts.until_one_waits()
            moving.commit()
        found = await asked
        assert isinstance(found, Elsewhere)
        assert found.host == "b"


async def test_what_met_others_that_lock_the_same_rows_in_another_order_is_done_again(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a") as a:
        await append(a, opened(name))
        with psycopg.connect(hosts.url) as other:
            other.execute("SET LOCAL deadlock_timeout = '10min'")
            other.execute("SELECT 1 FROM conversations FOR UPDATE")
            asked = asyncio.create_task(claim_of(a, name))
            await hosts.until_one_waits()
            await asyncio.to_thread(other.execute, "UPDATE groups SET last = last")
            other.commit()
        (await asked).release()


async def test_a_host_is_called_as_it_was_when_its_folder_was_first_used(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log(None) as log:
        called = log.hosts.name
    (hosts.folder / "unnamed" / "host.name").write_text("as-before\n")
    with hosts.log(None) as log:
        assert (called != "as-before", log.hosts.name) == (True, "as-before")
        await append(log, opened(name))


@pytest.mark.slow
async def test_a_clone_of_a_host_that_stays_away_goes_to_another_and_its_former_worker_is_fenced(hosts: Hosts) -> None:
    name = new_id()
    with hosts.log("a", lease=SHORT) as a, hosts.log("b") as b, hosts.log("x", front=True, moves=True) as x:
        for log in (a, b):
            assert await log.hosts.serve(uuid4(), "", anew=True) is not None
        await append(a, opened(name))
        epoch = (await claim_of(a, name)).position.epoch + 1
        hosts.say("UPDATE conversations SET folder = '/clone'")
        hosts.say("DELETE FROM workspaces")
        hosts.say("INSERT INTO workspaces VALUES ('a', '/clone', 'git')")
        assert (await elsewhere(x, name)).host == "a"
        hosts.say("UPDATE workers SET seen = seen - interval '1 hour' WHERE host = 'a'")
        hosts.say("UPDATE hosts SET seen = seen - interval '1 hour' WHERE name = 'a'")
        found = await elsewhere(x, name)
        assert (found.host, found.alive) == ("b", True)
        late = await written(lambda done: a.append(noticed(name, epoch, 2, claims=True), done))
        assert isinstance(late, Fenced)
        (await claim_of(b, name)).release()
