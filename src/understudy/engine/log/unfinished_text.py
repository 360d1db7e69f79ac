"""The text so far of unfinished items: shown once even if it arrives twice, given to viewers who join late, and saved beside the
log.
"""

import asyncio
from binascii import crc32
from collections.abc import Callable, Mapping
from io import StringIO

from understudy.protocol.ids import ConversationId
from understudy.protocol.items import Message, Reasoning
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    Delta,
    ItemReceived,
    Noticed,
    OutputDelta,
    ReasoningDelta,
    Record,
    TextDelta,
    TurnEnded,
)
from understudy.store.log import EventLog, SavedText

UNFINISHED_CHARACTERS = 1024 * 1024  # kept of an answer that was cut off; every later request sends them to the model


def cut_off(text: str) -> str:
    """What is kept of an answer that will never be complete: all of it, unless it is huge."""
    left_out = len(text) - UNFINISHED_CHARACTERS
    return text if left_out <= 0 else f"{text[:UNFINISHED_CHARACTERS]}\n[... {left_out} more characters were cut off ...]"


class ShownText:
    def __init__(self) -> None:
        self._shown: StringIO | None = None  # not a list: a long answer has millions of small pieces
        self._expected = ""  # the shown text of an earlier attempt
        self._again = 0  # characters of it that have come again
        self._strayed = False
        self.strayed_now = False  # true just after the piece with which the new attempt differed

    @property
    def shown(self) -> str:
        """The shown part of an answer that is not complete."""
        return "" if self._strayed else self._so_far()

    @property
    def untouched(self) -> bool:
        """Nothing has come since the last complete item, and nothing is expected."""
        return self._shown is None and not self._expected

    @property
    def falls_short(self) -> bool:
        """If the answer ended here, viewers would have been shown more than was said."""
        return bool(self._expected) and not self._strayed

    @property
    def is_all_new(self) -> bool:
        """Whether whatever comes next is new to viewers."""
        return not self._expected and not self._strayed

    def hear(self, piece: str) -> str:
        """The part of `piece` that is new to viewers."""
        self.strayed_now = False
        if self._strayed:
            return ""
        if self._shown is None:
            self._shown = StringIO()
        if not self._expected:
            self._shown.write(piece)
            return piece
        known = min(len(piece), len(self._expected) - self._again)
        if not self._expected.startswith(piece[:known], self._again):
            self._strayed = self.strayed_now = True
            return ""
        self._again += known
        if self._again == len(self._expected):
            self._expected = ""
        new = piece[known:]
        self._shown.write(new)
        return new

    def begin_again(self) -> None:
        """The answer broke off and is asked for again."""
        self._expected = self._so_far()
        self._again = 0

    def finish(self) -> None:
        """The item is complete: the next one starts from nothing."""
        self._shown = None
        self._expected = ""
        self._strayed = False

    def _so_far(self) -> str:
        return "" if self._shown is None else self._shown.getvalue()


STORED_OUTPUT = 16 * 1024  # bytes of a running command's output that are saved beside the log


TEXT, REASONING, RAW, OUTPUT = "text", "reasoning", "raw", "output"

_FINISHED_BY_ITEM: dict[type, tuple[str, ...]] = {Message: (TEXT,), Reasoning: (REASONING, RAW)}

MAY_FINISH_TEXT = frozenset({ItemReceived, CommandStarted, CommandEnded, Noticed, TurnEnded})  # kinds of record


def finished_by(record: Record) -> tuple[str, ...]:
    """The kinds of unfinished text that this record replaces."""
    match record:
        case TurnEnded():
            return (TEXT, REASONING, RAW, OUTPUT)
        case ItemReceived(item=item):
            return _FINISHED_BY_ITEM.get(type(item), ())
        case CommandStarted(call_id=call_id) | CommandEnded(call_id=call_id):
            return (f"{OUTPUT} {call_id} ",)
        case Noticed(withdraws=True):
            return (TEXT, REASONING, RAW)
        case _:
            return ()


def said_in(record: Record) -> str:
    """What the model said, according to the record."""
    match record:
        case TurnEnded(unfinished=text):
            return text or ""
        case ItemReceived(item=Message() as message):
            return message.text()
        case _:
            return ""


class _Text:
    """A growing text. Saved text is joined into few pieces: a long answer has millions of small ones."""

    __slots__ = ("new", "saved")

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.new: list[str] = []

    def whole(self) -> str:
        return "".join([*self.saved, *self.new])

    def take_new(self) -> str:
        """The text since the last call."""
        new = "".join(self.new)
        if new:
            self.saved.append(new)
            self.new.clear()
        return new


class TextSoFar:
    """The text of unfinished items, for viewers who join in the middle of one."""

    def __init__(self) -> None:
        self._texts: dict[str, _Text] = {}
        self._outputs: dict[tuple[str, str], bytearray] = {}
        self._printed = False  # a command has printed something since the last save

    def __bool__(self) -> bool:
        return bool(self._texts or self._outputs)

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta():  # nearly all deltas
                if TEXT not in self._texts:
                    self._texts[TEXT] = _Text()
                self._texts[TEXT].new.append(delta.text)
            case ReasoningDelta(text=text, raw=raw):
                self._texts.setdefault(RAW if raw else REASONING, _Text()).new.append(text)
            case OutputDelta() as output:
                self._printed = True
                self._outputs.setdefault((output.call_id, output.stream), bytearray()).extend(output.chunk)

    def finish(self, record: Record) -> bool:
        """Forget the text that the record replaces. True if there was any."""
        if not (self._texts or self._outputs):
            return False
        finished = False
        for kind in finished_by(record):
            if kind in self._texts:
                del self._texts[kind]
                finished = True
            elif self._outputs and kind.startswith(OUTPUT):
                for key in [key for key in self._outputs if f"{OUTPUT} {key[0]} ".startswith(kind)]:
                    del self._outputs[key]
                    finished = True
        return finished

    def text(self, kind: str = TEXT) -> str:
        known = self._texts.get(kind)
        return known.whole() if known is not None else ""

    def deltas(self) -> list[Delta]:
        """All text so far, as one delta per item."""
        found: list[Delta] = []
        if REASONING in self._texts:
            found.append(ReasoningDelta(self.text(REASONING)))
        if RAW in self._texts:
            found.append(ReasoningDelta(self.text(RAW), raw=True))
        if TEXT in self._texts:
            found.append(TextDelta(self.text()))
        for (call_id, stream), printed in self._outputs.items():
            found.append(OutputDelta(call_id, "stderr" if stream == "stderr" else "stdout", bytes(printed)))
        return found

    def beyond(self, saved: SavedText) -> list[Delta]:
        """What `saved` adds to each text known here. Output of a running command is not shown across processes."""
        found: list[Delta] = []
        for kind, text in ((REASONING, saved.reasoning), (RAW, saved.raw_reasoning), (TEXT, saved.text)):
            new = text[len(self.text(kind)) :]
            if new:
                found.append(TextDelta(new) if kind == TEXT else ReasoningDelta(new, kind == RAW))
        return found

    def all_to_save(self, after: int) -> SavedText:
        return SavedText(after, self.text(), self.text(REASONING), self.text(RAW), self._tails())

    def new_to_save(self, after: int) -> SavedText:
        """The text since the last call, and the output of running commands if it has changed."""
        new = {kind: text.take_new() for kind, text in self._texts.items()}
        outputs = self._tails() if self._printed else ()
        self._printed = False
        return SavedText(after, new.get(TEXT, ""), new.get(REASONING, ""), new.get(RAW, ""), outputs)

    def _tails(self) -> tuple[tuple[str, str, bytes], ...]:
        return tuple((call_id, stream, bytes(printed[-STORED_OUTPUT:])) for (call_id, stream), printed in self._outputs.items())


class GivenText:
    """How many characters of each item a viewer was given."""

    def __init__(self) -> None:
        self.lengths: dict[str, int] = {}

    def length(self, key: str) -> int:
        return self.lengths.get(key, 0)

    def add(self, delta: Delta) -> None:
        key, length = _measure(delta)
        self.lengths[key] = self.lengths.get(key, 0) + length

    def finish(self, record: Record) -> None:
        if not self.lengths:
            return
        gone = finished_by(record)
        if gone == (TEXT,):  # nearly always; no other key begins with it
            if TEXT in self.lengths:
                del self.lengths[TEXT]
        elif gone:
            self.lengths = {key: length for key, length in self.lengths.items() if not key.startswith(gone)}

    def marks(self) -> dict[str, int]:
        """The lengths under short names, for a viewer that may come back."""
        return {_mark_of(key): length for key, length in self.lengths.items() if length}

    def restore(self, marks: Mapping[str, int], text: TextSoFar) -> None:
        """Set the lengths from earlier `marks`; `text` supplies the full names for the output of commands."""
        keys = [TEXT, REASONING, RAW, *(_measure(delta)[0] for delta in text.deltas())]
        self.lengths = {key: marks[_mark_of(key)] for key in keys if _mark_of(key) in marks}

    def missing(self, text: TextSoFar) -> list[Delta]:
        found: list[Delta] = []
        for delta in text.deltas():
            key, length = _measure(delta)
            given = self.length(key)
            if given < length:
                found.append(_after(delta, given))
        return found


_MARKS = {TEXT: "t", REASONING: "r", RAW: "w"}


def _mark_of(key: str) -> str:
    return _MARKS.get(key) or f"o{crc32(key.encode(errors='replace')):08x}"


def _measure(delta: Delta) -> tuple[str, int]:
    match delta:
        case TextDelta(text=text):
            return TEXT, len(text)
        case ReasoningDelta(text=text, raw=raw):
            return (RAW if raw else REASONING), len(text)
        case OutputDelta() as output:
            return f"{OUTPUT} {output.call_id} {output.stream}", len(output.chunk)


def _after(delta: Delta, given: int) -> Delta:
    match delta:
        case TextDelta(text=text):
            return TextDelta(text[given:])
        case ReasoningDelta(text=text, raw=raw):
            return ReasoningDelta(text[given:], raw)
        case OutputDelta() as output:
            return OutputDelta(output.call_id, output.stream, output.chunk[given:])


SAVE_SECONDS = 0.25


class TextSaver:
    def __init__(
        self, conversation_id: ConversationId, log: EventLog, loop: asyncio.AbstractEventLoop, save: Callable[[], None]
    ) -> None:
        """`save` is called when it is time to save; it then calls `write` or, depending on the log's position,
        `save_soon` again.
        """
        self._id = conversation_id
        self._log = log
        self._loop = loop
        self._save = save
        self.timer: asyncio.TimerHandle | None = None  # until it is time to save
        self.exists = False  # the store may have text
        self._complete = False  # the store has all text so far, so new text can be added to it

    def expect_leftovers(self) -> None:
        """A dead process may have saved text here; the next finished item clears it."""
        self.exists, self._complete = True, False

    def note_cleared(self) -> None:
        """A batch of entries removes the text from the store."""
        self.exists = self._complete = False

    def note_finished(self) -> None:
        """An item was finished: the store has text that is no longer unfinished."""
        self._complete = False

    def save_soon(self) -> None:
        if self.timer is None:
            self.timer = self._loop.call_later(SAVE_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self.timer = None
        self._save()

    def write(self, text: TextSoFar, after: int, epoch: int) -> None:
        """Save the new text, or all of it if the store may lack some."""
        new = text.new_to_save(after)
        adds = self._complete
        saved = new if adds else text.all_to_save(after)
        self.exists = self._complete = True
        self._log.save_text(self._id, epoch, saved, self._on_written, adds=adds)

    def _on_written(self, error: BaseException | None) -> None:
        if error is not None:
            self._complete = False  # a piece is missing: save all of it next time

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
