"""The agent in this process."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.durable import Durable
from understudy.engine.turn.approvals import CLIENT
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import AgentError
from understudy.library.errors import UnderstudyError
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.items import Message
from understudy.protocol.ops import Archive, Decide, Delete
from understudy.protocol.records import Overrides, Question
from understudy.servers.http.answers import Refusal
from understudy.servers.items.codec import ItemCodec, ItemLines
from understudy.servers.items.shapes import Items, Update
from understudy.servers.rest.acting import NewAnswer, NewConversation, NewMessage, answer_to, checked_decision, content_of, terms_of
from understudy.servers.rest.event_stream import codec_at
from understudy.servers.rest.failures import Problem, code_of, to_refusal
from understudy.servers.rest.reading import EventsWanted, items_of
from understudy.servers.rest.rows import ListQuery, conversation_of, list_rows
from understudy.servers.rest.shapes import Conversation, Rows
from understudy.store.lookup import find_id

MOST_WAITING = 1000  # updates that a program has not taken yet; beyond that, they are read from the log again
PAGE = 1000


class LocalBackend:
    def __init__(self, home: str | None) -> None:
        self._env = dict(os.environ) if home is None else {**os.environ, "CODEX_HOME": home}
        self._engine: Engine | None = None

    async def open(self) -> None:
        with _told():
            self._engine = Engine(env=self._env)

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise UnderstudyError("the agent is not open: use it within `async with`", "bad_request")
        return self._engine

    async def begin(self, prompt: str, choices: Mapping[str, Any]) -> Conversation:
        with _told():
            new = _read({"prompt": prompt, **choices}, NewConversation)
            terms = await terms_of(new)
            chosen = msgspec.structs.replace(new.overrides() or Overrides(), include_plan_tool=True)
            content = await content_of(self.engine, LOCAL, new.prompt, new.images, chosen)
            handle = await self.engine.create(LOCAL, chosen)
            await handle.submit(handle.message(Message("user", content), terms=terms))
            await handle.durable()
            return await conversation_of(self.engine, handle)

    async def _find(self, conversation: str) -> Handle:
        return await self.engine.find(LOCAL, await find_id(self.engine.log, conversation))

    async def find(self, conversation: str) -> Conversation:
        with _told():
            return await conversation_of(self.engine, await self._find(conversation))

    async def rows(self, limit: int, cursor: str | None) -> Rows:
        with _told():
            return await list_rows(self.engine, LOCAL, ListQuery(limit=limit, cursor=cursor))

    async def send(self, conversation: str, text: str, mode: str, choices: Mapping[str, Any]) -> str:
        with _told():
            new = _read({"text": text, "mode": mode, **choices}, NewMessage)
            terms = await terms_of(new)
            handle = await self._find(conversation)
            if new.mode == "steer" and handle.running_turn is None:
                raise UnderstudyError("no turn is running that could be steered; `mode`: `send` begins one", "no_turn")
            content = await content_of(self.engine, LOCAL, new.text, new.images, handle)
            durable = Durable()
            message = Message("user", content)
            op = handle.message(message, new.overrides(), new.parent_message_id, terms, own_turn=new.mode == "queue")
            sent = await handle.submit(op, durable=durable)
            await durable
            return sent.message_id

    async def updates(self, conversation: str, after: int) -> AsyncGenerator[Update]:
        with _told():
            handle = await self._find(conversation)
            watcher = _Watcher((await codec_at(handle, after, ItemLines)).codec)
            watcher.following = handle.follow(watcher, after=after, outlet=watcher)
            watcher.following.rejoin({})
        try:
            while True:
                yield await watcher.next()
        finally:
            watcher.following.stop()

    async def items(self, conversation: str, after: int) -> Items:
        with _told():
            return await items_of(await self._find(conversation), EventsWanted(after=after, limit=PAGE))

    async def decide(self, conversation: str, call_id: str, decision: Decision, word: str, mark: float) -> None:
        op = Decide(call_id, decision, CLIENT, word=word if decision in ("denied", "abort") else "", asked_at=mark)
        await self._answer(conversation, call_id, lambda question: checked_decision(question, op))

    async def answer(self, conversation: str, call_id: str, answers: Mapping[str, str], mark: float) -> None:
        new = NewAnswer(call_id=call_id, answers=dict(answers), mark=mark)
        await self._answer(conversation, call_id, lambda question: answer_to(question, new, ""))

    async def _answer(self, conversation: str, call_id: str, op_for: Callable[[Question], Decide]) -> None:
        with _told():
            handle = await self._find(conversation)
            durable = Durable()
            if (question := handle.open_question(call_id)) is not None:
                op = op_for(question)
                if await handle.decide(op, durable) != "closed":
                    await durable
                    return
        raise UnderstudyError("the question was answered already, or is not open any more", "already_decided")

    async def interrupt(self, conversation: str) -> bool:
        with _told():
            return (await (await self._find(conversation)).interrupt()).status == "over"

    async def undo(self, conversation: str, turn: str) -> tuple[str, ...]:
        with _told():
            ended = await (await self._find(conversation)).undo(turn)
        if ended.problem:
            raise UnderstudyError(ended.describe(), "not_undone")
        return ended.taken_back

    async def fork(self, conversation: str, turn: str | None) -> Conversation:
        with _told():
            source = await self._find(conversation)
            return await conversation_of(self.engine, await self.engine.fork(LOCAL, source.id, turn=turn))

    async def compact(self, conversation: str) -> None:
        with _told():
            handle = await self._find(conversation)
            await handle.compact()
            await handle.durable()

    async def rename(self, conversation: str, title: str) -> None:
        with _told():
            await (await self._find(conversation)).rename(title)

    async def archive(self, conversation: str, *, archived: bool) -> None:
        with _told():
            await (await self._find(conversation)).submit(Archive(archived=archived))

    async def delete(self, conversation: str) -> None:
        with _told():
            await (await self._find(conversation)).submit(Delete())


class _Watcher(QuietViewer):
    """Keeps updates until the program takes them. Also serves as the viewer's `Outlet`, which may be slow."""

    can_answer = True

    def __init__(self, codec: ItemCodec) -> None:
        self.following: Any = None
        self._codec = codec
        self._waiting: deque[Update] = deque()
        self._come = asyncio.Event()
        self._to_call: list[Callable[[], None]] = []

    @property
    def congested(self) -> bool:
        return len(self._waiting) >= MOST_WAITING

    def drained(self, callback: Callable[[], None]) -> None:
        self._to_call.append(callback)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._call)

    def entry(self, live: LiveEntry) -> None:
        self._put(*self._codec.updates(live))

    def delta(self, live: LiveDelta) -> None:
        if (update := self._codec.growth(live)) is not None:
            self._put(update)

    def failed(self, error: AgentError) -> None:
        self._put(Update(seq=0, ended=str(error)))

    async def next(self) -> Update:
        while not self._waiting:
            self._come.clear()
            await self._come.wait()
        update = self._waiting.popleft()
        if not self._waiting and self._to_call:
            asyncio.get_running_loop().call_soon(self._call)
        return update

    def _put(self, *updates: Update) -> None:
        self._waiting += updates
        self._come.set()

    def _call(self) -> None:
        waiting, self._to_call = self._to_call, []
        for callback in waiting:
            callback()


def _read(given: Mapping[str, Any], kind: type[Any]) -> Any:
    """Validates as REST does. Raises `UnderstudyError` that names the member."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise UnderstudyError(str(error), "bad_request") from None


@contextmanager
def _told() -> Generator[None]:
    """Turns the engine's errors into those that a program gets over HTTP."""
    try:
        yield
    except UnderstudyError:
        raise
    except (AgentError, Refusal) as error:
        refusal = to_refusal(error)
        code = refusal.data.code if isinstance(refusal.data, Problem) else code_of(refusal.status)
        raise UnderstudyError(str(error), code) from error
