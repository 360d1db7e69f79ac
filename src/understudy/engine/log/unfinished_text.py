"""The text so far of items that are not finished: shown once although it may arrive twice, given to viewers who come late, and
kept beside the log.
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

UNFINISHED_CHARACTERS = 1024 * 1024  # of an answer that was cut off; the model is sent them with every later request


def cut_off(text: str) -> str:
    """What is kept of an answer that will not be completed: all of it, unless it is huge."""
    left_out = len(text) - UNFINISHED_CHARACTERS
    return text if left_out <= 0 else f"{text[:UNFINISHED_CHARACTERS]}\n[... {left_out} more characters were cut off ...]"


class ShownText:
    def __init__(self) -> None:
        self._shown: StringIO | None = None  # not a list: a long answer has millions of small pieces
        self._expected = ""  # what was shown of an earlier attempt
        self._again = 0  # so many characters of it have come again
        self._strayed = False
        self.strayed_now = False  # true just after the piece with which it went another way

    @property
    def shown(self) -> str:
        """What viewers have of an answer that is not complete."""
        return "" if self._strayed else self._so_far()

    @property
    def untouched(self) -> bool:
        """Nothing has come since the last item was complete, and nothing is expected."""
        return self._shown is None and not self._expected

    @property
    def falls_short(self) -> bool:
        """If it ended here, viewers would have been shown more than was said."""
        return bool(self._expected) and not self._strayed

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
        """The answer broke off and is asked for anew."""
        self._expected = self._so_far()
        self._again = 0

    def finish(self) -> None:
        """The item is complete: the next one starts from nothing."""
        self._shown = None
        self._expected = ""
        self._strayed = False

    def _so_far(self) -> str:
        return "" if self._shown is None else self._shown.getvalue()


STORED_OUTPUT = 16 * 1024  # bytes of a running command's output that are kept beside the log


TEXT, REASONING, RAW, OUTPUT = "text", "reasoning", "raw", "output"

_FINISHED_BY_ITEM: dict[type, tuple[str, ...]] = {Message: (TEXT,), Reasoning: (REASONING, RAW)}

MAY_FINISH_TEXT = frozenset({ItemReceived, CommandStarted, CommandEnded, Noticed, TurnEnded})  # kinds of record


def finished_by(record: Record) -> tuple[str, ...]:
    """What a record now says for good: the kinds of unfinished text that it ends."""
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
    """What the model said in it."""
    match record:
        case TurnEnded(unfinished=text):
            return text or ""
        case ItemReceived(item=Message() as message):
            return message.text()
        case _:
            return ""


class _Text:
    """A text that grows. What was saved is kept in few pieces: a long answer has millions of small ones."""

    __slots__ = ("new", "saved")

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.new: list[str] = []

    def whole(self) -> str:
        return "".join([*self.saved, *self.new])

    def take_new(self) -> str:
        """What has come since this was last asked."""
        new = "".join(self.new)
        if new:
            self.saved.append(new)
            self.new.clear()
        return new


class TextSoFar:
    """Of the items that are not finished, for viewers who arrive in the middle of one."""

    def __init__(self) -> None:
        self._texts: dict[str, _Text] = {}
        self._outputs: dict[tuple[str, str], bytearray] = {}
        self._printed = False  # something was, since it was last saved

    def __bool__(self) -> bool:
        return bool(self._texts or self._outputs)

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta():  # nearly all of them
                known = self._texts.get(TEXT)
                if known is None:
                    known = self._texts[TEXT] = _Text()
                known.new.append(delta.text)
            case ReasoningDelta(text=text, raw=raw):
                self._texts.setdefault(RAW if raw else REASONING, _Text()).new.append(text)
            case OutputDelta() as output:
                self._printed = True
                self._outputs.setdefault((output.call_id, output.stream), bytearray()).extend(output.chunk)

    def finish(self, record: Record) -> bool:
        """Forget what the record now says for good. True when that was something."""
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
        """All of it, as one delta for each item."""
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
        """What `saved` has of each text after what is known here. A running command's output is not told from afar."""
        found: list[Delta] = []
        for kind, text in ((REASONING, saved.reasoning), (RAW, saved.raw_reasoning), (TEXT, saved.text)):
            new = text[len(self.text(kind)) :]
            if new:
                found.append(TextDelta(new) if kind == TEXT else ReasoningDelta(new, kind == RAW))
        return found

    def all_to_save(self, after: int) -> SavedText:
        return SavedText(after, self.text(), self.text(REASONING), self.text(RAW), self._tails())

    def new_to_save(self, after: int) -> SavedText:
        """The texts since this was last asked, and what running commands printed, where that has changed."""
        new = {kind: text.take_new() for kind, text in self._texts.items()}
        outputs = self._tails() if self._printed else ()
        self._printed = False
        return SavedText(after, new.get(TEXT, ""), new.get(REASONING, ""), new.get(RAW, ""), outputs)

    def _tails(self) -> tuple[tuple[str, str, bytes], ...]:
        return tuple((call_id, stream, bytes(printed[-STORED_OUTPUT:])) for (call_id, stream), printed in self._outputs.items())


class GivenText:
    """Lengths, by item."""

    def __init__(self) -> None:
        self.lengths: dict[str, int] = {}

    def length(self, key: str) -> int:
        return self.lengths.get(key, 0)

    def add(self, delta: Delta) -> None:
        if type(delta) is TextDelta:  # nearly all of them
            self.lengths[TEXT] = self.lengths.get(TEXT, 0) + len(delta.text)
            return
        key, length = _measure(delta)
        self.lengths[key] = self.lengths.get(key, 0) + length

    def finish(self, record: Record) -> None:
        if not self.lengths:
            return
        gone = finished_by(record)
        if gone == (TEXT,):  # nearly always; no other key begins like it
            if TEXT in self.lengths:
                del self.lengths[TEXT]
        elif gone:
            self.lengths = {key: length for key, length in self.lengths.items() if not key.startswith(gone)}

    def marks(self) -> dict[str, int]:
        """The lengths under short names, for a viewer that may come back."""
        return {_mark_of(key): length for key, length in self.lengths.items() if length}

    def restore(self, marks: Mapping[str, int], text: TextSoFar) -> None:
        """What `marks` said earlier is given; `text` has the full names of what commands have printed."""
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
        """`save` is called when it is time to: whoever knows where the log stands calls `write` then, or `save_soon` again."""
        self._id = conversation_id
        self._log = log
        self._loop = loop
        self._save = save
        self.timer: asyncio.TimerHandle | None = None  # until it is time to save
        self.exists = False  # in the store, perhaps
        self._complete = False  # all of the text so far is in the store, so that what comes can be added to it

    def expect_leftovers(self) -> None:
        """A process that has ended may have saved text here; the next finished item clears it."""
        self.exists, self._complete = True, False

    def note_cleared(self) -> None:
        """A batch of entries takes it out of the store."""
        self.exists = self._complete = False

    def note_finished(self) -> None:
        """An item was finished: what is in the store says more than is unfinished now."""
        self._complete = False

    def save_soon(self) -> None:
        if self.timer is None:
            self.timer = self._loop.call_later(SAVE_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self.timer = None
        self._save()

    def write(self, text: TextSoFar, after: int, epoch: int) -> None:
        """What is new since the last time; all of it where that is not known to be in the store."""
        new = text.new_to_save(after)
        adds = self._complete
        saved = new if adds else text.all_to_save(after)
        self.exists = self._complete = True
        self._log.save_text(self._id, epoch, saved, self._on_written, adds=adds)

    def _on_written(self, error: BaseException | None) -> None:
        if error is not None:
            self._complete = False  # a piece is missing: the next time all of it is written

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
