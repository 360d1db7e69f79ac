"""The judge: what must hold of all that happened, whichever way it went. It reads the history and shares no code with the engine.

Each rule looks at the events in their order and knows only what was committed, shown, told, asked of models and done by then.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from tests.simulation.history import Event
from tests.simulation.rules_of_logs import LogRules
from tests.simulation.rules_of_viewers import ViewerRules
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Message
from understudy.protocol.ops import Send
from understudy.protocol.records import ApprovalDecided, Renamed, TurnDropped

_MESSAGE = re.compile(r"message (\d+)")


def judge(events: list[Event]) -> list[str]:
    """What does not hold, in plain words; nothing where all is well."""
    judge = _Judge()
    for event in events:
        judge.look_at(event)
    judge.look_at_the_end()
    return judge.found


class _Begun(NamedTuple):
    what: str
    conversation: str
    turn: str | None  # that ran by then
    at: float


class _Judge:
    def __init__(self) -> None:
        self.found: list[str] = []
        self.logs = LogRules(self.complain)
        self.viewers = ViewerRules(self.complain, self.logs)
        self.texts: dict[str, str] = {}  # of messages, by their ids
        self.letters: dict[str, set[str]] = defaultdict(set)  # messages that lay in an inbox, by conversation
        self.refused: dict[str, str] = {}
        self.acknowledged: dict[str, str] = {}  # conversation by message
        self.taken_back: set[str] = set()
        self.asked: dict[str, set[str]] = defaultdict(set)  # texts that a model was sent, by conversation
        self.begun: dict[int, _Begun] = {}
        self.standing: set[str] = set()  # processes
        self.troubled_at = 0.0  # when a process last died, stood still or lost a claim
        self.acts: dict[str, str] = {}  # under way, by what is done: the process
        self.acted: set[str] = set()
        self.calm = False
        self.at = 0.0

    def complain(self, text: str) -> None:
        self.found.append(f"{text} (at {self.at - 1000:.4f})")

    def look_at(self, event: Event) -> None:
        self.at = event.at
        look = getattr(self, f"_on_{event.kind}", None)
        if look is not None:
            look(event)

    def look_at_the_end(self) -> None:
        logs = self.logs
        for message, name in self.acknowledged.items():
            if name in logs.deleted or message in self.taken_back:
                continue
            if message not in logs.messages[name]:
                self.complain(f"message {message[-4:]} was acknowledged, and is not in the log of {name[-4:]}")
            elif message not in logs.consumed[name]:
                self.complain(f"message {message[-4:]} was acknowledged, and no request of {name[-4:]} has it")
        for name, consumed in logs.consumed.items():
            for message in consumed:
                if message in self.texts and name in logs.first_hand and self.texts[message] not in self.asked[name]:
                    self.complain(f"message {message[-4:]} was consumed by a request, and no model was sent it")
        for message, why in self.refused.items():
            if any(message in of for of in logs.messages.values()):
                self.complain(f"message {message[-4:]} was refused ({why}), and is in the log")
        self.viewers.look_at_the_end()

    # -- what happened to logs and viewers

    def _on_commit(self, event: Event) -> None:
        entry = event.facts["entry"]
        self.logs.committed(event.conversation, entry)
        match entry.record:
            case TurnDropped(message_id=message):
                self.taken_back.add(message)
            case _:
                pass
        for what in self.acts:
            if self.logs.turn_of_call(what) is not None and self.logs.is_call_of_ended_turn(what) and not self.logs.lost_a_claim:
                self.complain(f"the turn of {what} ended while it was being done")

    def _on_letter(self, event: Event) -> None:
        if isinstance(op := event.facts["op"], Send):
            self.letters[event.conversation].add(op.message.message_id)

    def _on_deleted(self, event: Event) -> None:
        self.logs.deleted.add(event.conversation)

    def _on_loses(self, event: Event) -> None:
        self.logs.lost_a_claim = True
        self.troubled_at = event.at

    def _on_stands(self, event: Event) -> None:
        self.standing.add(event.facts["process"])

    def _on_goes_on(self, event: Event) -> None:
        self.standing.discard(event.facts["process"])
        self.troubled_at = event.at

    def _on_closing(self, event: Event) -> None:
        self.troubled_at = event.at

    def _on_follow(self, event: Event) -> None:
        self.viewers.follows(event)

    def _on_shown(self, event: Event) -> None:
        self.viewers.shown(event)

    def _on_delta(self, event: Event) -> None:
        self.viewers.shown_delta(event)

    def _on_question(self, event: Event) -> None:
        self.viewers.told_something(event)

    _on_closed = _on_question

    def _on_ended(self, event: Event) -> None:
        self.viewers.over(event)

    _on_failed = _on_left = _on_ended

    def _on_stands_at(self, event: Event) -> None:
        self.viewers.stands_at(event)

    # -- messages

    def _on_send(self, event: Event) -> None:
        self.texts[event.facts["message"]] = f"message {event.facts['op']}"

    def _on_refused(self, event: Event) -> None:
        self.refused[event.facts["message"]] = event.facts["text"]

    def _on_cancel(self, event: Event) -> None:
        self.taken_back.add(event.facts["message"])

    def _on_durable(self, event: Event) -> None:
        message, name = event.facts["message"], event.conversation
        if event.facts["error"] is not None:
            return
        self.acknowledged[message] = name
        if message not in self.logs.known[name] and message not in self.letters[name] and name not in self.logs.deleted:
            self.complain(f"message {message[-4:]} was acknowledged, and is neither in the log of {name[-4:]} nor in its inbox")

    # -- models and acts

    def _on_asked(self, event: Event) -> None:
        texts: list[str] = []
        calls: list[str] = []
        answered: list[str] = []
        for item in event.facts["items"]:
            match item:
                case Message(role="user"):
                    texts += [found.group() for found in _MESSAGE.finditer(item.text())]
                case FunctionCall(call_id=call_id):
                    calls.append(call_id)
                case FunctionCallOutput(call_id=call_id):
                    answered.append(call_id)
                    if call_id not in calls:
                        self.complain(f"a model was sent an output of {call_id} before the call")
                case _:
                    pass
        self.asked[event.conversation].update(texts)
        for kind, sent in (("message", texts), ("call", calls), ("output", answered)):
            if len(sent) != len(set(sent)):
                self.complain(f"a model was sent a {kind} twice: {sent}")
        if set(calls) != set(answered):
            self.complain(f"a model was sent calls {calls} and outputs {answered}")

    def _on_act(self, event: Event) -> None:
        what, number = event.facts["what"], event.facts["what"].removeprefix("thing")
        if what in self.acted:
            self.complain(f"{what} was done twice")
        self.acted.add(what)
        self.acts[what] = event.facts["process"]
        if f"call{number}" not in self.logs.intents:
            self.complain(f"{what} was done, and its intent is not in the log")
        elif self.logs.is_call_of_ended_turn(what) and not self.logs.lost_a_claim:
            self.complain(f"{what} was done after the end of its turn")

    def _on_act_over(self, event: Event) -> None:
        self.acts.pop(event.facts["what"], None)

    def _on_crash(self, event: Event) -> None:
        """Whatever it ran has ended with it."""
        self.standing.discard(event.facts["process"])
        self.troubled_at = event.at
        self.acts = {what: process for what, process in self.acts.items() if process != event.facts["process"]}

    _on_gone = _on_crash

    # -- what callers were told

    def _on_calm(self, event: Event) -> None:
        self.calm = True

    def _on_begun(self, event: Event) -> None:
        name = event.conversation
        self.begun[event.facts["op"]] = _Begun(event.facts["what"], name, self.logs.running.get(name), event.at)

    def _on_told(self, event: Event) -> None:
        facts = event.facts
        begun = self.begun.pop(facts["op"], None)
        if begun is None:
            self.complain(f"op {facts['op']} was answered twice")
            return
        what, name, turn, since = begun
        if name in self.logs.deleted:
            return
        match what:
            case "interrupt" if facts.get("stopped") in ("over", "nothing") and turn is not None:
                if self.logs.running.get(name) == turn:
                    self.complain(f"turn {turn} of {name[-4:]} was said to be over, and runs in the log")
            case "interrupt" if facts.get("stopped") == "requested" and turn is not None:
                was_quiet = since > self.troubled_at and not self.standing
                if was_quiet and self.logs.running.get(name) == turn:
                    self.complain(f"turn {turn} of {name[-4:]} was told to end, and runs on, though all processes are well")
            case "decide" if facts.get("outcome") == "counts":
                if not self._has(name, ApprovalDecided, answer_id=facts["answer_id"], effective=True):
                    self.complain(f"answer {facts['answer_id']} was said to count, and the log does not say so")
            case "rename" if "title" in facts:
                if not self._has(name, Renamed, title=facts["title"]):
                    self.complain(f"{name[-4:]} was said to be renamed, and is not")
            case "delete" if facts.get("deleted") and self.logs.entries.get(name):
                self.complain(f"{name[-4:]} was said to be deleted, and is not")
            case "fork" if "forked" in facts and facts["forked"] not in self.logs.entries:
                self.complain(f"{name[-4:]} was said to be forked, and is not")
            case "call" if self.calm and event.at > 0 and facts.get("answer") == "error":
                pass
            case _:
                pass

    def _has(self, name: str, kind: type, **facts: object) -> bool:
        records = (entry.record for entry in self.logs.entries.get(name, ()))
        return any(
            isinstance(record, kind) and all(getattr(record, key) == value for key, value in facts.items()) for record in records
        )

    def _on_waits(self, event: Event) -> None:
        what, name, *_ = self.begun.get(event.facts["op"], ("op", "", None))
        self.complain(f"{what} of {name[-4:]} (op {event.facts['op']}) waits for ever")

    def _on_bug(self, event: Event) -> None:
        self.complain(f"bug: {event.facts['text']}")
