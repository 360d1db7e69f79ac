"""What must hold of every log, record by record as they are committed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from understudy.protocol.items import FunctionCall
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    Entry,
    ItemReceived,
    RequestSent,
    TokensCounted,
    ToolAnswered,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UserMessage,
)

_OF_A_TURN = (RequestSent, ItemReceived, ToolAnswered, CommandStarted, CommandEnded, CommandApprovalAsked, TokensCounted, Compacted)


class LogRules:
    def __init__(self, complain: Callable[[str], None]) -> None:
        self.entries: dict[str, list[Entry]] = defaultdict(list)
        self.running: dict[str, str] = {}  # the turn that has begun and not ended
        self.deleted: set[str] = set()
        self.messages: dict[str, set[str]] = defaultdict(set)  # for a turn
        self.known: dict[str, set[str]] = defaultdict(set)  # those, and those that wait for turns of their own
        self.consumed: dict[str, set[str]] = defaultdict(set)
        self.intents: dict[str, tuple[str, str]] = {}  # conversation and turn, by call
        self.first_hand: set[str] = set()  # logs that are no copies
        self.lost_a_claim = False
        self._complain = complain
        self._ended: dict[str, set[str]] = defaultdict(set)
        self._calls: dict[str, set[str]] = defaultdict(set)
        self._answered: dict[str, set[str]] = defaultdict(set)
        self._commands_ended: dict[str, set[str]] = defaultdict(set)
        self._sessions: dict[str, set[str]] = defaultdict(set)  # commands that may go on when their turn is over
        self._asked: dict[str, set[str]] = defaultdict(set)  # questions that are open
        self._approved: dict[str, set[str]] = defaultdict(set)

    def turn_of_call(self, what: str) -> tuple[str, str] | None:
        return self.intents.get(f"call{what.removeprefix('thing')}")

    def is_call_of_ended_turn(self, what: str) -> bool:
        of = self.turn_of_call(what)
        return of is not None and of[1] in self._ended[of[0]]

    def committed(self, name: str, entry: Entry) -> None:
        log, record, turn = self.entries[name], entry.record, entry.turn
        here = f"record {entry.seq} of {name[-4:]} ({type(record).__name__})"
        if name in self.deleted:
            self._complain(f"{here} was written after the conversation was deleted")
        if entry.seq != len(log) + 1:
            self._complain(f"{here} is not the next one")
        if log and entry.at < log[-1].at:
            self._complain(f"{here} is older than the one before it")
        log.append(entry)
        if isinstance(record, _OF_A_TURN) and turn != self.running.get(name) and not _is_of_session(record):
            self._complain(f"{here} is of turn {turn}, and the turn that runs is {self.running.get(name)}")
        match record:
            case TurnStarted(turn_id=started):
                if name in self.running:
                    self._complain(f"{here} begins a turn while turn {self.running[name]} runs")
                if started in self._ended[name]:
                    self._complain(f"{here} begins turn {started} a second time")
                self.running[name] = started
            case TurnEnded():
                self._turn_ended(name, turn, here)
            case UserMessage(message_id=message):
                if message in self.messages[name]:
                    self._complain(f"{here}: message {message[-4:]} is in the log twice")
                self.messages[name].add(message)
                self.known[name].add(message)
            case TurnQueued(message=queued):
                if queued.message_id in self.known[name]:
                    self._complain(f"{here}: message {queued.message_id[-4:]} is queued a second time")
                self.known[name].add(queued.message_id)
            case RequestSent(consumed=consumed):
                for message in consumed:
                    if message in self.consumed[name]:
                        self._complain(f"{here}: message {message[-4:]} is consumed twice")
                    if message not in self.messages[name]:
                        self._complain(f"{here}: message {message[-4:]} is consumed and not in the log")
                    self.consumed[name].add(message)
            case _:
                self._of_a_call(name, entry, here)

    def _turn_ended(self, name: str, turn: str, here: str) -> None:
        if self.running.pop(name, None) != turn:
            self._complain(f"{here} ends turn {turn}, which does not run")
        if turn in self._ended[name]:
            self._complain(f"{here} ends turn {turn} a second time")
        self._ended[name].add(turn)
        if open_calls := self._calls[name] - self._answered[name]:
            self._complain(f"{here} ends turn {turn}, and calls {sorted(open_calls)} have no answer")
        begun = {call for call, of in self.intents.items() if of == (name, turn) and call not in self._commands_ended[name]}
        if lost := sorted(begun - self._sessions[name]):
            self._complain(f"{here} ends turn {turn}, and what became of {lost} is not in the log")
        self._asked[name].clear()

    def _of_a_call(self, name: str, entry: Entry, here: str) -> None:
        match entry.record:
            case ItemReceived(item=FunctionCall(call_id=call)):
                self._once(self._calls[name], call, here)
            case ToolAnswered(output=output):
                self._once(self._answered[name], output.call_id, here)
                self._after(self._calls[name], output.call_id, here)
                self._asked[name].discard(output.call_id)
            case CommandStarted(call_id=call, command=command, session=session):
                if call in self.intents and self.intents[call][0] == name:
                    self._complain(f"{here}: {call} was begun twice")
                self.intents.setdefault(call, (name, entry.turn))
                self._after(self._calls[name], call, here)
                if session is not None:
                    self._sessions[name].add(call)
                if command[0] == "make" and call not in self._approved[name]:
                    self._complain(f"{here}: {call} is begun without a yes")
            case CommandEnded(call_id=call):
                self._once(self._commands_ended[name], call, here)
                if call not in self.intents:
                    self._complain(f"{here}: {call} has ended and was not begun")
            case CommandApprovalAsked(call_id=call):
                self._after(self._calls[name], call, here)
                self._asked[name].add(call)
            case ApprovalDecided(call_id=call, decision=decision, effective=True):
                if call not in self._asked[name]:
                    self._complain(f"{here}: a decision about {call} counts, and it is not asked about")
                self._asked[name].discard(call)
                if decision in ("approved", "approved_for_session"):
                    self._approved[name].add(call)
            case _:
                pass

    def _once(self, known: set[str], call: str, here: str) -> None:
        if call in known:
            self._complain(f"{here}: {call} a second time")
        known.add(call)

    def _after(self, known: set[str], call: str, here: str) -> None:
        if call not in known:
            self._complain(f"{here}: {call} is not known")


def _is_of_session(record: object) -> bool:
    return isinstance(record, CommandEnded) and record.started is not None
