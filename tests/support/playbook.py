"""Ops in, records and shown things out, as lines that can be read: what a conversation promises, whatever is inside it.

Only this file knows how an op reaches the engine and where its records are, so that what is written with it outlives both.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from tests.support.answered import answered
from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.items import FunctionCall, InputText, Message, Reasoning
from understudy.protocol.ops import Decide, Delete, Resume
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    Overrides,
    Question,
    Record,
    RequestSent,
    TextDelta,
    TokensCounted,
    ToolAnswered,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UserMessage,
)
from understudy.store.log import Store
from understudy.store.opening import open_store
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import Script, ScriptedModel, provider_settings
from understudy.testing.waiting import WAIT_SECONDS, Watched


class Playbook:
    """One conversation. Messages are known by their text, in records too."""

    open_log: ClassVar[Callable[[Path, asyncio.AbstractEventLoop], Store]] = open_store  # tests run on several kinds of log

    def __init__(self, folder: Path, script: Script, **settings: Any) -> None:
        self._beside: Playbook | None = None
        self._folder = folder
        self._home = folder / "home"
        self.model = ScriptedModel(script)
        self._settings = settings
        self._watched = Watched()
        self._texts: dict[str, str] = {}  # by message id
        self.shown: list[str] = []
        self.told: list[str] = []  # failures that the viewer was told of

    @classmethod
    def beside(cls, other: Playbook, script: Script, **settings: Any) -> Playbook:
        """The same conversation in an engine of its own, which is to the other one what another process is."""
        play = cls(other._folder, script, **settings)
        play._beside, play._texts = other, other._texts
        return play

    async def __aenter__(self) -> Playbook:
        await self.model.__aenter__()
        self._home.mkdir(exist_ok=True)
        settings = provider_settings(self.model.url) | self._settings
        self.engine = Engine(
            cli=list(settings.items()), env={**os.environ, "CODEX_HOME": str(self._home)}, open_log=type(self).open_log
        )
        if self._beside is None:
            self.handle = await self.engine.create(LOCAL, Overrides(cwd=str(self._folder)))
        else:
            await self._beside.handle.durable()
            self.handle = await self.engine.find(LOCAL, self._beside.handle.id)
        self.following = self.handle.follow(self)
        self.following.go_live()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await self.engine.close()
        await self.model.__aexit__(kind, error, trace)

    # -- ops

    async def send(self, text: str, *, after: str | None = None, own_turn: bool = False, durable: Durable | None = None) -> str:
        """`begins`, `joins`, `waits` or `queues`. `after` goes on from an earlier message."""
        parent = next((name for name, known in self._texts.items() if known == after), None)
        op = self.handle.message(Message("user", (InputText(text),)), None, parent, own_turn=own_turn)
        self._texts[op.message.message_id] = text
        try:
            sent = await self.handle.submit(op, durable=durable)
        except BaseException:
            del self._texts[op.message.message_id]
            raise
        return "waits" if sent.held else "queues" if sent.queued else "joins" if sent.joined else "begins"

    async def interrupt(self) -> str:
        return (await self.handle.interrupt(WAIT_SECONDS)).status

    async def decide(self, call_id: str, decision: Decision, turn: str = "") -> bool:
        return (await self.handle.submit(Decide(call_id, decision, "client", turn))).effective

    async def resume(self) -> str | None:
        return (await self.handle.submit(Resume())).turn

    async def delete(self) -> None:
        await self.handle.submit(Delete())

    # -- what comes of them

    async def seen(self, line: str, count: int = 1) -> None:
        """Until the viewer has been shown that line so often."""
        await self._watched.until(lambda: self.shown.count(line) >= count or None, f"{line!r} among {self.shown}")

    async def over(self, turns: int = 1) -> None:
        """Until so many turns have ended, and nothing is on its way to the disk."""

        def find() -> bool | None:
            return sum(line.split()[1] == "ended" for line in self.shown) >= turns or None

        await self._watched.until(find, f"the end of {turns} turns in {self.shown}")

    async def failure(self) -> str:
        """What the viewer was told, once it was."""
        await self._watched.until(lambda: self.told or None, "a failure")
        return self.told[0]

    def records(self) -> list[str]:
        """The log as it is in the store."""
        return [self._line(entry) for entry in self.entries()]

    def entries(self) -> Sequence[Entry]:
        with closing(SqliteLog(state_dir(self._home))) as stored:
            return answered(stored.read(self.handle.id))

    def asked_of_the_model(self) -> list[list[str]]:
        """For each request, what was said so far: `role text`, calls and their outputs."""
        return [
            [_message(message) for message in request["messages"] if not _is_context(message)] for request in self.model.requests
        ]

    # -- called by the following

    can_answer = True

    def entry(self, live: LiveEntry) -> None:
        self.shown.append(self._line(live.entry))
        self._watched.change()

    def delta(self, live: LiveDelta) -> None:
        match live.delta:
            case TextDelta(text=text):
                self.shown.append(f"{live.turn} … {text}")
            case OutputDelta(chunk=chunk):
                self.shown.append(f"{live.turn} … printed {chunk.decode().rstrip()}")
            case _:
                self.shown.append(f"{live.turn} … thought")
        self._watched.change()

    def question(self, question: Question, turn: str) -> None:
        pass

    def question_closed(self, call_id: str, turn: str) -> None:
        pass

    def ended(self, ended: TurnEnded) -> None:
        pass

    def failed(self, error: AgentError) -> None:
        self.told.append(str(error))
        self._watched.change()

    def _line(self, entry: Entry) -> str:
        return f"{entry.turn} {self._words(entry.record)}".rstrip()

    def _words(self, record: Record) -> str:
        match record:
            case Opened():
                return "opened"
            case UserMessage(message_id=name):
                return f"user {self._texts.get(name, '?')}"
            case TurnStarted():
                return "started"
            case RequestSent(consumed=consumed):
                return f"asks with {[self._texts.get(name, '?') for name in consumed]}"
            case ItemReceived(item=Message() as message):
                return f"says {message.text()}"
            case ItemReceived(item=Reasoning()):
                return "thinks"
            case ItemReceived(item=FunctionCall(name=name, call_id=call_id)):
                return f"calls {name} {call_id}"
            case ToolAnswered(output=output, success=success):
                return f"answers {output.call_id} {'well' if success else 'badly'}"
            case CommandStarted(call_id=call_id, command=command):
                return f"runs {call_id} {' '.join(command)}"
            case CommandEnded(call_id=call_id, exit_code=code, stdout=stdout):
                return f"ran {call_id} to {code} {stdout.strip()}"
            case CommandApprovalAsked(call_id=call_id):
                return f"wonders {call_id}"
            case ApprovalDecided(call_id=call_id, decision=decision, effective=effective):
                return f"decided {call_id} {decision}{'' if effective else ' too late'}"
            case TokensCounted(usage=usage, total=total):
                sum_ = "" if total is None else f", in all {total.input_tokens}+{total.output_tokens}"
                return f"counts {usage.input_tokens}+{usage.output_tokens}{sum_}"
            case TurnEnded(reason=reason, message=message):
                return f"ended {reason}: {message}"
            case TurnQueued(message=queued):
                return f"queues {self._texts.get(queued.message_id, '?')}"
            case Noticed(message=message):
                return f"notes {message}"
            case _:
                return type(record).__name__


def _is_context(message: dict[str, Any]) -> bool:
    return message["role"] in ("system", "developer") or str(message["content"]).startswith("<")


def _message(message: dict[str, Any]) -> str:
    for call in message.get("tool_calls") or ():
        return f"calls {call['id']}"
    if message["role"] == "tool":
        return f"tool {message['tool_call_id']}"
    return f"{message['role']} {message['content']}"
