"""`understudy.sync`: the library without async. The same names, on an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from understudy.library import agent as a
from understudy.library.errors import UnderstudyError
from understudy.servers.items.shapes import AnyItem
from understudy.servers.rest.shapes import Conversation as Standing
from understudy.servers.rest.shapes import OpenQuestion, Row

__all__ = ["Conversation", "Question", "Understudy", "UnderstudyError"]

T = TypeVar("T")
_Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Question:
    """As `understudy.library.agent.Question`."""

    kind = "question"

    def __init__(self, run: _Run, question: a.Question) -> None:
        self.id, self.turn = question.id, question.turn
        self.asked: OpenQuestion = question.asked
        self.text = question.text
        self._run = run
        self._question = question

    def answer(self, answer: a.Answer, word: str = "") -> None:
        self._run(self._question.answer(answer, word))


Item = Any


class Understudy:
    """As `understudy.Understudy`, with `with`."""

    def __init__(self, *, url: str | None = None, token: str | None = None, home: str | Path | None = None, **choices: Any) -> None:
        self._agent = a.Understudy(url=url, token=token, home=home, **choices)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="understudy", daemon=True)
        self._thread.start()
        try:
            self._run(self._agent.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._run(self._agent.__aexit__())
        finally:
            self._stop()

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise UnderstudyError("the agent is not open: use it within `with`", "bad_request")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C, for instance
            raise

    def start(self, prompt: str, **choices: Any) -> "Conversation":
        return Conversation(self._run, self._run(self._agent.start(prompt, **choices)))

    def open(self, conversation_id: str) -> "Conversation":
        return Conversation(self._run, self._run(self._agent.open(conversation_id)))

    def run(self, prompt: str, *, on_question: Callable[[Question], a.Answer] | None = None, **choices: Any) -> a.Result:
        return self.start(prompt, **choices).result(on_question=on_question)

    def conversations(self, limit: int = 50) -> list[Row]:
        return self._run(self._agent.conversations(limit))


class Conversation:
    """As `understudy.library.agent.Conversation`."""

    def __init__(self, run: _Run, conversation: a.Conversation) -> None:
        self.id = conversation.id
        self._run = run
        self._conversation = conversation

    def __repr__(self) -> str:
        return repr(self._conversation)

    def send(self, text: str, *, mode: Literal["send", "steer", "queue"] = "send", **choices: Any) -> None:
        self._run(self._conversation.send(text, mode=mode, **choices))

    def items(self, *, growing: bool = False) -> Generator[Item]:
        items = self._conversation.items(growing=growing)
        try:
            while (item := self._run(_next(items))) is not None:
                yield Question(self._run, item) if isinstance(item, a.Question) else item
        finally:
            self._run(items.aclose())

    def result(self, *, on_question: Callable[[Question], a.Answer] | None = None) -> a.Result:
        async def ask(question: a.Question) -> a.Answer:
            assert on_question is not None
            return await asyncio.to_thread(on_question, Question(self._run, question))

        return self._run(self._conversation.result(on_question=None if on_question is None else ask))

    def history(self) -> list[AnyItem]:
        return self._run(self._conversation.history())

    def standing(self) -> Standing:
        return self._run(self._conversation.standing())

    def interrupt(self) -> bool:
        return self._run(self._conversation.interrupt())

    def undo(self, turn: str = "") -> tuple[str, ...]:
        return self._run(self._conversation.undo(turn))

    def fork(self, turn: str | None = None) -> "Conversation":
        return Conversation(self._run, self._run(self._conversation.fork(turn)))

    def compact(self) -> None:
        self._run(self._conversation.compact())

    def rename(self, title: str) -> None:
        self._run(self._conversation.rename(title))

    def archive(self, *, archived: bool = True) -> None:
        self._run(self._conversation.archive(archived=archived))

    def delete(self) -> None:
        self._run(self._conversation.delete())


async def _next(items: Any) -> Any:
    return await anext(items, None)
