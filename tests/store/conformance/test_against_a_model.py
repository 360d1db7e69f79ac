"""Any order of writes, claims and deaths, of several processes: the log holds what a plain model of it holds."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.conformance.stores import STORES, Process, SharedStore
from tests.store.conformance.writing import let_go, place_of, written
from tests.store.records import new_id, noticed, opened
from understudy.errors import Fenced
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt
from understudy.store.log import Claim, Holder

PROCESSES = range(2)
CONVERSATIONS = range(2)
KINDS = st.sampled_from(["claim", "claim", "append", "append", "release", "post", "delete", "die"])
ACTS = st.tuples(KINDS, st.sampled_from(PROCESSES), st.sampled_from(CONVERSATIONS))


@dataclass
class Kept:
    epoch: int = 1
    last_seq: int = 1
    letters: int = 0


@dataclass
class World:
    """The store, and what should be in it."""

    store: SharedStore
    logs: list[Process]
    names: list[ConversationId]
    claims: dict[tuple[int, int], tuple[Claim, int]] = field(default_factory=dict[tuple[int, int], tuple[Claim, int]])
    kept: dict[int, Kept] = field(default_factory=dict[int, Kept])

    def holder(self, conversation: int) -> int | None:
        return next((process for process, name in self.claims if name == conversation), None)

    async def claim(self, process: int, conversation: int) -> None:
        claim = await self.logs[process].claim(self.names[conversation])
        if self.holder(conversation) is not None:
            assert isinstance(claim, Holder)
            return
        assert not isinstance(claim, Holder)
        kept = self.kept.get(conversation)
        found = claim.position.epoch, claim.position.last_seq, claim.position.letters
        assert found == ((0, 0, False) if kept is None else (kept.epoch, kept.last_seq, kept.letters > 0))
        if kept is not None:
            kept.epoch += self.store.raises_at_claim
        self.claims[process, conversation] = claim, 0

    async def release(self, process: int, conversation: int) -> None:
        claim, _ = self.claims.pop((process, conversation), (None, 0))
        if claim is not None:
            await let_go(self.logs[process], claim)

    async def append(self, process: int, conversation: int) -> None:
        """By the holder it counts; by anyone else, who knows an earlier epoch, it does not."""
        log, name, kept = self.logs[process], self.names[conversation], self.kept.get(conversation)
        held = self.claims.get((process, conversation))
        if held is None:
            late = noticed(name, max(0, (kept.epoch if kept else 1) - 1), (kept.last_seq if kept else 1) + 1)
            assert isinstance(await written(lambda done: log.append(late, done)), Fenced)
            return
        claim, epoch = held
        if kept is None:
            assert await written(lambda done: log.append(opened(name), done)) is None
            kept = self.kept[conversation] = Kept()
        else:
            first = kept.epoch + (not self.store.raises_at_claim)
            batch = noticed(name, epoch or first, kept.last_seq + 1, claims=not epoch, count=2)
            assert await written(lambda done: log.append(batch, done)) is None
            kept.epoch, kept.last_seq = batch.epoch, kept.last_seq + 2
        self.claims[process, conversation] = claim, kept.epoch

    async def post(self, process: int, conversation: int) -> None:
        error = await written(lambda done: self.logs[process].post(self.names[conversation], Interrupt(), done))
        assert (error is None) == (conversation in self.kept)
        if error is None:
            self.kept[conversation].letters += 1

    async def delete(self, process: int, conversation: int) -> None:
        if (process, conversation) in self.claims:
            assert await written(lambda done: self.logs[process].delete(self.names[conversation], done)) is None
            self.kept.pop(conversation, None)
            await self.release(process, conversation)

    async def die(self, process: int, conversation: int) -> None:
        self.logs[process].close()
        self.logs[process] = self.store.open()
        self.claims = {key: value for key, value in self.claims.items() if key[0] != process}

    async def check(self) -> None:
        for process, log in enumerate(self.logs):
            for number, name in enumerate(self.names):
                kept, holder = self.kept.get(number), self.holder(number)
                assert await place_of(log, name) == (None if kept is None else (kept.epoch, kept.last_seq, kept.letters > 0))
                assert [entry.seq for entry in await log.read(name)] == list(range(1, kept.last_seq + 1 if kept else 1))
                assert len(await log.letters(name)) == (kept.letters if kept else 0)
                assert (await log.holder(name) is not None) == (holder not in (None, process))
            assert {row.conversation_id for row in (await log.list(9)).rows} == {self.names[number] for number in self.kept}


@pytest.mark.parametrize("kind", ["sqlite", "memory", pytest.param("postgres", marks=pytest.mark.slow)])
@settings(max_examples=40, deadline=None)
@given(acts=st.lists(ACTS, max_size=25))
def test_it_holds_what_the_model_holds(kind: str, acts: list[tuple[str, int, int]]) -> None:
    async def play(folder: Path) -> None:
        store = STORES[kind](folder)
        world = World(store, [store.open() for _ in PROCESSES], [new_id() for _ in CONVERSATIONS])
        for act, process, conversation in acts:
            await getattr(world, act)(process, conversation)
            await world.check()
        store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
