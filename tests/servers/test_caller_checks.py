"""What a caller with limits may have is judged in the engine, before anything is recorded, whichever door they come by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import EngineHere
from understudy.engine.caller_limits import check_image_paths
from understudy.engine.handle import Handle
from understudy.engine.ops.table import OPS, way_of
from understudy.errors import LacksRight, NotAllowed
from understudy.protocol.callers import Caller, Limits
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Answer, Archive, Cancel, Compact, Decide, Delete, Interrupt, Op, Rename, Resume, Send, Undo
from understudy.protocol.records import Overrides, Record, TurnQueued, UserMessage
from understudy.testing.waiting import WAIT_SECONDS

GO = Message("user", (InputText("Go"),))
ANN = Caller("ann")
READER = frozenset({"read"})
HELPER = frozenset({"read", "run"})


class Scene:
    """A caller with `limits` may work in the folder `allowed`, not with full access."""

    def __init__(self, here: EngineHere, folder: Path) -> None:
        self.engine = here.engine
        self.allowed, self.elsewhere = folder / "allowed", folder / "elsewhere"
        for place in (self.allowed, self.elsewhere):
            place.mkdir()
        self.limits = Limits((str(self.allowed),), frozenset({"read-only", "workspace-write"}))
        self.limited = Caller("ann", limits=self.limits)

    async def conversation(self, folder: Path | None = None, caller: Caller = ANN, **chosen: Any) -> Handle:
        values: dict[str, Any] = {"sandbox": "read-only", **chosen}
        handle = await self.engine.create(caller, Overrides(cwd=str(folder or self.allowed), **values))
        await handle.durable()
        return handle

    async def judged(self, handle: Handle, op: Op) -> Op:
        return await way_of(op).judge(self.limits, handle, op)

    async def record(self, handle: Handle, record: Record) -> None:
        handle._conversation.tail.append(record, turn="1")  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(WAIT_SECONDS):
            await handle.durable()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with EngineHere(tmp_path) as here:
        yield Scene(here, tmp_path)


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({"config": {"notify": ["x"]}}, "`notify` cannot be set"),
        ({"sandbox": "danger-full-access"}, "may not use sandbox `danger-full-access`"),
        ({"folder": "elsewhere"}, "may not work in"),
    ],
)
async def test_of_a_new_conversation_nothing_is_recorded_where_the_caller_may_not_have_it(
    scene: Scene, chosen: dict[str, Any], reason: str
) -> None:
    folder = scene.elsewhere if chosen.pop("folder", None) else scene.allowed
    with pytest.raises(NotAllowed, match=reason):
        await scene.conversation(folder, scene.limited, **chosen)
    assert not (await scene.engine.list(ANN, 10)).rows
    await scene.conversation(folder, ANN, **chosen)
    await scene.conversation(scene.allowed, scene.limited, config={"model": "x"})


def test_images_by_path_are_for_those_without_limits_and_for_an_open_door() -> None:
    check_image_paths(None)
    check_image_paths(Limits(None, frozenset(), open_door=True))
    with pytest.raises(NotAllowed, match="not as paths of the server"):
        check_image_paths(Limits(None, frozenset()))


# What a door hands in of each kind of op, and whether it is judged by where the conversation works.
EACH: list[tuple[Op, bool]] = [
    (Send(UserMessage("m1", GO)), True),
    (Compact(), True),
    (Undo("u1"), True),
    (Interrupt(), False),
    (Cancel("m1"), False),
    (Decide("c1", "denied", "client"), False),
    (Answer("c1", "denied", "client"), False),
    (Resume(), False),
    (Rename("A title"), False),
    (Archive(), False),
    (Delete(), False),
]


def test_every_kind_of_op_is_in_the_table() -> None:
    assert {type(op) for op, _ in EACH} == set(OPS) == set(Op.__args__)


@pytest.mark.parametrize(("op", "is_judged"), EACH, ids=lambda value: type(value).__name__)
async def test_no_op_that_works_in_a_folder_gets_past_the_handle_of_a_caller_who_may_not(
    scene: Scene, op: Op, is_judged: bool
) -> None:
    away = await scene.conversation(scene.elsewhere)
    before = away.published
    handle = await scene.engine.find(scene.limited, away.id)
    if is_judged:
        with pytest.raises(NotAllowed, match="may not work in"):
            await handle.submit(op)
        assert away.published == before
    else:
        await handle.submit(op)


# -- messages


async def test_a_message_that_changes_nothing_needs_a_conversation_that_the_caller_may_have(scene: Scene) -> None:
    fine, away = await scene.conversation(), await scene.conversation(scene.elsewhere)
    full = await scene.conversation(sandbox="danger-full-access")
    op = fine.message(GO)
    assert await scene.judged(fine, op) is op
    for handle, reason in ((away, "may not work in"), (full, "may not use sandbox")):
        with pytest.raises(NotAllowed, match=reason):
            await scene.judged(handle, handle.message(GO))


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
        await scene.judged(handle, handle.message(GO, chosen))


async def test_a_message_may_leave_a_place_where_the_caller_may_not_work_and_is_pinned_to_where_it_goes(scene: Scene) -> None:
    away = await scene.conversation(scene.elsewhere)
    op = await scene.judged(away, away.message(GO, Overrides(cwd=str(scene.allowed))))
    assert isinstance(op, Send)
    assert op.message.pins is not None
    assert str(scene.allowed) in [pin.path for pin in op.message.pins.places]


async def test_who_goes_back_in_a_conversation_needs_all_of_its_past(scene: Scene) -> None:
    away = await scene.conversation(scene.elsewhere)
    moves = Overrides(cwd=str(scene.allowed))
    for parent, allowed in ((None, True), ("m1", False)):
        op = away.message(GO, moves, parent)
        if allowed:
            await scene.judged(away, op)
        else:
            with pytest.raises(NotAllowed, match="may not work in"):
                await scene.judged(away, op)
    fine = await scene.conversation()
    await scene.judged(fine, fine.message(GO, moves, "m1"))


async def test_messages_that_wait_go_first_and_are_judged_too(scene: Scene) -> None:
    handle = await scene.conversation()
    await scene.record(handle, TurnQueued(UserMessage("m1", GO, Overrides(sandbox="danger-full-access"))))
    with pytest.raises(NotAllowed, match="may not use sandbox"):
        await scene.judged(handle, handle.message(GO))


# -- undoing and forking


async def test_files_are_put_back_only_where_the_caller_may_work_now_and_might_have_then(scene: Scene) -> None:
    fine, away = await scene.conversation(), await scene.conversation(scene.elsewhere)
    undo = Undo("u1")
    assert await scene.judged(fine, undo) is undo
    with pytest.raises(NotAllowed, match="may not work in"):
        await scene.judged(away, undo)
    moved = away.message(GO, Overrides(cwd=str(scene.allowed)))
    await scene.record(away, away.pinned(moved).message)
    await scene.judged(away, Compact())
    with pytest.raises(NotAllowed, match="may not work in"):
        await scene.judged(away, undo)
    full = await scene.conversation(sandbox="danger-full-access")
    await scene.record(full, UserMessage("m1", GO, Overrides(sandbox="read-only")))
    with pytest.raises(NotAllowed, match="may not use sandbox"):
        await scene.judged(full, undo)


@pytest.mark.parametrize("is_limited", [False, True])
@pytest.mark.parametrize(
    ("name", "others", "refused"), [("bob", READER, "right to run"), ("bob", HELPER, "`notify` was set"), ("ann", READER, "")]
)
async def test_a_fork_needs_the_right_to_run_and_takes_nothing_along_that_others_chose_and_the_caller_may_not(
    scene: Scene, name: str, others: frozenset[Any], refused: str, is_limited: bool
) -> None:
    source = await scene.conversation(config={"model_verbosity": "low", "notify": ["x"]})
    caller = Caller(name, others=others, limits=scene.limits if is_limited else None)
    if refused and (is_limited or "right" in refused):
        with pytest.raises(LacksRight if "right" in refused else NotAllowed, match=refused):
            await scene.engine.fork(caller, source.id)
    else:
        assert (await scene.engine.fork(caller, source.id)).facts.owner == name
