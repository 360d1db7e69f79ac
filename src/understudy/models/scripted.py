"""The scripted model: plays a file of answers, so that anyone can try a client with no key and no network."""

import asyncio
from collections import deque
from collections.abc import Iterator
from time import monotonic

import msgspec

from understudy.errors import ModelError, ModelRefused
from understudy.models.events import Answer, Completed, ItemDone, ModelEvent
from understudy.models.faults import stream_lost
from understudy.models.prompt import Prompt
from understudy.models.script import Script, Step
from understudy.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    SummaryText,
    Usage,
)
from understudy.protocol.records import ReasoningDelta, TextDelta


class ScriptPlayer:
    def __init__(self, script: Script, *, show_raw: bool = False) -> None:
        self._script = script
        self._show_raw = show_raw
        self._asked: dict[str, int] = {}

    def stream(self, prompt: Prompt) -> Answer:
        position = prompt.request_index
        if position is None:
            items = sum(_came_from_model(item) for item in prompt.items)
            position = max(self._asked.get(prompt.conversation_id, 0), self._script.position_after(items))
            self._asked[prompt.conversation_id] = position + 1
        return ScriptedAnswer(self._script, position, show_raw=self._show_raw)


def _came_from_model(item: object) -> bool:
    return not isinstance(item, FunctionCallOutput) and (not isinstance(item, Message) or item.role == "assistant")


class Pause(msgspec.Struct, frozen=True):
    seconds: float | None  # None: until the answer is no longer wanted

    async def over(self) -> None:
        if self.seconds is None:
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(self.seconds)


class ScriptedAnswer(Answer):
    def __init__(self, script: Script, position: int, *, show_raw: bool) -> None:
        super().__init__()
        self._show_raw = show_raw
        self._usage: Usage | None = None
        self._due: Pause | None = None
        self._play = self._played(script, position)

    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        """Up to the next pause, or the end."""
        if self._due is not None:
            due, self._due = self._due, None
            await due.over()
        for action in self._play:
            match action:
                case Pause():
                    self._due = action
                    return True
                case ModelError():
                    raise action
                case _:
                    ready.append(action)
        return False

    def _played(self, script: Script, position: int) -> Iterator[ModelEvent | Pause | ModelError]:
        try:
            steps = script.answer(position)
        except ModelError as error:
            yield error
            return
        for number, step in enumerate(steps):
            if step.say is not None:
                yield from self._said(step, step.say)
            elif step.think is not None:
                yield from self._thought(step, step.think)
            elif step.call is not None:
                yield ItemDone(_call(step, step.call, f"call_{position + 1}_{number + 1}"))
            elif step.wait is not None:
                yield Pause(step.wait)
            elif step.fail is not None:
                yield stream_lost(step.fail, retry_after=step.after) if step.retry else ModelRefused(step.fail)
            elif step.hang:
                yield Pause(None)
            elif step.usage is not None:
                tokens = step.usage
                total = tokens.input + tokens.output
                self._usage = Usage(tokens.input, tokens.output, total, tokens.cached, tokens.reasoning)
        yield Completed(self._usage)

    def _said(self, step: Step, say: str | list[str]) -> Iterator[ModelEvent | Pause]:
        for piece, pause in _paced(say, step.pace):
            if pause:
                yield Pause(pause)
            yield TextDelta(piece)
        if not step.unfinished:
            yield ItemDone(Message("assistant", (OutputText("".join(say)),)))

    def _thought(self, step: Step, think: str | list[str]) -> Iterator[ModelEvent | Pause]:
        for piece, pause in _paced(think, step.pace):
            if pause:
                yield Pause(pause)
            if self._show_raw or not step.raw:
                yield ReasoningDelta(piece, raw=step.raw)
        whole = "".join(think)
        yield ItemDone(Reasoning(content=(ReasoningText(whole),)) if step.raw else Reasoning(summary=(SummaryText(whole),)))


def _paced(text: str | list[str], pace: float) -> Iterator[tuple[str, float]]:
    """Pieces, each with the pause before it. A text that is to be paced goes word by word.

    The clock says when a piece is due, and one that is late comes without a pause: timers alone are too coarse for a thousand a
    second.
    """
    pieces = text if isinstance(text, list) else text.replace(" ", " \0").split("\0") if pace else [text]
    due = monotonic()
    for piece in filter(None, pieces):
        yield piece, max(due - monotonic(), 0.0) if pace else 0.0
        due += pace


def _call(step: Step, name: str, default_id: str) -> FunctionCall:
    match step.arguments:
        case None:
            arguments = "{}"
        case str(text):  # so that a script can also send what no tool understands
            arguments = text
        case table:
            arguments = msgspec.json.encode(table).decode()
    return FunctionCall(name, arguments, step.id or default_id)
