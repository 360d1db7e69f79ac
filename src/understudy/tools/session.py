"""Commands that may outlive their call: those of a conversation, and the part of their output that the model does not know yet.

They belong to the conversation, not to a turn, and end with the process. Nothing here judges or records: see `long_commands`.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from understudy.errors import ToolError
from understudy.protocol.records import CommandEnded
from understudy.sandbox.control import Control
from understudy.sandbox.spec import Containment
from understudy.tools.output import HeadTail, whole_prefix

KEPT_BYTES = 128 * 1024  # of new output since the model was last told, head and tail
BYTES_PER_TOKEN = 4
DEFAULT_TOKENS = 10_000


class Finished(Protocol):
    """How a command ended."""

    exit_code: int
    denied: bool  # the sandbox seems to have refused something

    def why_unstarted(self) -> str | None:
        """What the model is told if nothing was run."""
        ...

    def remarks(self) -> list[str]:
        """Remarks to add to what it printed."""
        ...

    def failure(self) -> str: ...


class Unread:
    """What a command printed since the model was last told."""

    def __init__(self) -> None:
        self._kept = HeadTail(KEPT_BYTES)

    def feed(self, chunk: bytes) -> None:
        self._kept.feed(chunk)

    def take(self, most_tokens: int, *, more_may_come: bool) -> tuple[str, int]:
        """The new text within this limit, and how many tokens it had before cutting. It counts as told from now on."""
        kept, self._kept = self._kept, HeadTail(KEPT_BYTES)
        most = min(max(most_tokens, 0) * BYTES_PER_TOKEN, KEPT_BYTES)
        if more_may_come and kept.whole and (begun := _begun_character(kept.head())):
            self._kept.feed(begun)
            told = HeadTail(KEPT_BYTES)
            told.feed(kept.head()[: -len(begun)])
            kept = told
        tokens = math.ceil(kept.length / BYTES_PER_TOKEN)
        if kept.length <= most:
            return kept.head().decode("utf-8", "replace"), tokens
        half = most // 2
        head = kept.head()[:half].decode("utf-8", "replace")
        tail = kept.tail()[-half:].decode("utf-8", "replace") if half else ""
        return f"{head}\n[... omitted {kept.length - 2 * half} of {kept.length} bytes ...]\n{tail}", tokens


def _begun_character(raw: bytes) -> bytes:
    """The first bytes of a character whose last bytes have not come yet."""
    return raw[whole_prefix(raw) :]


class Session:
    """One such command, from before it begins until the model knows that it has ended."""

    def __init__(self, number: int, call_id: str, argv: tuple[str, ...], cwd: str, control: Control) -> None:
        self.number = number
        self.call_id = call_id
        self.argv = argv
        self.cwd = cwd
        self.control = control
        self.unread = Unread()
        self.outside = False  # a person let it leave the sandbox, so input for it is asked about, too
        self.bounds: Containment | None = None  # the containment with which it began; None: not contained
        self.known = False  # the model was told its number
        self.line = ""  # the typed part of an unfinished line
        self.early_notice = ""  # a notice for the model, if the command still runs when its call is answered
        self.ended_by = ""  # why we ended it, if we did
        self.finished: Finished | None = None
        self.failure: str | None = None  # why its end is not known
        self._task: asyncio.Task[Finished] | None = None
        self._idle: asyncio.TimerHandle | None = None

    def run(self, work: "Coroutine[Any, Any, Finished]", on_over: Callable[["Session"], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(work, name=f"command of session {self.number}")
        self._task.add_done_callback(lambda task: self._end(task, on_over))

    def _end(self, task: "asyncio.Task[Finished]", on_over: Callable[["Session"], None]) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if task.cancelled():
            self.failure = self.ended_by or "it was ended"
        elif (error := task.exception()) is not None:
            self.failure = str(error)
        else:
            self.finished = task.result()
        on_over(self)

    @property
    def waited_for(self) -> bool:
        return self.control.is_awaited

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    def raise_failure(self) -> None:
        """Raise what kept it from beginning, for the call that wanted it."""
        if self._task is not None and self._task.done() and not self._task.cancelled() and (error := self._task.exception()):
            raise error

    async def wait(self, seconds: float, idle_seconds: float) -> None:
        """Wait for its end, at most so long. It does not count as idle meanwhile, nor for `idle_seconds` afterwards."""
        assert self._task is not None
        try:
            with self.control.awaited():
                await asyncio.wait([self._task], timeout=seconds)
        finally:
            self._watch_idleness(idle_seconds)

    def _watch_idleness(self, seconds: float) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if not self.over:
            self._idle = asyncio.get_running_loop().call_later(seconds, self._end_if_idle, seconds)

    def _end_if_idle(self, seconds: float) -> None:
        if not self.waited_for and not self.over:
            self.end_soon(f"it was ended because nobody had asked for it for {seconds:g} seconds")

    def end_soon(self, reason: str) -> None:
        if self._task is not None and not self._task.done():
            self.ended_by = self.ended_by or reason
            self._task.cancel()

    async def ended(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])


class Sessions:
    """The commands of one conversation: those that run, and those whose end the model has not been told."""

    def __init__(
        self, last_recorded: Callable[[], int], untold: Callable[[int], CommandEnded | None], on_over: Callable[[], None]
    ) -> None:
        """`last_recorded`: the last number in the log; `untold`: the record of an end that no call waited for, from the log.

        `on_over` is called when one has ended.
        """
        self._untold = untold
        self._told: set[int] = set()  # numbers of those that the log still has as untold
        self._last_recorded = last_recorded
        self._last = 0  # a number is assigned before it is recorded
        self.running: dict[int, Session] = {}
        self._over: dict[int, Session] = {}
        self._on_over = on_over

    def __bool__(self) -> bool:
        return bool(self.running)

    def make(self, call_id: str, argv: tuple[str, ...], cwd: str, control: Control, most: int) -> Session:
        """Raises `ToolError` if there are too many."""
        if len(self.running) >= most:
            listed = ", ".join(f"{session.number} ({_shortened(session.argv)})" for session in self.running.values())
            raise ToolError(
                f"exec_command failed: {most} commands are running in sessions, which is the most. End one first, by Ctrl-C"
                f" (\\u0003) with write_stdin. Sessions: {listed}"
            )
        self._last = max(self._last, self._last_recorded()) + 1
        session = Session(self._last, call_id, argv, cwd, control)
        while len(self._over) >= most:
            del self._over[next(iter(self._over))]
        return session

    def start(self, session: Session, work: "Coroutine[Any, Any, Finished]") -> None:
        self.running[session.number] = session
        session.run(work, self._note_over)

    def _note_over(self, session: Session) -> None:
        del self.running[session.number]
        if session.known:
            self._over[session.number] = session
        self._on_over()

    def find(self, number: int) -> Session | None:
        return self.running.get(number) or self._over.get(number)

    def forget(self, session: Session) -> None:
        """The model has learned how it ended."""
        self._over.pop(session.number, None)
        self._told.add(session.number)

    def take_untold(self, number: int) -> CommandEnded | None:
        """Report, once, the end of a command that another process ran."""
        ended = None if number in self._told else self._untold(number)
        self._told.add(number)
        return ended

    async def end_all(self, reason: str) -> None:
        sessions = tuple(self.running.values())
        for session in sessions:
            session.end_soon(reason)
        for session in sessions:
            await session.ended()


def _shortened(argv: tuple[str, ...]) -> str:
    text = " ".join(argv[-1].split())
    return text if len(text) <= 60 else text[:59] + "…"
