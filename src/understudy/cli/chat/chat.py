"""The current conversation: turns input into ops, and shows what happens. Works with any kind of terminal.

Also keeps messages that wait for the end of a turn on disk: they are not in the log yet, and must survive the chat.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from understudy.cli.chat.showing import Face, Showing, ShownQuestion
from understudy.cli.chat.typed import Slash
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.fold import merge
from understudy.engine.setup.called import called_by, given_for
from understudy.engine.turn.approvals import CLIENT
from understudy.engine.viewers.following import Following, QuietViewer
from understudy.errors import AgentError, ConfigError, ConversationBusy
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.items import ContentPart, InputImage, InputText, Message
from understudy.protocol.ops import Decide, Interrupt, Resume
from understudy.protocol.records import Budget, Overrides, Question, Terms

MOST_BYTES = 64 << 20


class Queued(msgspec.Struct, frozen=True):
    text: str
    images: tuple[str, ...] = ()  # as data URLs


class QueueFile:
    """For one conversation and this process. If the disk cannot be written, messages are queued all the same."""

    def __init__(self, folder: Path | None, conversation_id: str) -> None:
        """`folder`: None to store nothing."""
        self._folder = folder
        self._id = conversation_id
        self._file = None if folder is None else folder / f"{conversation_id}.{os.getpid()}.json"

    def keep(self, queued: Sequence[Queued]) -> None:
        if self._file is None or self._folder is None:
            return
        with suppress(OSError):
            if not queued:
                self._file.unlink(missing_ok=True)
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._file.with_suffix(".new")
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(queued))
            os.replace(fresh, self._file)

    def take_over(self) -> list[Queued]:
        """Take messages of chats that have ended."""
        found: list[Queued] = []
        if self._folder is None:
            return found
        with suppress(OSError):
            for file in sorted(self._folder.glob(f"{self._id}.*.json")):
                number = file.name.split(".")[-2]
                if number.isdecimal() and not _lives(int(number)):
                    found += _read(file)
                    file.unlink(missing_ok=True)
        return found


def _read(file: Path) -> list[Queued]:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            return msgspec.json.decode(opened.read(MOST_BYTES), type=list[Queued])
    except (OSError, msgspec.MsgspecError):
        return []


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return process != os.getpid()


MOST_SHOWN = 400  # earlier records that are shown when a conversation is continued


class Chat:
    def __init__(self, engine: Engine, face: Face, overrides: Overrides, budget: Budget | None) -> None:
        self.engine = engine
        self.overrides = overrides  # for new conversations
        self.chosen: Overrides | None = None  # chosen by the person, from the next message on
        self.queued: list[Queued] = []  # to be sent after the turn
        self.images: list[str] = []  # for the next message, as data URLs
        self.left: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._face = face
        self._budget = budget
        self._showing: Showing | None = None
        self._following: Following | None = None
        self._queue_file = QueueFile(None, "")
        self._keepers: list[Following] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines = asyncio.Lock()  # held while a line is carried out; the others wait in the order in which they were typed

    # -- the conversation

    @property
    def showing(self) -> Showing:
        assert self._showing is not None  # call `attach` first
        return self._showing

    @property
    def attached(self) -> bool:
        return self._showing is not None

    @property
    def handle(self) -> Handle:
        return self.showing.handle

    @property
    def works(self) -> bool:
        return self._showing is not None and self._showing.turn is not None

    async def open_new(self) -> None:
        await self.attach(await self.engine.create(LOCAL, self.overrides))

    async def attach(self, handle: Handle) -> None:
        """Show the conversation so far, and continue live. A turn that was waiting for an answer when its process ended is
        continued."""
        self.detach()
        showing = self._showing = Showing(handle, self._face, failed=self.leave, turn_seen=self._keep, turn_over=self._after_turn)
        self._restore_queue(handle)
        after = max(0, handle.facts.last_seq - MOST_SHOWN)
        if after:
            showing.say(f"the beginning is left out; all of it: understudy show {handle.id}")
        following = self._following = handle.follow(showing, after=after)
        await following.go_live_from_cursor()
        if following.caught_up:
            for live in following.take_unfinished():
                showing.delta(live)
        turn = handle.facts.turn
        if turn is not None:
            showing.turn = turn
            self._keep(turn)
            with suppress(ConversationBusy):  # another process runs it; we watch, and pass answers to it
                await handle.submit(Resume())
            following.put_open_questions()

    def _restore_queue(self, handle: Handle) -> None:
        config = handle.setup().config
        folder = config.state_dir / "chat-queue" if config.history_persistence != "none" else None
        self._queue_file = QueueFile(folder, handle.id)
        self.queued = self._queue_file.take_over()
        if self.queued:
            self._queue_file.keep(self.queued)

    def detach(self) -> None:
        """Stop showing it; a running turn goes on."""
        if self._following is not None:
            self._following.stop()
        for keeper in self._keepers:
            keeper.stop()
        self._keepers.clear()
        self.queued.clear()
        self.chosen = None
        if self._showing is not None:
            self._showing.stop()

    def _keep(self, turn: str) -> None:
        """Watch the turn, so that this process takes it over if the one that runs it dies. Not needed once the turn has ended."""
        if self.handle.facts.turn != turn:
            return
        keeper = self.handle.follow(_Keeper(self.showing))
        keeper.go_live()
        keeper.follow_turn(turn)
        self._keepers = [*(each for each in self._keepers if each.live), keeper]

    def leave(self, error: BaseException | None = None) -> None:
        """`error`: why nothing more can be shown."""
        if not self.left.done():
            self.left.set_result(error)

    # -- what a person does

    def begin(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the action in the background; if it is refused, show why."""

        async def run() -> None:
            try:
                await action()
            except AgentError as error:
                self.showing.teller.failure(str(error))
                self._face.changed()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def begin_line(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the action after those of earlier lines, once their records are shown: otherwise its output would appear above them,
        and a message could go to the conversation that `/new` leaves.
        """

        async def in_order() -> None:
            async with self._lines:
                await self.showing.catch_up()
                await action()

        self.begin(in_order)

    def say(self, text: str) -> None:
        """Show a reply to a line."""

        async def tell() -> None:
            self.showing.say(text)

        self.begin_line(tell)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.leave(error)

    async def send(self, text: str, images: Sequence[str] = ()) -> None:
        """Send a message: it begins a turn, or the running turn reads it with its next request to the model."""
        parts: list[ContentPart] = [*(InputImage(image) for image in images), InputText(text)]
        if text.lstrip().startswith("/") and (given := self._given_for(text)) is not None:
            parts.append(given)
        message = Message("user", tuple(parts))
        chosen, self.chosen = self.chosen, None
        terms = Terms(budget=self._budget) if self._budget is not None and not self.works else None
        try:
            await self.handle.submit(self.handle.message(message, chosen, terms=terms))
        except AgentError:
            self.chosen = chosen
            raise

    def _given_for(self, text: str) -> InputText | None:
        setup = self.handle.setup()
        return given_for(text, setup.config, setup.pins)

    def own_commands(self) -> set[str]:
        """Names of commands and skills on disk that can be called here."""
        setup = self.handle.setup()
        return {called.name.casefold() for called in called_by(setup.config, setup.pins)}

    def help_lines(self) -> list[tuple[str, str]]:
        """Help for those commands and skills."""
        setup = self.handle.setup()
        return [(f"/{each.name} {each.hint}".strip(), each.description) for each in called_by(setup.config, setup.pins)]

    def own_slashes(self) -> Callable[[], list[Slash]]:
        """A search for them that may run on another thread."""
        try:
            setup = self.handle.setup()
        except ConfigError:
            return list  # sending a message says what is wrong
        return lambda: [Slash(each.name, each.description, each.hint) for each in called_by(setup.config, setup.pins)]

    def choose(self, overrides: Overrides) -> None:
        """Use these settings from the next message on."""
        self.chosen = overrides if self.chosen is None else merge(self.chosen, overrides)

    def queue(self, text: str, images: Sequence[str] = ()) -> None:
        self.queued.append(Queued(text, tuple(images)))
        self._queue_file.keep(self.queued)
        self._face.changed()

    def _after_turn(self, completed: bool) -> None:
        """Whoever interrupts a turn wants to think first, so queued messages then wait for a command."""
        if completed:
            self.send_queued()

    def send_queued(self) -> None:
        """Send the first queued message, if nothing runs."""
        if self.queued and not self.works:
            self.begin_line(self._send_first)

    async def _send_first(self) -> None:
        if not self.queued or self.works:
            return
        first = self.queued[0]
        await self.send(first.text, first.images)
        self.queued.remove(first)
        self._queue_file.keep(self.queued)
        self._face.changed()

    async def interrupt(self) -> None:
        self.showing.interrupting = True
        self._face.changed()
        accepted = await self.handle.submit(Interrupt())
        if not accepted.effective:
            self.showing.interrupting = False

    async def decide(self, call_id: str, decision: Decision, word: str = "") -> None:
        """Words with a decision are a message. It is sent first, so that the model reads both with its next request."""
        asked = self.showing.questions.get(call_id)
        if asked is None or asked.answered:
            return
        asked.answered = True
        self._face.changed()
        try:
            if word.strip():
                await self.send(word)
            await self.handle.submit(Decide(call_id, decision, CLIENT, asked.turn, asked_at=asked.asked_at))
        except AgentError:
            asked.answered = False
            raise

    async def answer(self, asked: ShownQuestion, words: str) -> None:
        """Answer the model's next question; the remaining ones are asked afterwards."""
        if asked.typed is None or asked.answered:
            return
        if asked.typed.take(words):
            asked.answered = True
            op = asked.typed.op(asked.turn, asked.asked_at)
            self._face.changed()
            await self.handle.submit(op)
        self._face.changed()

    def model(self) -> str:
        """The model for the next message."""
        return (self.chosen and self.chosen.model) or self.showing.model


class _Keeper(QuietViewer):
    """Waits for the end of a turn, so that this process takes it over if the one that runs it dies."""

    def __init__(self, showing: Showing) -> None:
        self._showing = showing

    @property
    def can_answer(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return False  # the chat's main following can

    def question(self, question: Question, turn: str) -> None:
        self._showing.question(question, turn)
