"""What must hold of everything that viewers were shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.history import Event
from tests.simulation.rules_of_logs import LogRules
from understudy.protocol.items import Message
from understudy.protocol.records import Entry, ItemReceived, Noticed, TextDelta, TurnEnded


@dataclass
class _Seen:
    conversation: str
    after: int
    whole: bool
    process: str
    last: int = field(init=False)
    text: str = ""  # of the answer that is being given
    over: str | None = None
    last_record: object = None

    def __post_init__(self) -> None:
        self.last = self.after


class ViewerRules:
    def __init__(self, complain: Callable[[str], None], logs: LogRules) -> None:
        self._complain = complain
        self._logs = logs
        self._seen: dict[int, _Seen] = {}

    def follows(self, event: Event) -> None:
        facts = event.facts
        self._seen[facts["viewer"]] = _Seen(event.conversation, facts["after"], facts["whole"], facts["process"])

    def _of(self, event: Event, what: str) -> tuple[_Seen, str]:
        number = event.facts["viewer"]
        seen = self._seen.setdefault(number, _Seen(event.conversation, 0, False, ""))
        here = f"viewer {number} of {event.conversation[-4:]}"
        if seen.over is not None:
            self._complain(f"{here} got {what} after it {seen.over}")
        return seen, here

    def shown(self, event: Event) -> None:
        seen, here = self._of(event, "a record")
        entry: Entry = event.facts["entry"]
        log = self._logs.entries[event.conversation]
        if entry.seq > len(log):
            self._complain(f"{here} was shown record {entry.seq} before it was committed")
        elif log[entry.seq - 1] != entry:
            self._complain(f"{here} was shown another record {entry.seq} than is in the log")
        if entry.seq <= seen.last:
            self._complain(f"{here} was shown record {entry.seq} after record {seen.last}")
        elif seen.whole and entry.seq != seen.last + 1:
            self._complain(f"{here} was shown record {entry.seq} and not record {seen.last + 1}")
        seen.last, seen.last_record = entry.seq, entry.record
        self._hold_text_against(seen, entry, here)

    def _hold_text_against(self, seen: _Seen, entry: Entry, here: str) -> None:
        match entry.record:
            case ItemReceived(item=Message() as message):
                if not message.text().startswith(seen.text):
                    self._complain(f"{here} was shown {seen.text!r} of {message.text()!r}")
                seen.text = ""
            case Noticed(withdraws=True):
                seen.text = ""
            case TurnEnded(unfinished=str(unfinished)):
                if not (unfinished.startswith(seen.text) or seen.text.startswith(unfinished)):
                    self._complain(f"{here} was shown {seen.text!r} of {unfinished!r}")
                seen.text = ""
            case TurnEnded():
                seen.text = ""
            case _:
                pass

    def shown_delta(self, event: Event) -> None:
        seen, here = self._of(event, "a delta")
        after = event.facts["after"]
        if after > len(self._logs.entries[event.conversation]):
            self._complain(f"{here} was shown a delta before record {after}, which it follows, was committed")
        elif seen.whole and after > seen.last:
            self._complain(f"{here} was shown a delta before record {after}, which it follows")
        if isinstance(event.facts["delta"], TextDelta):
            seen.text += event.facts["delta"].text

    def told_something(self, event: Event) -> None:
        self._of(event, f"a {event.kind}")

    def over(self, event: Event) -> None:
        seen, here = self._of(event, event.kind)
        if event.kind == "ended" and not isinstance(seen.last_record, TurnEnded):
            self._complain(f"{here} was told of the end of its turn before it was shown that")
        seen.over = event.kind

    def stands_at(self, event: Event) -> None:
        seen, here = self._of(event, "an end")
        records = len(self._logs.entries[event.conversation])
        if seen.whole and seen.last != records and event.conversation not in self._logs.deleted:
            self._complain(f"{here} was shown all up to record {seen.last}, and there are {records}")

    def look_at_the_end(self) -> None:
        """All that could be judged only then."""
