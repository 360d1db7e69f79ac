"""The text so far of items that are not finished, for viewers who arrive in the middle and for a restart."""

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
from understudy.store.log import SavedText

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
