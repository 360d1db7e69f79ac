"""Watches other processes: entries and unfinished text for viewers here, and letters for turns that run here.

Every conversation that somebody here depends on is subscribed to in the log. Notifications may be missed, so these conversations
are also checked every second; quiet ones, with a log on this machine, every five, if the log says that anybody else has written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from understudy.engine.conversation.conversation import Conversation
from understudy.errors import AgentError, StoreGone
from understudy.protocol.ids import ConversationId
from understudy.store.log import Attendance, EventLog, Position

logger = logging.getLogger(__name__)

FIRST_SECONDS = 0.02  # then look for what was done just before the subscription
UNTOLD_SECONDS = 1.0  # what no notification told, such as the death of a killed process, is noticed this late
QUIET_ROUNDS = 5  # applies if there is no turn that could end: thousands of idle conversations may be watched for hours
ALL_ROUNDS = 60  # after so many seconds each is looked at, whatever the log says, and those that nobody watches are let go


class Watch:
    def __init__(self, log: Callable[[], EventLog], conversations: Mapping[ConversationId, Conversation]) -> None:
        self._log = log
        self._conversations = conversations
        self._listening: dict[ConversationId, Callable[[], None]] = {}  # each with the function that stops it
        self._hinted: set[ConversationId] = set()
        self._stirred = False  # some conversation may not be at rest
        self._settled_as_of = 0  # the log's mark of when all were seen to be at its end; 0: not known
        self._waiter: asyncio.Future[None] | None = None  # set while there is nothing to look at
        self._task: asyncio.Task[None] | None = None

    def wake(self, conversation: Conversation | None = None) -> None:
        """This conversation, or any if None, may need watching now."""
        self._stirred = True
        if conversation is not None and (attendance := conversation.attendance) is not None:
            _note_attended(conversation, attendance)
        for each in self._conversations.values() if conversation is None else (conversation,):
            if each.id not in self._listening and _needs_watching(each):
                self._listen(each.id)

    def _listen(self, name: ConversationId) -> None:

        def told() -> None:
            self._hinted.add(name)
            self._stirred = True
            self._wake_up()

        self._listening[name] = self._log().listen(name, told)
        loop = asyncio.get_running_loop()
        loop.call_later(FIRST_SECONDS, told)
        if self._task is None:
            self._task = loop.create_task(self._run(), name="watch")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        look_at_all = loop.time() + UNTOLD_SECONDS
        rounds = 0
        try:
            while self._listening:
                if not self._hinted:
                    await self._rest(look_at_all)
                if loop.time() >= look_at_all:
                    look_at_all = loop.time() + UNTOLD_SECONDS
                    rounds += 1
                    self._hinted.update(await self._due(rounds))
                hinted, self._hinted = self._hinted, set()
                await self._look(self._still_watched(hinted))
        finally:
            for stop in self._listening.values():
                stop()
            self._listening.clear()
            self._task = None

    async def _due(self, rounds: int) -> Iterable[ConversationId]:
        if self._log().is_remote or rounds % ALL_ROUNDS == 0:
            return self._listening
        if rounds % QUIET_ROUNDS == 0 and await self._may_have_changed():
            return self._listening
        if not self._stirred:
            return ()
        known = self._conversations
        restless = [name for name in self._listening if (each := known.get(name)) is None or not each.is_at_rest]
        self._stirred = bool(restless)
        return restless

    async def _may_have_changed(self) -> bool:
        """Whether others may have written since all were seen to be at rest. One position tells, for thousands that are watched."""
        try:
            known = await self._log().positions([next(iter(self._listening))])
        except AgentError:
            return True  # the look at all conversations then tells their viewers
        marks = {each.as_of for each in known.values()}
        return not self._settled_as_of or marks != {self._settled_as_of}

    async def _rest(self, until: float) -> None:
        """Sleep until a notification, at the latest until then. All conversations share one future and one timer."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_at(until, self._wake_up)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake_up(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _still_watched(self, hinted: Iterable[ConversationId]) -> list[Conversation]:
        watched: list[Conversation] = []
        for name in hinted:
            conversation = self._conversations.get(name)
            if conversation is not None and _needs_watching(conversation):
                watched.append(conversation)
                if (attendance := conversation.attendance) is not None:
                    _note_attended(conversation, attendance)
            elif name in self._listening:
                self._listening.pop(name)()
                if (attendance := self._log().attendance) is not None:
                    attendance.note(name, is_attended=False)
        return watched

    async def _look(self, watched: list[Conversation]) -> None:
        if not watched:
            return
        try:
            positions = await self._log().positions([conversation.id for conversation in watched])
        except StoreGone as error:  # nobody here will ever see what they wait for
            for conversation in watched:
                conversation.fail_viewers(error)
                conversation.fail_waiting(error)
            return
        except AgentError as error:
            logger.warning("cannot see what other processes write: %s", error)
            return
        news = False
        for conversation in watched:  # concurrently, so that one that waits for the log does not delay the others
            position = positions.get(conversation.id)
            if position is None or position.last_seq != conversation.tail.state.last_seq or not conversation.is_at_rest:
                news = True
                conversation.run_beside(self._look_at(conversation, position))
        if news:
            self._settled_as_of = 0
        elif len(watched) == len(self._listening):
            self._settled_as_of = min(position.as_of for position in positions.values())

    async def _look_at(self, conversation: Conversation, position: Position | None) -> None:
        """An error in one conversation must not affect the others."""
        try:
            if position is None and not conversation.is_forgotten:
                await conversation.note_deleted()
            # It may leave memory during the log's answer, or once its watchers know that it is deleted.
            if not conversation.is_forgotten:
                await conversation.look(position)
        except AgentError as error:
            logger.warning("cannot see what other processes write to %s: %s", conversation.id, error)
        except Exception:
            logger.exception("bug in seeing what other processes write to %s", conversation.id)
        finally:
            self._stirred = True


def _note_attended(conversation: Conversation, attendance: Attendance) -> None:
    attendance.note(conversation.id, is_attended=any(each.can_answer for each in conversation.followers))


def _needs_watching(conversation: Conversation) -> bool:
    return conversation.is_shared and conversation.needs_watching
