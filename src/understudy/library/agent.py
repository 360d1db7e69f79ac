"""What a program holds of the agent: `Understudy`, its conversations, their items, and questions that it can answer."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from understudy.library.backend import Backend
from understudy.library.errors import UnderstudyError
from understudy.protocol.choices import Decision
from understudy.servers.items import shapes as s
from understudy.servers.rest.shapes import Conversation as Standing
from understudy.servers.rest.shapes import OpenQuestion, Row

Answer = Literal["approve", "approve_for_session", "deny", "stop"] | Mapping[str, str]
"""What the model wants to know (`asked.questions`) is answered by a mapping: by the id of each question a label, or other words."""

_DECISIONS: dict[str, Decision] = {
    "approve": "approved",
    "approve_for_session": "approved_for_session",
    "deny": "denied",
    "stop": "abort",
}
NOBODY = "the program that runs this agent answers no questions"
PAGE = 1000


class Question:
    """The agent asks before it goes on, and waits for the answer. `asked` says what exactly, why, and what a yes allows."""

    kind = "question"

    def __init__(self, conversation: "Conversation", item: s.Question) -> None:
        self.id = item.id
        self.turn = item.turn
        self.asked: OpenQuestion = item.asked
        self._conversation = conversation

    @property
    def text(self) -> str:
        return self.asked.text

    async def answer(self, answer: Answer, word: str = "") -> None:
        """`word`: words for the model with a no."""
        if isinstance(answer, Mapping):
            await self._conversation.backend.answer(self._conversation.id, self.asked.call_id, answer, self.asked.mark)
            return
        decision = _DECISIONS.get(answer)
        if decision is None:
            raise UnderstudyError(f"{answer!r} is no answer: give one of {', '.join(_DECISIONS)}", "bad_request")
        await self._conversation.backend.decide(self._conversation.id, self.asked.call_id, decision, word, self.asked.mark)

    def __repr__(self) -> str:
        return f"Question({self.asked.text!r})"


Item = (
    s.UserMessage
    | s.Message
    | s.Thought
    | s.Command
    | s.Patch
    | s.ToolCall
    | s.Image
    | s.Plan
    | s.Compaction
    | s.Notice
    | s.TurnEnd
    | Question
)
OnQuestion = Callable[[Question], Answer | Awaitable[Answer]]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended. `output` is the answer as data, if a schema was given."""

    conversation_id: str
    status: s.Status
    text: str
    report: dict[str, Any]
    items: tuple[Item, ...]
    output: Any = None


class Understudy:
    """An agent, in this process or at `url`. Use it with `async with`.

    The named arguments apply to every conversation that it begins: `folder`, `model`, `profile`, `approval_policy`, `sandbox`,
    `config`, `base_instructions`, `developer_instructions`. `home` is the folder of config.toml, for an agent in this process.
    """

    def __init__(self, *, url: str | None = None, token: str | None = None, home: str | Path | None = None, **choices: Any) -> None:
        if url is None and token is not None:
            raise UnderstudyError("a `token` goes with the `url` of a server", "bad_request")
        if url is not None and home is not None:
            raise UnderstudyError("`home` is for an agent in this process; a server at `url` has its own", "bad_request")
        self.backend: Backend = _local(home) if url is None else _remote(url, token)
        self._choices = _plain(choices)

    async def __aenter__(self) -> Self:
        await self.backend.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.backend.close()

    async def start(self, prompt: str, **choices: Any) -> "Conversation":
        """Begin a new conversation and its first turn. `images`, `output_schema` and `budget` are for this turn."""
        chosen: dict[str, Any] = {**self._choices, **_plain(choices)}
        standing = await self.backend.begin(prompt, chosen)
        return Conversation(self.backend, standing.id, 0, "", schema=chosen.get("output_schema"))

    async def open(self, conversation_id: str) -> "Conversation":
        """Open an existing conversation; `send` continues it."""
        standing = await self.backend.find(conversation_id)
        return Conversation(self.backend, standing.id, standing.last_seq, "")

    async def run(self, prompt: str, *, on_question: OnQuestion | None = None, **choices: Any) -> Result:
        """Run one task from beginning to end. Without `on_question`, every question is denied.

        Raises `UnderstudyError` if the turn fails.
        """
        conversation = await self.start(prompt, **choices)
        return await conversation.result(on_question=on_question)

    async def conversations(self, limit: int = 50) -> list[Row]:
        """Conversations that wait for a person come first, then the most recent ones."""
        rows: list[Row] = []
        cursor: str | None = None
        while len(rows) < limit:
            page = await self.backend.rows(min(100, limit - len(rows)), cursor)
            rows += page.conversations
            cursor = page.next_cursor
            if cursor is None:
                break
        return rows


class Conversation:
    """One conversation. `items` and `result` are about the turn of the last message."""

    def __init__(
        self, backend: Backend, conversation_id: str, after: int, message_id: str, *, schema: Mapping[str, Any] | None = None
    ) -> None:
        self.backend = backend
        self.id = conversation_id
        self._after = after
        self._message_id = message_id  # empty: the next message that comes
        self._schema = schema

    def __repr__(self) -> str:
        return f"Conversation({self.id!r})"

    async def send(self, text: str, *, mode: Literal["send", "steer", "queue"] = "send", **choices: Any) -> None:
        """Send another message: to the running turn, or else for a new one; `queue`: for a turn of its own."""
        standing = await self.backend.find(self.id)
        chosen = _plain(choices)
        self._message_id = await self.backend.send(self.id, text, mode, chosen)
        self._after, self._schema = standing.last_seq, chosen.get("output_schema")

    async def items(self, *, growing: bool = False) -> AsyncGenerator[Item]:
        """What happens in the turn, until its end: each item once it is finished, and questions as they are asked.

        `growing`: also yield items when they begin, and again whenever they grow.
        """
        turn = _Turn(self._message_id)
        items: dict[str, s.AnyItem] = {}
        updates = self.backend.updates(self.id, self._after)
        try:
            async for update in updates:
                if update.ended is not None:
                    raise UnderstudyError(update.ended, "unavailable")
                item = _grown(items, update)
                if item is None or not turn.shows(item):
                    continue
                if isinstance(item, s.Question):
                    if item.status == "running":
                        yield Question(self, item)
                elif growing or item.status != "running":
                    yield item
                if isinstance(item, s.TurnEnd) and turn.is_over(item):
                    return
        finally:
            await updates.aclose()

    async def result(self, *, on_question: OnQuestion | None = None) -> Result:
        """Wait for the end of the turn. Raises `UnderstudyError` if it fails."""
        seen: list[Item] = []
        async for item in self.items():
            seen.append(item)
            if isinstance(item, Question):
                await _answer(item, on_question)
        end = seen[-1] if seen else None
        if not isinstance(end, s.TurnEnd):
            raise UnderstudyError("the stream ended before the turn did", "unavailable")
        if end.status == "failed":
            raise UnderstudyError(end.text or "the turn failed", "turn_failed")
        output = msgspec.json.decode(end.text) if self._schema is not None and end.status == "done" else None
        return Result(
            conversation_id=self.id, status=end.status, text=end.text, report=end.report, items=tuple(seen), output=output
        )

    async def history(self) -> list[s.AnyItem]:
        """All items so far, of all turns."""
        found: dict[str, s.AnyItem] = {}
        after = 0
        while True:
            page = await self.backend.items(self.id, after)
            found |= {item.id: item for item in page.items}
            if page.last >= page.end:
                return list(found.values())
            after = page.last

    async def standing(self) -> Standing:
        """Its current state, title and open questions."""
        return await self.backend.find(self.id)

    async def interrupt(self) -> bool:
        """End the running turn, and wait until it has ended. False if none runs."""
        return await self.backend.interrupt(self.id)

    async def undo(self, turn: str = "") -> tuple[str, ...]:
        """Undo the patches of a turn, by default the last one that changed files. Returns the files that were restored."""
        return await self.backend.undo(self.id, turn)

    async def fork(self, turn: str | None = None) -> "Conversation":
        """A new conversation that begins like this one, up to the end of that turn, or of the last one."""
        standing = await self.backend.fork(self.id, turn)
        return Conversation(self.backend, standing.id, standing.last_seq, "")

    async def compact(self) -> None:
        """Have the model summarize the past."""
        await self.backend.compact(self.id)

    async def rename(self, title: str) -> None:
        await self.backend.rename(self.id, title)

    async def archive(self, *, archived: bool = True) -> None:
        await self.backend.archive(self.id, archived=archived)

    async def delete(self) -> None:
        """Delete it for good."""
        await self.backend.delete(self.id)


class _Turn:
    """Finds the turn that a message belongs to: the one that reads it."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._recorded: str | None = None
        self._read: str | None = None

    def shows(self, item: s.AnyItem) -> bool:
        """Hides items before the message."""
        if isinstance(item, s.UserMessage) and self._message_id in ("", item.message_id):
            self._message_id = item.message_id
            self._recorded = item.turn
            if item.status == "done":
                self._read = item.turn
        return self._recorded is not None

    def is_over(self, end: s.TurnEnd) -> bool:
        """A turn that completed without reading the message leaves it to the next."""
        return end.turn == self._read or (end.turn == self._recorded and end.status != "done")


def _grown(items: dict[str, s.AnyItem], update: s.Update) -> s.AnyItem | None:
    """The updated item."""
    if update.item is not None:
        if update.item.status == "running":
            items[update.item.id] = update.item
        else:
            items.pop(update.item.id, None)
        return update.item
    grew = update.grew
    known = None if grew is None else items.get(grew.id)
    if grew is None or known is None:
        return None
    match known:
        case s.Message(text=text) | s.Thought(text=text):
            items[grew.id] = msgspec.structs.replace(known, text=text + grew.text)
        case s.Command(output=output):
            items[grew.id] = msgspec.structs.replace(known, output=output + grew.text)
        case _:
            return None
    return items[grew.id]


async def _answer(question: Question, on_question: OnQuestion | None) -> None:
    if on_question is None:
        await question.answer("deny", NOBODY)
        return
    answer = on_question(question)
    await question.answer(await answer if inspect.isawaitable(answer) else answer)


def _plain(choices: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON values."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in choices.items() if value is not None}


def _local(home: str | Path | None) -> Backend:
    from understudy.library.local import LocalBackend  # asking a server does not need the engine

    return LocalBackend(None if home is None else str(home))


def _remote(url: str, token: str | None) -> Backend:
    from understudy.library.remote import RemoteBackend

    return RemoteBackend(url, token)
