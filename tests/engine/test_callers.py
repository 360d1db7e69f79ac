"""Who may do what to whose conversation, and whose name is in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.playbook import Playbook
from understudy.engine.handle import Handle
from understudy.errors import NotAllowed, UnknownConversation
from understudy.protocol.callers import LOCAL, Caller, Right
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Archive, Cancel, Decide, Delete, Interrupt, Op, Resume
from understudy.protocol.records import ApprovalDecided, Opened, Overrides
from understudy.testing import call, say
from understudy.testing.waiting import WAIT_SECONDS

ANN = Caller("ann")
ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}


def somebody(*rights: Right) -> Caller:
    """With these rights on everybody's conversations."""
    return Caller("ben", frozenset(rights), frozenset(rights))


@pytest.fixture
async def play(tmp_path: Path) -> AsyncGenerator[Playbook]:
    async with Playbook(tmp_path, []) as play:
        yield play


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncGenerator[Playbook]:
    """A turn of it will ask."""
    async with Playbook(tmp_path, [call("shell", command=["touch", "made"]), say("done")], **ASKING) as play:
        yield play


def words(handle: Handle) -> Op:
    return handle.message(Message("user", (InputText("go"),)))


async def test_one_without_the_right_to_read_gets_the_answer_for_an_unknown_id(play: Playbook) -> None:
    unknown = play.handle.id[:-1] + ("0" if play.handle.id[-1] != "0" else "1")
    texts: list[str] = []
    for name in (play.handle.id, unknown):
        with pytest.raises(UnknownConversation) as refused:
            await play.engine.find(ANN, type(play.handle.id)(name))
        texts.append(str(refused.value).replace(name, "…"))
    assert texts[0] == texts[1]


async def test_every_op_needs_its_right(play: Playbook) -> None:
    reader = await play.engine.find(somebody("read"), play.handle.id)
    approver = await play.engine.find(somebody("read", "approve"), play.handle.id)
    runner = await play.engine.find(somebody("read", "run"), play.handle.id)
    run: list[Op] = [words(reader), Interrupt(), Cancel("m"), Resume(), Archive(), Delete()]
    for handle, refused in ((reader, [*run, Decide("c", "approved", "client")]), (approver, run)):
        for op in refused:
            with pytest.raises(NotAllowed):
                await handle.submit(op)
    with pytest.raises(NotAllowed, match="ben does not have the right to approve"):
        await runner.submit(Decide("c", "approved", "client"))
    await play.seen("0 opened")
    assert play.records() == ["0 opened"]
    with pytest.raises(NotAllowed):
        await play.engine.create(somebody("read", "approve"), Overrides())


async def test_owner_and_decider_are_in_the_log(tmp_path: Path, asking: Playbook) -> None:
    theirs = await asking.engine.create(ANN, Overrides(cwd=str(tmp_path)))
    await theirs.durable()
    assert theirs.facts.owner == "ann"
    [opened] = await theirs.read(0)
    assert isinstance(opened.record, Opened)
    assert opened.record.owner == "ann"
    with pytest.raises(UnknownConversation):
        await asking.engine.find(Caller("ben"), theirs.id)
    assert (await asking.engine.find(LOCAL, theirs.id)).facts.owner == "ann"

    await asking.send("go")
    await asking.seen("1 wonders call1")
    ben = await asking.engine.find(somebody("read", "approve"), asking.handle.id)
    accepted = await ben.submit(Decide("call1", "approved", "client", by="somebody else"))
    assert accepted.effective
    await asking.over()
    decided = [entry.record for entry in asking.entries() if isinstance(entry.record, ApprovalDecided)]
    assert [(one.by, one.decision) for one in decided] == [("ben", "approved")], "the name is the caller's, whatever the op says"


async def test_a_viewer_without_the_right_to_approve_is_not_one_who_can_answer(play: Playbook) -> None:
    play.following.stop()
    for caller, can in ((somebody("read"), False), (somebody("read", "approve"), True)):
        handle = await play.engine.find(caller, play.handle.id)
        following = handle.follow(play)
        following.go_live()
        assert handle.can_be_answered() is can
        following.stop()


async def test_denying_because_nobody_can_be_asked_needs_no_right_to_approve(asking: Playbook) -> None:
    await asking.send("go")
    await asking.seen("1 wonders call1")
    reader = await asking.engine.find(somebody("read"), asking.handle.id)
    reader.deny_unasked("call1", "of one who may only look", "1")
    runner = await asking.engine.find(somebody("read", "run"), asking.handle.id)
    runner.deny_unasked("call1", "nobody can be asked", "1")
    async with asyncio.timeout(WAIT_SECONDS):
        await asking.over()
    decided = [entry.record for entry in asking.entries() if isinstance(entry.record, ApprovalDecided)]
    assert [(one.decision, one.source) for one in decided] == [("denied", "nobody can be asked")]
