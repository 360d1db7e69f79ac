"""A model with a small window that knows nothing but what it is sent, and checks that.

Each prompt gives it a number to add; the total is only in the context: in its last answer, or in a summary that it wrote. The goal
is only in the first prompt. It counts four bytes to a token, refuses what does not fit, and notes every request that does not begin
with the one before it, unless a compaction lies between them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from tests.e2e.contexts import entries, shown
from understudy.testing import Answer, Entry, ReceivedRequest, ScriptedModel, call, say, status

SUM_UP = "Sum it up, with the goal and the total."
LEFT_OUT = "was left out to make room]"
FULL = {"error": {"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error"}}
_TOTAL = re.compile(r"the total is (\d+)")
_GOAL = re.compile(r"the goal is to ([a-z ]+)\.")
_ADD = re.compile(r"add (\d+)")


@dataclass(frozen=True)
class Asked:
    """One request: its size, and what for."""

    tokens: int
    kind: str  # turn, output or summary


class RememberingModel(ScriptedModel):
    def __init__(self, window: int = 16_000) -> None:
        super().__init__(self._reply)
        self._window = window
        self._before: Any = None
        self._summed_up = False
        self.asked: list[Asked] = []
        self.trims = 0
        self.faults: list[str] = []

    @property
    def summaries(self) -> int:
        return sum(asked.kind == "summary" for asked in self.asked)

    def _reply(self, request: ReceivedRequest) -> Entry:
        self.received.clear()  # a long run would hold them all
        body = request.body
        tokens = len(json.dumps(body, separators=(",", ":"))) // 4
        told = shown(body)
        who, last = told[-1]
        kind = "summary" if last == SUM_UP else "output" if who == "output" else "turn"
        self.asked.append(Asked(tokens, kind))
        if tokens > self._window:
            self.faults.append(f"request {len(self.asked)} ({kind}) has {tokens} tokens")
            return status(400, FULL)
        self._check_beginning(body, kind)
        return replace(self._say(told, kind), usage=(tokens, 200))

    def _check_beginning(self, body: Any, kind: str) -> None:
        now = entries(body)
        if kind == "summary":
            if self._before is not None and now[: len(self._before)] != self._before:
                self.faults.append(f"request {len(self.asked)}, for a summary, has another beginning than the one before")
            self._summed_up = True
            return
        before, self._before = self._before, now
        if before is None or now[: len(before)] == before or self._summed_up:
            self._summed_up = False
            return
        changed = [(old, new) for old, new in zip(before, now, strict=False) if old != new]
        if len(now) >= len(before) and all(LEFT_OUT in json.dumps(new) and LEFT_OUT not in json.dumps(old) for old, new in changed):
            self.trims += 1
        else:
            self.faults.append(f"request {len(self.asked)} does not begin with the one before it")

    def _say(self, told: list[tuple[str, str]], kind: str) -> Answer:
        texts = "\n".join(text for _, text in told)
        goals, totals = _GOAL.findall(texts), _TOTAL.findall(texts)
        if not goals:
            self.faults.append(f"request {len(self.asked)} does not tell the goal")
        total = int(totals[-1]) if totals else 0
        goal = goals[0] if goals else "?"
        if kind == "summary":
            return say(f"the goal is to {goal}. the total is {total}. " + "noted " * 200)
        prompt = next(text for who, text in reversed(told) if who == "user" and (_ADD.search(text) or "Tell me" in text))
        if "Tell me" in prompt:
            return say(f"the goal is to {goal}. the total is {total}.")
        added = int(_ADD.findall(prompt)[0])
        if kind == "turn" and "look" in prompt:
            return call("shell", command=["sh", "-c", f"seq {added} {added + 300}"], call_id=f"call{len(self.asked)}")
        return say(f"the total is {total + added}. " + "word " * 300)
