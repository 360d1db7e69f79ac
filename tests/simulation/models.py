"""A model that answers as its seed has it: in pieces, slowly, not to the end, with calls of commands, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from random import Random

from tests.simulation.history import History
from understudy.errors import ContextFull, ModelError, ModelRefused, ModelUnavailable, StreamLost
from understudy.models.model import Answer, Completed, ItemDone, ModelEvent, Prompt
from understudy.protocol.items import FunctionCall, Message, OutputText, Reasoning, SummaryText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta


class Moods:
    """Shares of what models do. Calm: they answer at once and call nothing."""

    def __init__(
        self, *, calls: float = 0.4, breaks: float = 0.1, fails: float = 0.05, stalls: float = 0.05, asks: float = 0.6
    ) -> None:
        self.calls = calls
        self.breaks = breaks
        self.fails = fails
        self.stalls = stalls
        self.asks = asks  # of the commands that are called: those about which a person is asked


CALM = Moods(calls=0, breaks=0, fails=0, stalls=0)


class SimulatedModel:
    """Of all processes: a provider. What it answers depends on its seed and on how often it was asked."""

    def __init__(self, random: Random, history: History, moods: Moods) -> None:
        self.moods = moods
        self._random = random
        self._history = history
        self._requests = 0
        self._calls = 0

    def stream(self, prompt: Prompt) -> Answer:
        self._requests += 1
        return SimulatedAnswer(prompt, Random(self._random.random()), self._history, self.moods, self, self._requests)

    def new_call(self) -> int:
        self._calls += 1
        return self._calls


class SimulatedAnswer(Answer):
    def __init__(self, prompt: Prompt, random: Random, history: History, moods: Moods, model: SimulatedModel, number: int) -> None:
        super().__init__()
        self._prompt = prompt
        self._random = random
        self._history = history
        self._moods = moods
        self._model = model
        self._number = number
        self._begun = False
        self._script = self._play()

    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        if not self._begun:
            self._begun = True
            self._history.note("asked", self._prompt.conversation_id, request=self._number, items=tuple(self._prompt.items))
        for step in self._script:
            if isinstance(step, float | int):
                await asyncio.sleep(step)
                if ready:
                    return True
            elif isinstance(step, ModelError):
                raise step
            else:
                ready.append(step)
                if self._random.random() < 0.5:
                    return True
        return False

    def _pause(self) -> float:
        drawn = self._random.random()
        return 0.0 if drawn < 0.3 else drawn**4 * 0.6

    def _play(self) -> Iterator[ModelEvent | ModelError | float]:
        draw, moods = self._random.random, self._moods
        yield self._pause()
        if draw() < moods.stalls:
            yield 5.0 + draw() * 20
        if draw() < moods.fails:
            yield self._draw_failure()
            return
        if draw() < 0.2:
            for word in ("think", "ing"):
                yield ReasoningDelta(f"{word}{self._number}")
            yield ItemDone(Reasoning((SummaryText(f"thinking{self._number}"),)))
        text = ""
        of = f"a{len(self._prompt.items)}" if draw() < 0.8 else f"b{self._number}"  # so that most retries say the same again
        for piece in range(int(draw() * 5)):
            word = f"{of}.{piece} "
            text += word
            yield TextDelta(word)
            yield self._pause()
            if draw() < moods.breaks / 3:
                yield StreamLost("the stream broke off")
                return
        if text:
            yield ItemDone(Message("assistant", (OutputText(text),)))
        while self._prompt.tools and draw() < moods.calls:
            yield ItemDone(self._call())
            yield self._pause()
        yield Completed(Usage(10, 5, 15))

    def _draw_failure(self) -> ModelError:
        drawn = self._random.random()
        if drawn < 0.5:
            return ModelUnavailable("the provider is busy")
        if drawn < 0.7:
            return ModelRefused("the provider refuses")
        if drawn < 0.8:
            return ContextFull("prompt is too long")
        return StreamLost("the stream broke off at once")

    def _call(self) -> FunctionCall:
        number = self._model.new_call()
        argv = ["make", f"thing{number}"] if self._random.random() < self._moods.asks else ["echo", f"thing{number}"]
        return FunctionCall("shell", json.dumps({"command": argv, "timeout_ms": 30_000}), f"call{number}")
