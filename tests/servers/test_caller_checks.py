"""What is checked for a caller with limits before anything is recorded: what a conversation has, and what a message changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import EngineHere, KeepingSink
from understudy.engine.handle import Handle
from understudy.errors import LacksRight, NotAllowed
from understudy.protocol.callers import Caller
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides, Record, TurnQueued, UserMessage
from understudy.servers.mcp.call import ClientContext
from understudy.servers.mcp.caller_limits import CallerLimits
from understudy.servers.mcp.peer import Peer
from understudy.testing.waiting import WAIT_SECONDS

GO = Message("user", (InputText("Go"),))
ANN = Caller("ann")
READER = Caller("bob", others=frozenset({"read"}))
HELPER = Caller("bob", others=frozenset({"read", "run"}))


class Scene:
    """`client` has limits: it may work in the folder `allowed`, not with full access. `free` has none."""

    def __init__(self, here: EngineHere, folder: Path) -> None:
        self.engine = here.engine
        self.allowed, self.elsewhere = folder / "allowed", folder / "elsewhere"
        for place in (self.allowed, self.elsewhere):
            place.mkdir()
        self.free = ClientContext(here.engine, ANN, Peer(), KeepingSink())
        self.client = ClientContext(here.engine, ANN, Peer(), KeepingSink())
        self.client.limits = CallerLimits((str(self.allowed),), frozenset({"read-only", "workspace-write"}))

    async def conversation(self, folder: Path | None = None, caller: Caller = ANN, **chosen: Any) -> Handle:
        values: dict[str, Any] = {"sandbox": "read-only", **chosen}
        handle = await self.engine.create(caller, Overrides(cwd=str(folder or self.allowed), **values))
        await handle.durable()
        return handle

    async def record(self, handle: Handle, record: Record) -> None:
        handle._conversation.tail.append(record, turn="1")  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(WAIT_SECONDS):
            await handle.durable()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with EngineHere(tmp_path) as here:
        yield Scene(here, tmp_path)


async def test_for_a_new_conversation_only_what_the_caller_may_set_is_taken(scene: Scene) -> None:
    harmless, harmful = Overrides(config={"model": "x"}), Overrides(config={"notify": ["x"]})
    assert scene.client.check_new(harmless) is harmless
    assert scene.free.check_new(harmful) is harmful
    with pytest.raises(NotAllowed, match="`notify` cannot be set"):
        scene.client.check_new(harmful)


async def test_what_comes_of_it_is_checked_where_it_is_pinned(scene: Scene) -> None:
    fine = await scene.conversation()
    full = await scene.conversation(sandbox="danger-full-access")
    away = await scene.conversation(scene.elsewhere)
    scene.client.check_setup(fine.setup())
    scene.client.check_message(fine)
    for handle, reason in ((full, "may not use sandbox"), (away, "may not work in")):
        scene.free.check_setup(handle.setup())
        scene.free.check_message(handle)
        with pytest.raises(NotAllowed, match=reason):
            scene.client.check_setup(handle.setup())
        with pytest.raises(NotAllowed, match=reason):
            scene.client.check_message(handle)


async def test_images_by_path_are_for_those_without_limits(scene: Scene) -> None:
    scene.free.check_images(["/etc/passwd"])
    scene.client.check_images(["data:image/png;base64,"])
    with pytest.raises(NotAllowed, match="not as paths of the server"):
        scene.client.check_images(["data:image/png;base64,", "/etc/passwd"])


# -- messages


async def test_a_message_that_changes_nothing_needs_a_conversation_that_the_caller_may_have(scene: Scene) -> None:
    fine, away = await scene.conversation(), await scene.conversation(scene.elsewhere)
    op = fine.message(GO)
    assert await scene.client.check_send(fine, op) is op
    assert await scene.free.check_send(away, op) is op
    with pytest.raises(NotAllowed, match="may not work in"):
        await scene.client.check_send(away, away.message(GO))


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (Overrides(config={"notify": ["x"]}), "`notify` cannot be set"),
        (Overrides(sandbox="danger-full-access"), "may not use sandbox `danger-full-access`"),
        (Overrides(cwd="elsewhere"), "may not work in"),
    ],
)
async def test_what_a_message_changes_is_judged_with_all_that_it_leaves(scene: Scene, chosen: Overrides, reason: str) -> None:
    handle = await scene.conversation()
    if chosen.cwd:
        chosen = Overrides(cwd=str(scene.elsewhere))
    with pytest.raises(NotAllowed, match=reason):
        await scene.client.check_send(handle, handle.message(GO, chosen))
    op = handle.message(GO, chosen)
    assert await scene.free.check_send(handle, op) is op


async def test_a_message_may_leave_a_place_where_the_caller_may_not_work_and_is_pinned_to_where_it_goes(scene: Scene) -> None:
    away = await scene.conversation(scene.elsewhere)
    op = await scene.client.check_send(away, away.message(GO, Overrides(cwd=str(scene.allowed))))
    assert op.message.pins is not None
    assert str(scene.allowed) in [pin.path for pin in op.message.pins.places]


async def test_who_goes_back_in_a_conversation_needs_all_of_its_past(scene: Scene) -> None:
    away = await scene.conversation(scene.elsewhere)
    moves = Overrides(cwd=str(scene.allowed))
    for parent, allowed in ((None, True), ("m1", False)):
        op = away.message(GO, moves, parent)
        if allowed:
            await scene.client.check_send(away, op)
        else:
            with pytest.raises(NotAllowed, match="may not work in"):
                await scene.client.check_send(away, op)
    fine = await scene.conversation()
    await scene.client.check_send(fine, fine.message(GO, moves, "m1"))


async def test_messages_that_wait_go_first_and_are_judged_too(scene: Scene) -> None:
    handle = await scene.conversation()
    await scene.record(handle, TurnQueued(UserMessage("m1", GO, Overrides(sandbox="danger-full-access"))))
    op = handle.message(GO)
    assert await scene.free.check_send(handle, op) is op
    with pytest.raises(NotAllowed, match="may not use sandbox"):
        await scene.client.check_send(handle, op)


# -- undoing and forking


async def test_files_are_put_back_only_where_the_caller_may_work_now_and_might_have_then(scene: Scene) -> None:
    fine, away = await scene.conversation(), await scene.conversation(scene.elsewhere)
    await scene.client.check_undo(fine)
    await scene.free.check_undo(away)
    with pytest.raises(NotAllowed, match="may not work in"):
        await scene.client.check_undo(away)
    moved = away.message(GO, Overrides(cwd=str(scene.allowed)))
    await scene.record(away, away.pinned(moved).message)
    scene.client.check_message(away)
    with pytest.raises(NotAllowed, match="may not work in"):
        await scene.client.check_undo(away)
    full = await scene.conversation(sandbox="danger-full-access")
    await scene.record(full, UserMessage("m1", GO, Overrides(sandbox="read-only")))
    with pytest.raises(NotAllowed, match="may not use sandbox"):
        await scene.client.check_undo(full)


async def test_a_fork_needs_the_right_to_run_and_takes_nothing_along_that_others_chose_and_the_caller_may_not(scene: Scene) -> None:
    harmful = await scene.conversation(config={"model_verbosity": "low", "notify": ["x"]})
    for caller, allowed in ((READER, False), (HELPER, True)):
        handle = await scene.engine.find(caller, harmful.id)
        if allowed:
            await scene.free.check_fork(handle)
            with pytest.raises(NotAllowed, match="`notify` was set for it"):
                await scene.client.check_fork(handle)
        else:
            with pytest.raises(LacksRight):
                await scene.free.check_fork(handle)
    await scene.client.check_fork(harmful)  # what was chosen for it before the caller had limits was the caller's choice
    harmless = await scene.conversation(config={"model_verbosity": "low"})
    await scene.client.check_fork(await scene.engine.find(HELPER, harmless.id))
    aaron = Caller("aaron", others=frozenset({"read", "run"}))
    with pytest.raises(NotAllowed, match="`notify` was set for it"):
        await scene.client.check_fork(await scene.engine.find(aaron, harmful.id))
