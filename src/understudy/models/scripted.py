"""The scripted model: plays a file of answers, so that anyone can try a client without a key."""

import asyncio
import tomllib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, cast

import msgspec

from understudy.config.named_file import read_named_file
from understudy.errors import ConfigError, ModelError, ModelRefused
from understudy.models.failures import stream_lost
from understudy.models.model import Answer, Completed, ItemDone, ModelEvent, Prompt
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

MOST_BYTES = 256 << 20  # of a script


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: int = 0
    output: int = 0
    cached: int | None = None
    reasoning: int | None = None


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of an answer. Exactly one of the first seven fields is set."""

    say: str | list[str] | None = None
    think: str | list[str] | None = None
    call: str | None = None
    wait: float | None = None
    fail: str | None = None
    hang: bool | None = None
    usage: Tokens | None = None
    pace: float = 0.0
    unfinished: bool = False
    raw: bool = False
    arguments: dict[str, Any] | str | None = None
    id: str | None = None
    retry: bool = False
    after: float | None = None

    def makes_item(self) -> bool:
        return (self.say is not None and not self.unfinished) or self.think is not None or self.call is not None


KINDS: dict[str, tuple[str, ...]] = {  # each kind of step, and the fields that it may have besides
    "say": ("pace", "unfinished"),
    "think": ("pace", "raw"),
    "call": ("arguments", "id"),
    "wait": (),
    "fail": ("retry", "after"),
    "hang": (),
    "usage": (),
}


class Script(msgspec.Struct, frozen=True):
    path: Path
    answers: tuple[tuple[Step, ...], ...]
    loop: bool = False

    def answer(self, position: int) -> tuple[Step, ...]:
        if self.loop and self.answers:
            return self.answers[position % len(self.answers)]
        if position < len(self.answers):
            return self.answers[position]
        raise ModelRefused(
            f"the script {self.path} has {len(self.answers)} answers, and this is request {position + 1}; add one, or set `loop`"
        )

    def position_after(self, items: int) -> int:
        """The request to play next if the history contains this many items from the model."""
        position = 0
        produced = [sum(step.makes_item() for step in answer) for answer in self.answers]
        while items > 0 and any(produced) and (self.loop or position < len(produced)):
            items -= produced[position % len(produced)]
            position += 1
        return position


BUILT_IN = Script(
    Path("built-in"),
    ((Step(say="This is the scripted model. Set `understudy.scripted_model` to a file of answers, and it plays them."),),),
    loop=True,
)


def load_script(path: Path) -> Script:
    """Raises ConfigError."""
    try:
        data = read_named_file(path, MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"cannot read the script {path}: {error.strerror}") from None
    content = _parse(path, data)
    loop = False
    if isinstance(content, dict):
        table = cast(dict[str, Any], content)
        if unknown := table.keys() - {"answers", "loop"}:
            raise ConfigError(f"{path}: unknown key `{min(unknown)}`; expected are `answers` and `loop`")
        loop = table.get("loop", False)
        if not isinstance(loop, bool):
            raise ConfigError(f"{path}: `loop` must be true or false")
        content = table.get("answers")
    if not isinstance(content, list):
        raise ConfigError(f"{path}: expected a list of answers")
    answers = cast(list[Any], content)
    return Script(path, tuple(tuple(_steps(f"{path}: answer {n}", answer)) for n, answer in enumerate(answers, 1)), loop)


def _parse(path: Path, data: bytes) -> Any:
    try:
        match path.suffix:
            case ".toml":
                return tomllib.loads(data.decode())
            case ".jsonl":
                lines = enumerate(data.decode().splitlines(), 1)
                return [_parse_line(path, number, line) for number, line in lines if line.strip() and not line.startswith("#")]
            case _:
                return msgspec.json.decode(data)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    except ValueError as error:  # from either parser
        raise ConfigError(f"{path}: {error}") from None


def _parse_line(path: Path, number: int, line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: line {number}: {error}") from None


def _steps(place: str, answer: Any) -> Iterator[Step]:
    entries = _entries(place, answer)
    for number, entry in enumerate(entries, 1):
        yield _step(f"{place}, step {number}" if len(entries) > 1 else place, entry)


def _entries(place: str, answer: Any) -> list[Any]:
    if isinstance(answer, list):
        return cast(list[Any], answer)
    if not isinstance(answer, dict) or "steps" not in answer:
        return [answer]
    table = cast(dict[str, Any], answer)
    steps = table["steps"]
    if len(table) > 1 or not isinstance(steps, list):
        raise ConfigError(f"{place}: `steps` must be a list and stand alone")
    return cast(list[Any], steps)


def _step(place: str, entry: Any) -> Step:
    try:
        step = msgspec.convert(entry, Step)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: {error}") from None
    kinds = [kind for kind in KINDS if kind in entry]
    if len(kinds) != 1:
        raise ConfigError(f"{place}: expected exactly one of {', '.join(KINDS)}, got {', '.join(kinds) or 'none'}")
    for key in cast(dict[str, Any], entry):
        if key != kinds[0] and key not in KINDS[kinds[0]]:
            raise ConfigError(f"{place}: `{key}` does not go with `{kinds[0]}`")
    if step.pace < 0 or (step.wait or 0) < 0:
        raise ConfigError(f"{place}: a time must not be negative")
    return step


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
    """Pieces, each with the pause before it. A paced text goes word by word.

    The clock says when a piece is due, and a late one comes without a pause: timers alone are too coarse for a thousand a second.
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
