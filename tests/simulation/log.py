"""The shared disk as one process sees it: a `Store` with slow, failing and cut off commits, and bad hints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tests.simulation.disk import Disk
from understudy.errors import AgentError, StoreError, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry
from understudy.store.log import (
    NOWHERE,
    Audited,
    Batch,
    CanBeLost,
    Committed,
    Holder,
    Letter,
    Listed,
    Listener,
    Page,
    Position,
    SavedText,
    Spent,
    Verified,
)
from understudy.store.record_clock import RecordClock
from understudy.store.search.asked import Search

if TYPE_CHECKING:
    from tests.simulation.loop import ProcessLoop


@dataclass
class Troubles:
    """How a log behaves. Seconds are upper bounds of what is drawn."""

    commit: float = 0.003
    slow_commits: float = 0.0  # share of commits that take up to `slow`
    slow: float = 1.5
    fails: float = 0.0  # share of writes that fail
    reads: float = 0.0  # up to so many seconds for a read; 0: at once, without suspending
    hints: float = 0.05
    lost_hints: float = 0.1
    doubled_hints: float = 0.1


class Job(NamedTuple):
    write: Callable[[], AgentError | None]
    done: Committed | None


class SimulatedClaim(CanBeLost):
    def __init__(self, log: SimulatedLog, name: ConversationId) -> None:
        self.log = log
        self.position = NOWHERE
        self._name = name

    def release(self) -> None:
        self.log.release(self._name, self)


@dataclass
class _Queue:
    waiting: list[Job] = field(default_factory=list[Job])
    committing: list[Job] = field(default_factory=list[Job])
    busy: bool = False


class SimulatedLog:
    """Everything written goes through one queue, in order, as it does with one writer thread; what waits together is one commit."""

    shared = True
    is_remote = False
    attendance = None

    def __init__(
        self, disk: Disk, loop: ProcessLoop, random: Random, troubles: Troubles, pid: int, wall: Callable[[], float]
    ) -> None:
        self.disk = disk
        self.loop = loop
        self.troubles = troubles
        self.pid = pid
        self.dead = False
        self._random = random
        self._queue = _Queue()
        self._listening: dict[ConversationId, list[Listener]] = {}
        self._others_wrote = 0
        self._generation = 0
        self._heard = 0
        newest = max((one.updated_at for one in disk.logs.values()), default=0.0)
        self.time = RecordClock(wall, loop.time, newest=newest).now
        disk.on_write.append(self._on_write)

    # -- writing

    def _submit(self, write: Callable[[], AgentError | None], done: Committed | None) -> None:
        if self.dead:
            return
        self._queue.waiting.append(Job(write, done))
        if not self._queue.busy:
            self._queue.busy = True
            self.loop.call_soon(self._begin)  # at the end of the step, as the writer is handed what a step has for it

    def _begin(self) -> None:
        queue, draw = self._queue, self._random.random
        if self.dead or not queue.waiting:
            queue.busy = False
            return
        queue.committing, queue.waiting = queue.waiting, []
        slow = draw() < self.troubles.slow_commits
        seconds = draw() * (self.troubles.slow if slow else self.troubles.commit)
        self.loop.clock.after(seconds, self._commit)

    def _commit(self) -> None:
        queue = self._queue
        if self.dead:
            return
        if self.loop.paused:  # a process that stands still does not write either
            self.loop.clock.after(0.1, self._commit)
            return
        jobs, queue.committing = queue.committing, []
        outcomes = [(job.done, self._write(job)) for job in jobs]

        def tell() -> None:
            for done, error in outcomes:
                if done is not None:
                    done(error)

        def deliver() -> None:
            self.loop.call_soon(tell)
            self._begin()

        self.loop.clock.after(self._random.random() * self.troubles.commit, deliver)

    def _write(self, job: Job) -> AgentError | None:
        if self.troubles.fails and self._random.random() < self.troubles.fails:
            return StoreError("conversation store: the disk reports an error (on demand)")
        return job.write()

    def append(self, batch: Batch, done: Committed) -> None:
        self._submit(lambda: self.disk.append(batch, self), done)

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        self._submit(lambda: self.disk.save_text(conversation_id, epoch, said, self, adds=adds), done)

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        def posted(error: BaseException | None) -> None:
            self._generation += 1
            if done is not None:
                done(error)

        self._submit(lambda: self.disk.post(conversation_id, op, self), posted)

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        self._submit(lambda: self.disk.archive(conversation_id, archived, self), done)

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        self._submit(lambda: self.disk.delete(conversation_id, self), done)

    # -- claims

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> SimulatedClaim | Holder:
        await self._slowly()
        if conversation_id in self.disk.claims:
            return Holder()
        claim = SimulatedClaim(self, conversation_id)
        self.disk.claims[conversation_id] = claim
        as_of = self._changes()
        if known is NOWHERE:
            claim.position = Position(0, 0, False, as_of)
        elif known is not None and known.as_of == as_of:
            claim.position = known
        else:
            claim.position = self.disk.position(conversation_id, as_of)
        try:
            await self._slowly()
        except BaseException:
            claim.release()
            raise
        return claim

    def release(self, name: ConversationId, claim: SimulatedClaim) -> None:
        if self.disk.claims.get(name) is claim and not self.dead:
            del self.disk.claims[name]
            self.disk.changed(name, self)

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        await self._slowly()
        claim = self.disk.claims.get(conversation_id)
        if not isinstance(claim, SimulatedClaim) or claim.log is self:
            return None
        return Holder(claim.log.pid if identify else None)

    def lose_claim(self, name: ConversationId) -> bool:
        """As a server does that has not heard from the holder for too long: others can have it from now on.

        Not while something is on its way to the disk: an epoch rises with the first append and not with the claim, so two holders
        can have the same one, and what the first of them had queued might fit behind what the second has written.
        """
        claim = self.disk.claims.get(name)
        if not isinstance(claim, SimulatedClaim) or claim.log is not self or self._queue.busy or self.loop.paused:
            return False
        del self.disk.claims[name]
        self.loop.run_now(claim.lose)
        self.disk.changed(name, None)
        return True

    def _changes(self) -> int:
        if self._heard != self._others_wrote:
            self._heard = self._others_wrote
            self._generation += 1
        return self._generation

    # -- hints

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        listening = self._listening.setdefault(conversation_id, [])
        listening.append(told)

        def stop() -> None:
            if told in listening:
                listening.remove(told)

        return stop

    def _on_write(self, name: ConversationId, by: object) -> None:
        if by is self:
            return
        self._others_wrote += 1
        if not self._listening.get(name) or self.dead:
            return
        draw, troubles = self._random.random, self.troubles
        drawn = draw()
        if drawn < troubles.lost_hints:
            return
        for _ in range(2 if drawn > 1 - troubles.doubled_hints else 1):
            self.loop.clock.after(draw() ** 2 * troubles.hints, lambda: self._hint(name))

    def _hint(self, name: ConversationId) -> None:
        for told in tuple(self._listening.get(name, ())):
            self.loop.call_soon(told)

    # -- reading

    async def _slowly(self) -> None:
        if self.dead:  # what is unwound of a process that is gone asks for nothing: a claim taken then would never be free
            raise StoreError("conversation store: it is closed")
        if self.troubles.reads:
            drawn = self._random.random()
            if drawn < 0.7:
                answered: asyncio.Future[None] = self.loop.create_future()

                def answer() -> None:
                    if not answered.done():
                        answered.set_result(None)

                self.loop.clock.after(drawn * self.troubles.reads, lambda: self.loop.call_soon(answer) and None)
                await answered
                if drawn < self.troubles.fails:
                    raise StoreError("conversation store: it cannot be read (on demand)")

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        names = list(conversation_ids)
        await self._slowly()
        as_of = self._changes()
        found = {name: self.disk.position(name, as_of) for name in names if name in self.disk.logs}
        await self._slowly()
        return found

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        await self._slowly()
        one = self.disk.logs.get(conversation_id)
        found = [] if one is None else one.entries[after : None if limit is None else after + limit]
        await self._slowly()
        return found

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        await self._slowly()
        one = self.disk.logs.get(conversation_id)
        return None if one is None or not one.said else SavedText.of(one.said)

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        await self._slowly()
        one = self.disk.logs.get(conversation_id)
        found = () if one is None else tuple(one.letters)
        await self._slowly()
        return found

    async def find(self, conversation_id: ConversationId) -> Listed | None:
        await self._slowly()
        one = self.disk.logs.get(conversation_id)
        return None if one is None else one.listed(conversation_id)

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        await self._slowly()
        rows = [one.listed(name) for name, one in self.disk.logs.items() if one.archived == archived]
        return Page(tuple(sorted(rows, key=lambda row: row.updated_at, reverse=True)[:limit]), None)

    # -- the end of the process

    def finish(self, timeout: float = 5.0) -> bool:
        """What is queued is written at once."""
        if not self.dead:
            jobs = [*self._queue.committing, *self._queue.waiting]
            self._queue.committing, self._queue.waiting = [], []
            for job in jobs:
                error = job.write()
                if job.done is not None:
                    self.loop.call_soon(job.done, error)
        return True

    def close(self, timeout: float = 5.0) -> bool:
        self.die(writes=0.0)
        return True

    def die(self, writes: float | None = None) -> None:
        """The process is gone, at whatever it was: of what was being committed, all or nothing is on disk. Its claims are free."""
        if self.dead:
            return
        chance = 0.5 if writes is None else writes
        if self._queue.committing and self._random.random() < chance:
            for job in self._queue.committing:
                self._write(job)
        self.dead = True
        if self._on_write in self.disk.on_write:
            self.disk.on_write.remove(self._on_write)
        for name, claim in list(self.disk.claims.items()):
            if isinstance(claim, SimulatedClaim) and claim.log is self:
                del self.disk.claims[name]
                self.disk.changed(name, None)

    # -- what the simulated world does not ask for

    @property
    def place(self) -> str:
        return "simulated"

    @property
    def search(self) -> Search:
        _unused()

    async def ids(self, beginning: str = "", limit: int | None = None) -> Sequence[ConversationId]:
        return [name for name in sorted(self.disk.logs) if name.startswith(beginning)][:limit]

    async def count(self) -> int:
        return len(self.disk.logs)

    async def size(self) -> int:
        return 0

    async def used(self) -> int:
        return 0

    async def shrink(self) -> int:
        return 0

    async def check(self) -> str:
        return "ok"

    async def without_entry(self) -> int:
        return 0

    async def oldest(self, limit: int, after: tuple[float, str], *, archived: bool) -> Sequence[Listed]:
        return []

    def when_renewed(self, told: Callable[[float], None]) -> None:
        """Claims do not end by themselves."""

    def time_commits(self, told: Callable[[float], None]) -> None:
        pass

    def spend(self, name: str, day: str, spent: Spent, done: Committed) -> None:
        _unused()

    async def spent(self, name: str, since: str) -> Spent:
        _unused()

    async def verify(self, most: int | None) -> Verified:
        _unused()

    async def audit(self, conversation_id: ConversationId, head: str | None = None) -> Audited | None:
        _unused()

    def seal(self, conversation_id: ConversationId, last_seq: int, digest: bytes, done: Committed) -> None:
        _unused()

    async def backup(self, target: Path) -> None:
        _unused()


def _unused() -> NoReturn:
    raise UnknownConversation("the simulated world does not ask for this")
