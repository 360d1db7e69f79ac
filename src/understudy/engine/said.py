"""What has been said of items that are not finished, for viewers who arrive in the middle and for a restart."""

from understudy.protocol.items import Message, Reasoning
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    Delta,
    ItemReceived,
    OutputDelta,
    ReasoningDelta,
    Record,
    TextDelta,
    TurnEnded,
)
from understudy.store.log import Partial

STORED_OUTPUT = 16 * 1024  # bytes of a running command's output that are kept beside the log


class Said:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._raw: list[str] = []
        self._outputs: dict[tuple[str, str], bytearray] = {}

    def __bool__(self) -> bool:
        return bool(self._text or self._reasoning or self._raw or self._outputs)

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._text.append(text)
            case ReasoningDelta(text=text, raw=raw):
                (self._raw if raw else self._reasoning).append(text)
            case OutputDelta() as output:
                self._outputs.setdefault((output.call_id, output.stream), bytearray()).extend(output.chunk)

    def finish(self, record: Record) -> None:
        """Forget what a record now says for good."""
        match record:
            case ItemReceived(item=Message()):
                self._text.clear()
            case ItemReceived(item=Reasoning()):
                self._reasoning.clear()
                self._raw.clear()
            case CommandStarted(call_id=call_id) | CommandEnded(call_id=call_id):
                for key in [key for key in self._outputs if key[0] == call_id]:
                    del self._outputs[key]
            case TurnEnded():
                self._text.clear()
                self._reasoning.clear()
                self._raw.clear()
                self._outputs.clear()
            case _:
                pass

    @property
    def text(self) -> str:
        return "".join(self._text)

    def deltas(self) -> list[Delta]:
        """All of it, as one delta for each item."""
        found: list[Delta] = []
        if self._reasoning:
            found.append(ReasoningDelta("".join(self._reasoning)))
        if self._raw:
            found.append(ReasoningDelta("".join(self._raw), raw=True))
        if self._text:
            found.append(TextDelta("".join(self._text)))
        for (call_id, stream), printed in self._outputs.items():
            found.append(OutputDelta(call_id, "stderr" if stream == "stderr" else "stdout", bytes(printed)))
        return found

    def partial(self, after: int) -> Partial:
        outputs = tuple((call_id, stream, bytes(printed[-STORED_OUTPUT:])) for (call_id, stream), printed in self._outputs.items())
        return Partial(after, "".join(self._text), "".join(self._reasoning), "".join(self._raw), outputs)
