"""Following a conversation: records and pieces of text in, what one viewer is shown of them out, as lines that can be read.

The log and the live end are real; nobody asks a model, so that a test chooses every record.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import pytest

from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.unfinished_text import UNFINISHED_CHARACTERS
from understudy.engine.viewers.following import Following
from understudy.errors import AgentError, StoreError
from understudy.protocol.callers import LOCAL, Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCallOutput, InputText, Message, OutputText, Reasoning, ReasoningText
from understudy.protocol.ops import Accepted, Send
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Delta,
    Entry,
    ItemReceived,
    Noticed,
    OutputDelta,
    Overrides,
    Question,
    ReasoningDelta,
    Record,
    RequestSent,
    TextDelta,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS

ASKED = CommandApprovalAsked("call1", ("ls",), "/w")
ENDED = TurnEnded("completed", "fine")


def said(text: str) -> ItemReceived:
    return ItemReceived(Message("assistant", (OutputText(text),)))


def message(name: str) -> UserMessage:
    return UserMessage(name, Message("user", (InputText("hi"),)))


def begun(name: str, turn: str) -> tuple[Record, ...]:
    """A turn that a message begins, up to the request that takes the message to the model."""
    return message(name), TurnStarted(turn), RequestSent((name,))


class Lines:
    """A viewer that writes down what it is shown."""

    def __init__(self, *, can_answer: bool = True) -> None:
        self.can_answer = can_answer
        self.lines: list[str] = []

    def entry(self, live: LiveEntry) -> None:
        record = live.entry.record
        word = record.message if isinstance(record, Noticed) else type(record).__name__
        self.lines.append(f"{live.entry.turn} {word}")

    def delta(self, live: LiveDelta) -> None:
        delta = live.delta
        text = delta.chunk.decode() if isinstance(delta, OutputDelta) else delta.text
        self.lines.append(f"{live.turn} … {text}")

    def question(self, question: Question, turn: str) -> None:
        self.lines.append(f"{turn} asks {question.call_id}")

    def question_closed(self, call_id: str, turn: str) -> None:
        self.lines.append(f"{turn} closes {call_id}")

    def ended(self, ended: TurnEnded) -> None:
        self.lines.append(f"over: {ended.reason}")

    def failed(self, error: AgentError) -> None:
        self.lines.append(f"failed: {error}")

    def take(self) -> list[str]:
        """Since this was last asked."""
        lines, self.lines = self.lines, []
        return lines


class Pipe:
    """To a client that may be slow."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room  # for so many records; None: for all
        self.called: list[Callable[[], None]] = []

    @property
    def congested(self) -> bool:
        return self.room is not None and self.room <= 0

    def drained(self, callback: Callable[[], None]) -> None:
        self.called.append(callback)

    async def drain(self, room: int | None = None) -> None:
        """There is room again; what waits for it goes on."""
        self.room = room
        called, self.called = self.called, []
        for callback in called:
            callback()
        await asyncio.sleep(0)


class NarrowLines(Lines):
    """Each record takes room in the pipe."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self.pipe = pipe

    def entry(self, live: LiveEntry) -> None:
        super().entry(live)
        if self.pipe.room is not None:
            self.pipe.room -= 1


class TroubledLog(SqliteLog):
    """The real store, which cannot be read while there is trouble."""

    trouble: Exception | None = None

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        if self.trouble is not None:
            raise self.trouble
        return await super().read(conversation_id, after, limit, most_bytes)


def _nobody_else(_: object) -> None:
    """No other process is looked out for."""


class Scene:
    def __init__(self, home: Path) -> None:
        env = {**os.environ, "CODEX_HOME": str(home)}
        self.engine = Engine(cli=[("model", "m"), ("model_provider", "oss")], env=env, open_log=self._open_log)

    def _open_log(self, home: Path, loop: asyncio.AbstractEventLoop) -> TroubledLog:
        self.log = TroubledLog(state_dir(home), loop)
        return self.log

    async def open(self, folder: Path) -> None:
        self.handle = await self.engine.create(LOCAL, Overrides(cwd=str(folder)))
        self.conversation = self.handle._conversation  # pyright: ignore[reportPrivateUsage]  # whose records the test chooses
        self.conversation.on_watch_needed = _nobody_else  # or its turn, which nobody runs, is taken for one of a dead process
        await self.settle()

    @property
    def published(self) -> int:
        return self.conversation.tail.broadcast.published

    async def settle(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await self.conversation.tail.committed()

    async def record(self, *records: Record, turn: str = "1") -> None:
        self.conversation.tail.append(*records, turn=turn.encode().decode())  # equal, and another object, as from a log
        await self.settle()

    async def note(self, *words: str, turn: str = "1") -> None:
        await self.record(*(Noticed(word) for word in words), turn=turn)

    def say(self, *texts: str, turn: str = "1") -> None:
        for text in texts:
            self.emit(TextDelta(text), turn)

    def emit(self, delta: Delta, turn: str = "1") -> None:
        self.conversation.tail.emit(delta, turn.encode().decode())

    def sent(
        self, viewer: Lines, name: str, turn: str, *, joined: bool = False, held: bool = False, only: bool = True
    ) -> Following:
        """A viewer whose message was taken."""
        following = self.handle.follow(viewer, only_its_turn=only)
        following.follow_message(Accepted(name, turn, joined=joined, held=held))
        return following


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    home = tmp_path / "home"
    home.mkdir()
    scene = Scene(home)
    await scene.open(tmp_path)
    yield scene
    async with asyncio.timeout(WAIT_SECONDS):
        await scene.engine.close()


# -- where it begins


async def test_without_a_place_only_what_comes_is_shown(scene: Scene) -> None:
    await scene.note("before")
    viewer = Lines()
    following = scene.handle.follow(viewer)
    await scene.note("not live yet")
    assert (viewer.take(), following.live, following.caught_up) == ([], False, False)
    other = Lines()
    live = scene.handle.follow(other)
    live.go_live()
    assert (live.live, live.caught_up, live.cursor) == (True, True, scene.published)
    await scene.note("a", "b")
    assert other.take() == ["1 a", "1 b"]
    assert live.cursor == scene.published


async def test_what_came_after_its_place_is_shown_first(scene: Scene) -> None:
    await scene.note("a", "b", "c")
    for after, expected in ((0, ["0 Opened", "1 a", "1 b", "1 c"]), (2, ["1 b", "1 c"]), (4, [])):
        viewer = Lines()
        following = scene.handle.follow(viewer, after=after)
        await following.go_live_from_cursor()
        assert (viewer.take(), following.caught_up, following.live) == (expected, True, True)


async def test_who_waits_to_go_live_has_been_shown_all_by_then_or_hears_why_not(scene: Scene) -> None:
    words = [f"word {number}" for number in range(300)]
    await scene.note(*words)
    viewer = Lines()
    following = scene.handle.follow(viewer, after=1)
    scene.log.trouble = StoreError("the disk is gone")
    with pytest.raises(StoreError, match="the disk is gone"):
        await following.go_live_from_cursor()
    assert (viewer.take(), following.live) == ([], False)
    scene.log.trouble = None
    await following.go_live_from_cursor()
    assert (viewer.take(), following.live) == ([f"1 {word}" for word in words], True)
    scene.log.trouble = StoreError("the disk is gone")
    await following.go_live_from_cursor()  # there is nothing to read


async def test_a_long_log_is_read_by_pages(scene: Scene) -> None:
    words = [f"word {number}" for number in range(300)]
    await scene.note(*words)
    viewer = Lines()
    following = scene.handle.follow(viewer, after=1)
    assert [live.entry.seq for live in await following.read_page()] == list(range(2, 129))
    following.go_live()
    await scene.note("live")
    assert viewer.take() == [*(f"1 {word}" for word in words), "1 live"]


async def test_what_the_viewer_has_from_elsewhere_is_not_shown_again(scene: Scene) -> None:
    viewer = Lines()
    following = scene.handle.follow(viewer)
    following.go_live()
    following.cursor = scene.published + 1
    await scene.note("has it", "new")
    assert viewer.take() == ["1 new"]
    following.cursor += 1
    scene.say("of before")
    assert viewer.take() == []


async def test_who_has_stopped_is_shown_nothing_and_does_not_come_back(scene: Scene) -> None:
    viewer = Lines()
    following = scene.handle.follow(viewer)
    following.go_live()
    following.wait()
    following.wait()
    assert scene.conversation.waiting == [following]
    following.stop()
    assert (following.live, scene.conversation.waiting) == (False, [])
    following.stop()
    following.go_live()
    following.wait()
    await scene.note("a")
    assert (following.live, scene.conversation.waiting, viewer.take()) == (False, [], [])


# -- a message and its turn


async def test_a_viewer_of_one_turn_is_shown_that_and_no_other(scene: Scene) -> None:
    viewer = Lines()
    following = scene.sent(viewer, "m1", "1")
    assert (following.live, following.leads, following.turn) == (True, True, "1")
    assert scene.conversation.waiting == [following]
    await scene.record(*begun("m1", "1"))
    scene.say("in it")
    scene.say("of another one", turn="2")
    await scene.note("of another one", turn="2")
    await scene.record(said("in it"))
    await scene.record(CommandEnded("old", "", "", 0, 0.0), turn="2")
    await scene.record(CommandEnded("old", "", "", 0, 0.0, started=CommandStarted("old", ("ls",), "/w", contained=True)), turn="0")
    await scene.record(TurnEnded("completed", "x"), turn="0")
    await scene.record(ENDED)
    assert viewer.take() == [
        "1 UserMessage",
        "1 TurnStarted",
        "1 RequestSent",
        "1 … in it",
        "1 ItemReceived",
        "0 CommandEnded",
        "1 TurnEnded",
        "over: completed",
    ]
    assert (following.live, scene.conversation.waiting) == (False, [])
    await scene.note("after it")
    assert viewer.take() == []


async def test_others_are_shown_every_turn(scene: Scene) -> None:
    viewer = Lines()
    following = scene.sent(viewer, "m1", "1", only=False)
    await scene.record(*begun("m1", "1"))
    scene.say("of another one", turn="2")
    await scene.note("of another one", turn="2")
    assert viewer.take()[3:] == ["2 … of another one", "2 of another one"]
    await scene.record(ENDED)
    assert viewer.take() == ["1 TurnEnded", "over: completed"]
    assert not following.live


async def test_what_a_command_of_an_earlier_turn_prints_is_shown_to_who_leads(scene: Scene) -> None:
    leads, joins = Lines(), Lines()
    scene.sent(leads, "m1", "1")
    scene.sent(joins, "m2", "1", joined=True)
    scene.emit(OutputDelta("old", "stdout", b"printed"), turn="0")
    scene.emit(OutputDelta("new", "stdout", b"too"), turn="1")
    assert (leads.take(), joins.take()) == (["0 … printed", "1 … too"], [])


@pytest.mark.parametrize("reason", ["completed", "failed", "interrupted"])
async def test_a_turn_that_ends_without_the_message_is_not_the_end(scene: Scene, reason: str) -> None:
    viewer = Lines()
    following = scene.sent(viewer, "m2", "1", joined=True)
    await scene.record(*begun("m1", "1"))
    await scene.record(TurnEnded(reason))  # pyright: ignore[reportArgumentType]
    assert viewer.take()[-1] == "1 TurnEnded"
    await scene.record(*begun("m2", "2"), turn="2")
    assert (following.turn, following.leads) == ("2", True)
    await scene.record(ENDED, turn="2")
    assert viewer.take() == ["2 UserMessage", "2 TurnStarted", "2 RequestSent", "2 TurnEnded", "over: completed"]


async def test_a_message_that_was_recorded_and_not_read_goes_down_with_its_turn_only_if_that_did_not_complete(scene: Scene) -> None:
    for reason, over in (("completed", []), ("interrupted", ["over: interrupted"]), ("failed", ["over: failed"])):
        viewer = Lines()
        following = scene.sent(viewer, reason, "1")
        await scene.record(message(reason), TurnEnded(reason))  # pyright: ignore[reportArgumentType]
        assert viewer.take()[2:] == over
        following.stop()


async def test_the_message_is_where_the_log_says_that_it_is(scene: Scene) -> None:
    viewer = Lines()
    following = scene.sent(viewer, "m1", "", held=True)
    assert (following.leads, following.turn) == (False, "")
    await scene.record(message("other"), TurnStarted("3"), RequestSent(("other",)), turn="3")
    assert (following.turn, following.leads, viewer.take()) == ("", False, [])
    await scene.record(message("m1"), turn="3")
    assert (following.turn, following.leads) == ("3", False)
    await scene.record(RequestSent(("x", "m1")), turn="4")
    assert (following.turn, viewer.take()) == ("4", ["3 UserMessage", "4 RequestSent"])
    await scene.record(ENDED, turn="3")
    assert viewer.take() == []
    await scene.record(ENDED, turn="4")
    assert viewer.take() == ["4 TurnEnded", "over: completed"]


async def test_who_follows_a_turn_that_is_under_way_hears_its_end(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    viewer = Lines()
    following = scene.handle.follow(viewer, only_its_turn=True)
    following.go_live()
    following.follow_turn("1")
    assert (following.leads, scene.conversation.waiting) == (False, [following])
    scene.say("not for one who does not lead")
    await scene.record(TurnEnded("completed"), turn="2")
    await scene.record(ENDED)
    assert viewer.take() == ["1 TurnEnded", "over: completed"]


async def test_a_failure_is_told_once_and_is_the_end(scene: Scene) -> None:
    viewer = Lines()
    following = scene.sent(viewer, "m1", "1")
    following.fail(AgentError("gone"))
    following.fail(AgentError("again"))
    await scene.note("a")
    assert (viewer.take(), following.live, scene.conversation.waiting) == (["failed: gone"], False, [])


async def test_a_held_message_that_is_not_taken_is_told_with_its_reason(scene: Scene) -> None:
    viewer, waits = Lines(), Lines()
    scene.conversation.held.add(Send(message("m1")))
    following = scene.sent(viewer, "m1", "1", held=True)
    scene.sent(waits, "m0", "1")
    scene.conversation.held.fail(AgentError("the process ends"))
    assert (viewer.take(), following.live) == (["failed: the process ends"], False)
    assert waits.take() == []


async def test_those_who_wait_are_told_that_their_message_could_not_be_left_for_another_process(scene: Scene) -> None:
    waits, joins, watches = Lines(), Lines(), Lines()
    scene.sent(waits, "m1", "1")
    scene.sent(joins, "m2", "1", joined=True)
    scene.handle.follow(watches).go_live()
    scene.conversation.on_posted(StoreError("the disk is full"))
    assert (waits.take(), joins.take(), watches.take()) == (["failed: the disk is full"], ["failed: the disk is full"], [])
    assert scene.conversation.waiting == []


async def test_one_who_is_ahead_of_this_process_has_all_that_is_shown_here(scene: Scene) -> None:
    ahead = scene.handle.follow(Lines(), after=scene.published + 1)
    assert (ahead.caught_up, ahead.name) == (True, "local")


# -- questions


async def test_questions_are_put_to_who_leads_the_turn_and_to_those_who_watch_all(scene: Scene) -> None:
    leads, joins, watches = Lines(), Lines(), Lines()
    scene.sent(leads, "m1", "1")
    scene.sent(joins, "m2", "1", joined=True)
    scene.handle.follow(watches).go_live()
    await scene.record(*begun("m1", "1"), ASKED)
    assert leads.take()[3:] == ["1 CommandApprovalAsked", "1 asks call1"]
    assert joins.take()[3:] == ["1 CommandApprovalAsked"]
    assert watches.take()[3:] == ["1 CommandApprovalAsked", "1 asks call1"]
    await scene.record(ApprovalDecided("call1", "denied", "client", effective=False))
    assert leads.take() == ["1 ApprovalDecided"]
    await scene.record(ApprovalDecided("call1", "denied", "client"))
    await scene.record(ToolAnswered(FunctionCallOutput("call1", "no")))
    assert leads.take() == ["1 ApprovalDecided", "1 closes call1", "1 ToolAnswered", "1 closes call1"]


async def test_open_questions_are_put_to_who_comes_later_once_they_are_on_disk(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"), ASKED)
    for only, joined, asked in ((False, True, True), (False, False, True), (True, False, True), (True, True, False)):
        viewer = Lines()
        following = scene.sent(viewer, "m2", "1", joined=joined, only=only)
        await scene.settle()
        await asyncio.sleep(0)
        assert viewer.take() == (["1 asks call1"] if asked else []), (only, joined)
        following.stop()
    viewer = Lines()
    watching = scene.handle.follow(viewer)
    watching.go_live()
    scene.conversation.tail.append(CommandApprovalAsked("call2", ("ls",), "/w"), turn="1")
    watching.put_open_questions()
    assert viewer.take() == ["1 asks call1"]
    await scene.settle()
    assert viewer.take() == ["1 CommandApprovalAsked", "1 asks call2"]


async def test_a_call_is_asked_at_once_and_who_watches_all_after_the_message(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"), ASKED)
    for only, joined, at_once in ((True, False, True), (False, True, True), (False, False, False)):
        scene.conversation.tail.append(Noticed("on its way to the disk"), turn="1")
        viewer = Lines()
        following = scene.sent(viewer, "m2", "1", joined=joined, only=only)
        assert viewer.take() == (["1 asks call1"] if at_once else []), (only, joined)
        await scene.settle()
        await asyncio.sleep(0)
        assert viewer.take() == ["1 on its way to the disk", *([] if at_once else ["1 asks call1"])], (only, joined)
        following.stop()


async def test_who_takes_a_turn_over_is_asked_its_questions(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"), ASKED)
    viewer = Lines()
    following = scene.sent(viewer, "m2", "1", joined=True)
    assert viewer.take() == []
    following.taken_over()
    assert (following.leads, viewer.take()) == (True, ["1 asks call1"])


async def test_who_can_answer(scene: Scene) -> None:
    def can(viewer: Lines, *, only: bool, leads: bool) -> bool:
        following = scene.handle.follow(viewer, only_its_turn=only)
        following.leads = leads
        return following.can_answer

    assert [can(Lines(), only=only, leads=leads) for only in (True, False) for leads in (True, False)] == [True, False, True, True]
    assert not can(Lines(can_answer=False), only=False, leads=True)
    reader = Caller("reader", frozenset({"read"}), frozenset({"read"}))
    handle = await scene.engine.find(reader, scene.handle.id)
    assert not handle.follow(Lines()).can_answer


# -- text that is not finished


async def test_reasoning_is_left_out_for_those_who_hide_it(scene: Scene) -> None:
    hides, shows = Lines(), Lines()
    scene.handle.follow(hides, hides_reasoning=True).go_live()
    scene.handle.follow(shows).go_live()
    scene.emit(ReasoningDelta("hm"))
    scene.say("so")
    await scene.record(ItemReceived(Reasoning(content=(ReasoningText("hm"),))), said("so"))
    assert hides.take() == ["1 … so", "1 ItemReceived"]
    assert shows.take() == ["1 … hm", "1 … so", "1 ItemReceived", "1 ItemReceived"]
    scene.emit(ReasoningDelta("again"))
    scene.say("then")
    late = scene.handle.follow(Lines(), hides_reasoning=True)
    assert [(live.delta, live.after) for live in late.take_unfinished()] == [(TextDelta("then"), scene.published)]
    both = scene.handle.follow(Lines()).take_unfinished()
    assert [live.delta for live in both] == [ReasoningDelta("again"), TextDelta("then")]


async def test_the_text_so_far_is_taken_once(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    scene.say("one ", "two ")
    viewer = Lines()
    following = scene.handle.follow(viewer)
    taken = following.take_unfinished()
    assert [(live.delta, live.turn, live.after) for live in taken] == [(TextDelta("one two "), "1", scene.published)]
    assert following.given_marks == {"t": 8}
    following.go_live()
    scene.say("three")
    assert (viewer.take(), following.given_marks) == (["1 … three"], {"t": 13})
    await scene.record(said("one two three"))
    assert following.given_marks == {}
    ahead = scene.handle.follow(Lines(), after=scene.published + 1)
    scene.say("of before its place")
    assert ahead.take_unfinished() == []


async def test_who_comes_back_is_given_the_rest_of_unfinished_text(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    scene.say("one two")
    viewer = Lines()
    following = scene.handle.follow(viewer)
    following.rejoin({"t": 3})
    assert (viewer.take(), following.given_marks) == (["1 …  two"], {"t": 7})
    scene.say(" three")
    await scene.record(said("one two three"), ENDED)
    assert viewer.take() == ["1 …  three", "1 ItemReceived", "1 TurnEnded"]


async def test_an_answer_that_was_cut_off_is_shown_to_its_end(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    scene.say("half ")
    viewer, other = Lines(), Lines()
    following = scene.handle.follow(viewer)
    following.rejoin({"t": 5})
    joined = scene.handle.follow(other, only_its_turn=True)
    joined.go_live()
    joined.follow_turn("1")
    next_call = Lines()
    scene.sent(next_call, "m2", "2")
    await scene.record(TurnEnded("interrupted", "x", "half an answer"))
    assert viewer.take() == ["1 … an answer", "1 TurnEnded"]
    assert next_call.take() == [], "it is the answer of another turn"
    assert other.take() == ["1 TurnEnded", "over: interrupted"]


# -- coming back to a call


async def come_back(scene: Scene, *, after: int, shown_to: int, given: dict[str, int], name: str = "m1") -> tuple[Lines, Following]:
    viewer = Lines()
    following = scene.handle.follow(viewer, after=after, only_its_turn=bool(name))
    following.follow_turn("1") if name else None
    await following.resume(name, leads=True, shown_to=shown_to, given=given)
    return viewer, following


async def test_a_call_that_comes_back_reads_from_its_place_and_gets_the_rest_of_the_text(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    scene.say("one two")
    last = scene.published
    for after, shown_to in ((last, last), (last - 1, last), (1, last), (last, last - 1)):
        viewer, following = await come_back(scene, after=after, shown_to=shown_to, given={"t": 3})
        assert viewer.take()[-1] == "1 …  two", after
        assert len(viewer.lines) == 0
        assert (following.live, following in scene.conversation.waiting) == (True, True)
        following.stop()


async def test_a_call_that_comes_back_after_the_text_is_over_gets_the_rest_before_the_record(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    last = scene.published
    await scene.record(said("one two"), ENDED)
    viewer, following = await come_back(scene, after=last, shown_to=last, given={"t": 3})
    assert viewer.take() == ["1 …  two", "1 ItemReceived", "1 TurnEnded", "over: completed"]
    assert (following.live, scene.conversation.waiting) == (False, [])
    viewer, following = await come_back(scene, after=last, shown_to=last + 1, given={})
    assert viewer.take() == ["1 ItemReceived", "1 TurnEnded", "over: completed"]


async def test_a_call_that_comes_back_finds_its_message_in_the_log_and_waits_for_its_turn(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    viewer = Lines()
    following = scene.handle.follow(viewer, after=1, only_its_turn=True)
    await following.resume("m1", leads=True, shown_to=1, given={})
    assert (following.turn, following.live, scene.conversation.waiting) == ("1", True, [following])
    await scene.record(said("nothing of it was streamed"), ENDED)
    assert viewer.take()[3:] == ["1 ItemReceived", "1 TurnEnded", "over: completed"]


async def test_of_a_huge_answer_its_end_is_shown_where_the_record_has_it_and_its_mark_is_not(scene: Scene) -> None:
    """The end of a turn keeps the first characters of an answer that was cut off, and says how many there were beyond them."""
    await scene.record(*begun("m1", "1"))
    last = scene.published
    huge = "x" * UNFINISHED_CHARACTERS
    await scene.record(said(f"{huge} rest"))
    viewer, following = await come_back(scene, after=last, shown_to=last, given={"t": UNFINISHED_CHARACTERS})
    assert viewer.take() == ["1 …  rest", "1 ItemReceived"]
    following.stop()
    for given, shown in ((UNFINISHED_CHARACTERS, []), (UNFINISHED_CHARACTERS - 1, ["1 … x [cut off]"])):
        watcher = Lines()
        watching = scene.handle.follow(watcher)
        watching.rejoin({"t": given})
        await scene.record(TurnEnded("interrupted", "x", f"{huge} [cut off]"))
        assert watcher.take() == [*shown, "1 TurnEnded"]
        watching.stop()


async def test_a_watcher_that_comes_back_late_gets_the_rest_of_the_text_that_ended_meanwhile(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    last = scene.published
    await scene.record(said("one two"), said("three"))
    viewer = Lines()
    following = scene.handle.follow(viewer, after=last)
    following.rejoin({"t": 3})
    await asyncio.sleep(0)
    assert viewer.take() == ["1 …  two", "1 ItemReceived", "1 ItemReceived"]
    await scene.record(said("not streamed"))
    assert viewer.take() == ["1 ItemReceived"]


async def test_a_watcher_that_comes_back_gets_only_the_rest_of_a_text_that_it_has_begun(scene: Scene) -> None:
    await scene.record(*begun("m1", "1"))
    last = scene.published
    await scene.record(said("one two"), said("three"), ENDED)
    viewer, following = await come_back(scene, after=last, shown_to=last, given={"t": 3}, name="")
    assert viewer.take() == ["1 …  two", "1 ItemReceived", "1 ItemReceived", "1 TurnEnded"]
    assert (following.live, scene.conversation.waiting) == (True, [])
    viewer, following = await come_back(scene, after=last, shown_to=last, given={}, name="")
    assert viewer.take() == ["1 ItemReceived", "1 ItemReceived", "1 TurnEnded"]
    viewer, following = await come_back(scene, after=last, shown_to=last, given={"t": 1}, name="")
    assert viewer.take() == ["1 … ne two", "1 ItemReceived", "1 ItemReceived", "1 TurnEnded"]


# -- a slow client


async def test_a_slow_client_reads_on_from_the_log_and_misses_nothing(scene: Scene) -> None:
    pipe = Pipe()
    viewer = Lines()
    following = scene.handle.follow(viewer, outlet=pipe)
    following.go_live()
    await scene.record(*begun("m1", "1"))
    scene.say("one ")
    assert viewer.take()[-1] == "1 … one "
    pipe.room = 0
    await scene.note("a")
    scene.say("two ")
    await scene.note("b")
    assert (viewer.take(), len(pipe.called)) == ([], 1)
    await pipe.drain()
    assert viewer.take() == ["1 a", "1 b", "1 … two "]
    scene.say("three")
    await scene.note("c")
    assert viewer.take() == ["1 … three", "1 c"]
    assert pipe.called == []


async def test_a_client_that_falls_behind_within_a_text_gets_its_rest_once(scene: Scene) -> None:
    pipe = Pipe()
    viewer = Lines()
    scene.handle.follow(viewer, outlet=pipe).go_live()
    scene.say("one ")
    pipe.room = 0
    scene.say("two ", "three")
    assert (viewer.take(), len(pipe.called)) == (["1 … one "], 1)
    await pipe.drain()
    assert viewer.take() == [" … two three"]
    await scene.record(said("one two three"))
    assert viewer.take() == ["1 ItemReceived"]


async def test_a_slow_client_is_shown_as_much_as_it_has_room_for(scene: Scene) -> None:
    pipe = Pipe(0)
    viewer = NarrowLines(pipe)
    following = scene.handle.follow(viewer, outlet=pipe)
    following.go_live()
    words = [f"word {number}" for number in range(40)]
    await scene.note(*words)
    lengths: list[int] = []
    for room in (3, 3, None, None, None, None, None, None):
        if pipe.called:
            await pipe.drain(room)
            lengths.append(len(viewer.lines) - sum(lengths))
    assert lengths == [3, 3, 34]
    assert viewer.take() == [f"1 {word}" for word in words]
    assert following.caught_up
    await scene.note("live")
    assert viewer.take() == ["1 live"]


async def test_one_who_leaves_while_it_is_behind_is_shown_nothing_more(scene: Scene) -> None:
    pipe = Pipe(0)
    viewer = Lines()
    following = scene.handle.follow(viewer, outlet=pipe)
    following.go_live()
    await scene.note("a")
    following.stop()
    await pipe.drain()
    await scene.settle()
    assert viewer.take() == []


@pytest.mark.parametrize(
    ("trouble", "told"),
    [(StoreError("the disk is gone"), "failed: the disk is gone"), (ZeroDivisionError(), "failed: internal error")],
)
async def test_one_whose_log_cannot_be_read_is_told_and_the_others_go_on(scene: Scene, trouble: Exception, told: str) -> None:
    pipe = Pipe(0)
    slow, quick = Lines(), Lines()
    following = scene.handle.follow(slow, outlet=pipe)
    following.go_live()
    following.wait()
    scene.handle.follow(quick).go_live()
    await scene.note("a")
    scene.log.trouble = trouble
    await pipe.drain()
    scene.log.trouble = None
    assert [line[: len(told)] for line in slow.take()] == [told]
    assert (following.live, scene.conversation.waiting) == (False, [])
    await scene.note("b")
    assert (slow.take(), quick.take()) == ([], ["1 a", "1 b"])


# -- who is left to answer


async def test_an_open_question_is_put_again_when_the_last_who_could_answer_has_left(scene: Scene) -> None:
    call, person, watcher = Lines(can_answer=False), Lines(), Lines(can_answer=False)
    scene.sent(call, "m1", "1")
    answers = scene.handle.follow(person)
    answers.go_live()
    scene.handle.follow(watcher).go_live()
    await scene.record(*begun("m1", "1"), ASKED)
    for lines in (call, person, watcher):
        lines.take()
    scene.conversation.running._task = asyncio.ensure_future(asyncio.sleep(0))  # pyright: ignore[reportPrivateUsage]  # a turn runs here
    second = scene.handle.follow(Lines())
    second.go_live()
    second.stop()
    await asyncio.sleep(0)
    assert call.take() == [], "somebody can still answer"
    answers.stop()
    assert call.take() == [], "in a later step: all may be leaving"
    await asyncio.sleep(0)
    assert (call.take(), watcher.take(), person.take()) == (["1 asks call1"], [], [])
    scene.conversation.running._task = None  # pyright: ignore[reportPrivateUsage]
    answers.cannot_answer()
    await asyncio.sleep(0)
    assert call.take() == [], "no turn runs here"


async def test_commands_that_began_are_no_part_of_an_earlier_turn(scene: Scene) -> None:
    viewer = Lines()
    scene.sent(viewer, "m1", "1")
    await scene.record(CommandStarted("c", ("ls",), "/w", contained=True), turn="0")
    assert viewer.take() == []
