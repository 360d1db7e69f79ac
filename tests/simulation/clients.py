"""Clients, as front doors serve them: each op is a coroutine of a process, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.process import CHOSEN
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.durable import Durable
from understudy.engine.viewers.following import Following
from understudy.errors import AgentError
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import Decision
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Archive, Cancel, Decide, Delete
from understudy.protocol.records import Question, TurnEnded

if TYPE_CHECKING:
    from tests.simulation.plan import Step
    from tests.simulation.process import SimulatedProcess
    from tests.simulation.world import World

T = TypeVar("T")
DECISIONS: tuple[Decision, ...] = ("approved", "approved", "approved_for_session", "denied", "abort")


def _drawn(among: Sequence[T], step: Step) -> T:
    return among[min(int(step.drawn * len(among)), len(among) - 1)]


class SimulatedViewer:
    """Keeps what it is shown. `whole`: it is to be shown every record; else those of one turn."""

    def __init__(self, client: Client, handle: Handle, number: int, *, whole: bool, answers: bool) -> None:
        self.client = client
        self.handle = handle
        self.number = number
        self.whole = whole
        self.answers = answers
        self.over: asyncio.Future[str] = client.process.loop.create_future()
        self.following: Following | None = None

    @property
    def can_answer(self) -> bool:
        return self.answers

    def _note(self, kind: str, **facts: Any) -> None:
        self.client.world.history.note(kind, self.handle.id, viewer=self.number, process=self.client.process.name, **facts)

    def entry(self, live: LiveEntry) -> None:
        self._note("shown", entry=live.entry)

    def delta(self, live: LiveDelta) -> None:
        self._note("delta", after=live.after, turn=live.turn, delta=live.delta)

    def question(self, question: Question, turn: str) -> None:
        self._note("question", call=question.call_id)
        if self.answers:
            self.client.answer_later(self.handle, question.call_id, turn)
        elif not self.whole and not self.handle.can_be_answered():
            self.handle.deny_unasked(question.call_id, "nobody can be asked", turn)

    def question_closed(self, call_id: str, turn: str) -> None:
        self._note("closed", call=call_id)

    def ended(self, ended: TurnEnded) -> None:
        self._note("ended", reason=ended.reason, message=ended.message)
        self._finish(ended.reason)

    def failed(self, error: AgentError) -> None:
        self._note("failed", error=type(error).__name__, text=str(error))
        self._finish("error")

    def _finish(self, how: str) -> None:
        if not self.over.done():
            self.over.set_result(how)

    def leave(self) -> None:
        if self.following is not None:
            self.following.stop()
        if not self.over.done():
            self._note("left")
            self._finish("left")


class Client:
    """Whoever does one step, at one process."""

    def __init__(self, world: World, process: SimulatedProcess, random: Random) -> None:
        self.world = world
        self.process = process
        self.random = random

    def begin(self, step: Step) -> None:
        """In a step of its process. Every op is told once what became of it, unless its process dies."""
        name = self.world.conversations.get(step.conversation)
        does = getattr(self, f"_{step.what}")
        if name is None and step.what not in ("call", "list"):
            return
        number = self.world.new_number()
        self.world.history.note("begun", name or "", op=number, what=step.what, process=self.process.name)
        self.process.engine.tasks.run(self._tell(number, name, does(name, step, number)))

    async def _tell(self, number: int, name: str | None, op: Coroutine[Any, Any, dict[str, Any]]) -> None:
        try:
            told = await op
        except AgentError as error:
            told = {"error": type(error).__name__, "text": str(error)}
        except Exception as error:
            self.world.history.note("bug", name or "", text=f"a client was told {error!r}")
            told = {"error": "bug"}
        self.world.history.note("told", name or "", op=number, **told)

    def answer_later(self, handle: Handle, call_id: str, turn: str) -> None:
        decision = "approved" if self.world.calm else self.random.choice(DECISIONS)
        delay = self.random.random() ** 3 * 5.0

        def decide() -> None:
            op = Decide(call_id, decision, "client", turn, asked_at=handle.asked_at(call_id))
            handle.submit_soon(op)

        self.process.loop.call_later(delay, decide)

    async def _find(self, name: ConversationId, *, to_send: bool = False) -> Handle:
        return await self.process.engine.find(LOCAL, name, to_send=to_send)

    # -- messages

    def _message(self, handle: Handle, *, own_turn: bool = False, number: int) -> Any:
        op = handle.message(Message("user", (InputText(f"message {number}"),)), own_turn=own_turn)
        self.world.history.note("send", handle.id, op=number, message=op.message.message_id, process=self.process.name)
        self.world.last_message[handle.id] = op.message.message_id
        return op

    def _durable(self, handle: Handle, message: str, number: int) -> Durable:
        durable = Durable()

        def known(error: AgentError | None) -> None:
            self.world.history.note("durable", handle.id, op=number, message=message, error=None if error is None else str(error))

        durable.when_known(known)
        return durable

    async def _call(self, name: ConversationId | None, step: Step, number: int) -> dict[str, Any]:
        if name is None or (name not in self.world.disk.logs and name not in self.world.disk.deleted and step.drawn < 0.5):
            handle = await self.process.engine.create(LOCAL, CHOSEN, for_turn=True)
            self.world.conversations.setdefault(step.conversation, handle.id)
            created = True
        else:
            handle, created = await self._find(name, to_send=True), False
        viewer = self._viewer(handle, whole=False)
        following = viewer.following = handle.follow(viewer, after=0 if created else None, only_its_turn=True)
        following.leads = created
        self._note_follow(viewer, following.cursor)
        if following.caught_up:
            following.go_live()
        else:
            await following.go_live_from_cursor()
        following.wait()
        op = self._message(handle, number=number)
        try:
            accepted = await handle.submit(op, following, self._durable(handle, op.message.message_id, number))
        except AgentError as error:
            self.world.history.note("refused", handle.id, message=op.message.message_id, text=str(error))
            following.stop()
            raise
        self.world.history.note("accepted", handle.id, message=op.message.message_id, accepted=accepted)
        return {"answer": await viewer.over}

    def _viewer(self, handle: Handle, *, whole: bool) -> SimulatedViewer:
        answers = self.world.plan.answers == "all" or (self.world.plan.answers == "some" and self.random.random() < 0.6)
        viewer = SimulatedViewer(self, handle, self.world.new_number(), whole=whole, answers=answers)
        self.world.viewers.append(viewer)
        return viewer

    def _note_follow(self, viewer: SimulatedViewer, after: int) -> None:
        self.world.history.note(
            "follow", viewer.handle.id, viewer=viewer.number, after=after, whole=viewer.whole, process=self.process.name
        )

    async def _send(self, name: ConversationId, step: Step, number: int, *, own_turn: bool = False) -> dict[str, Any]:
        handle = await self._find(name)
        op = self._message(handle, number=number, own_turn=own_turn)
        durable = self._durable(handle, op.message.message_id, number)
        try:
            accepted = await handle.submit(op, None, durable)
        except AgentError as error:
            self.world.history.note("refused", handle.id, message=op.message.message_id, text=str(error))
            raise
        self.world.history.note("accepted", handle.id, message=op.message.message_id, accepted=accepted)
        await durable
        return {"done": "sent"}

    async def _own_turn(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        return await self._send(name, step, number, own_turn=True)

    # -- watching

    async def _stream(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        """From a cursor: pages of what was, what is said of unfinished items, and from there on live."""
        handle = await self._find(name)
        viewer = self._viewer(handle, whole=True)
        after = int(step.drawn * 2 * handle.published) if step.drawn < 0.5 else 0
        following = viewer.following = handle.follow(viewer, after=after)
        self._note_follow(viewer, after)
        if step.drawn < 0.25:
            following.go_live()
        else:
            try:
                await self._read_back(following, viewer)
            except AgentError:
                viewer.leave()
                raise
            if viewer.over.done():
                return {"done": "left"}
            for delta in following.take_unfinished():
                viewer.delta(delta)
            following.go_live()
        following.put_open_questions()
        return {"done": "streams"}

    async def _read_back(self, following: Following, viewer: SimulatedViewer) -> None:
        while (page := await following.read_page()) and not viewer.over.done():
            for live in page:
                following.cursor = live.entry.seq
                viewer.entry(live)
            if following.caught_up:
                break

    async def _leave(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        here = [viewer for viewer in self.world.viewers if viewer.client.process is self.process and not viewer.over.done()]
        if here:
            _drawn(here, step).leave()
        return {"done": "left"}

    # -- the other ops

    async def _interrupt(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        stopped = await handle.interrupt()
        return {"stopped": stopped.status}

    async def _cancel(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        message = self.world.last_message.get(name)
        if message is None:
            return {"done": "nothing"}
        handle = await self._find(name)
        self.world.history.note("cancel", name, message=message)
        accepted = await handle.submit(Cancel(message))
        return {"cancelled": accepted.effective}

    async def _decide(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        calls = sorted(handle.facts.questions)
        if not calls:
            return {"done": "no question"}
        call_id = _drawn(calls, step)
        decision = "approved" if self.world.calm else self.random.choice(DECISIONS)
        op = Decide(call_id, decision, "client", answer_id=f"answer{number}", asked_at=handle.asked_at(call_id))
        durable = Durable()
        outcome = await handle.decide(op, durable)
        if outcome == "counts":
            await durable
        return {"outcome": outcome, "call": call_id, "answer_id": op.answer_id}

    async def _compact(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        compacting = await handle.compact()
        if compacting.turn is None:
            return {"done": "asked"}
        await compacting.over()
        return {"done": "compacted"}

    async def _rename(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        title = await handle.rename(f"title {number}")
        return {"title": title}

    async def _undo(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        await handle.undo()
        return {"done": "undone"}

    async def _archive(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        archived = step.drawn < 0.7
        await handle.submit(Archive(archived))
        return {"archived": archived}

    async def _delete(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self._find(name)
        await handle.submit(Delete())
        return {"deleted": True}

    async def _fork(self, name: ConversationId, step: Step, number: int) -> dict[str, Any]:
        handle = await self.process.engine.fork(LOCAL, name)
        self.world.conversations[step.conversation + 10] = handle.id
        return {"forked": handle.id}

    async def _list(self, name: ConversationId | None, step: Step, number: int) -> dict[str, Any]:
        page = await self.process.engine.list(LOCAL, 10)
        for row in page.rows:
            await self.process.engine.standing_of(row)
        return {"rows": len(page.rows)}
