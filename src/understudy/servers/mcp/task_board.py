"""The tasks that this process deals with. Forgotten tasks are read again from the log."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from understudy.config.home import state_dir
from understudy.config.model import Config
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import AgentError, ConversationBusy, NotAllowed, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Resume
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp.call import Call, CallViewer, ClientContext, MakeViewer
from understudy.servers.mcp.handshake import PREFIX
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.progress import Progress
from understudy.servers.mcp.rounds import AskedAgain
from understudy.servers.mcp.task_names import TaskName, mark_of, read_task_id, ttl_as_told, write_task_id
from understudy.servers.mcp.task_viewer import TaskViewer
from understudy.servers.sealing import EndedIds
from understudy.servers.sink import Sink
from understudy.servers.wire_events.presentation import Presentation, presentation_of
from understudy.store.log import EventLog

TASKS = f"{PREFIX}tasks"
NO_MESSAGE = "taken back"  # used as the message id: the message never came into a log
MOST_OVER = 256  # finished tasks that are still remembered
KEPT_SECONDS = 7 * 24 * 3600
LONGEST_SECONDS = 10 * 365 * 24 * 3600
LONGEST_TIMER = 7 * 24 * 3600.0  # seconds; a task that lives longer is checked again then


def declares_tasks(capabilities: Mapping[str, Any]) -> bool:
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and TASKS in extensions


class FoundTask(msgspec.Struct, frozen=True):
    """A task, and a handle with the rights of the caller who asks for it."""

    task_id: str
    name: TaskName
    handle: Handle
    viewer: TaskViewer
    lost: bool = False  # no process will read its message by itself

    def state(self, peer: Peer) -> dict[str, Any]:
        return self.viewer.state(self.task_id, self.name, self.handle, peer, lost=self.lost)


class TaskBoard:
    def __init__(self) -> None:
        self._viewers: dict[str, TaskViewer] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}  # timers for when the same tasks expire
        self._left: EndedIds | None = None  # cancelled tasks whose turns continued: the log does not mention them

    @property
    def at_work(self) -> int:
        """Tasks whose turns run here and do not wait for a person's answer."""
        return sum(viewer.is_at_work for viewer in self._viewers.values())

    def principals_changed(self, is_gone: Callable[[str], bool]) -> None:
        """`is_gone`: whether the caller of that name no longer has a valid token."""
        for viewer in tuple(self._viewers.values()):
            viewer.note_caller(gone=is_gone(viewer.handle.caller.name))

    # -- making

    def maker(self, otherwise: MakeViewer) -> MakeViewer:
        """Makes the viewer of a call that is answered by a task; uses `otherwise` if tasks are switched off or could not
        be kept.
        """

        def make(
            call: Call, handle: Handle, presentation: Presentation, progress: Progress | None, *, created: bool = False
        ) -> CallViewer:
            config = handle.setup().config
            if config.history_persistence == "none" or not config.task_seconds:
                return otherwise(call, handle, presentation, progress, created=created)
            if progress is not None:
                progress.stop()  # tasks report their progress in their own way
            askable = call.client.peer.can_be_asked

            def name(viewer: TaskViewer) -> dict[str, Any]:
                return self._name(call.client, viewer, config)

            return TaskViewer(call.client, handle, presentation, askable=askable, asked_by=call, name=name, created=created)

        return make

    def _name(self, client: ClientContext, viewer: TaskViewer, config: Config) -> dict[str, Any]:
        """The client's first answer about the task."""
        name = TaskName(
            viewer.handle.id,
            mark_of(viewer.following.message_id),
            viewer.begin,
            int(time.time() * 1000),
            ttl_as_told(round(min(config.task_seconds, LONGEST_SECONDS) * 1000)),
            viewer.askable,
            viewer.presentation.report == "full",
        )
        task_id = write_task_id(client.engine, client.caller.name, name)
        self._keep(client, task_id, name, viewer)
        return {"resultType": "task", **viewer.state(task_id, name, viewer.handle, Peer())}

    # -- finding

    async def find(self, client: ClientContext, task_id: str) -> FoundTask:
        """Find a task; a turn that was cut off is resumed here, or closed. Raises `InvalidParams` if the caller has no
        such task.
        """
        name = read_task_id(client.engine, client.caller.name, task_id)
        if name is None:
            raise unknown_task()
        try:
            handle = await client.find(ConversationId(name.conversation_id))
        except UnknownConversation:
            raise unknown_task() from None
        viewer = self._viewers.get(task_id)
        if viewer is None or viewer.broken is not None:
            viewer = await self._read(client, task_id, name, handle)
        if self._is_left(client, task_id):
            viewer.leave_turn()
        if viewer.outcome is None and not handle.facts.runs_here:
            await _take_up(handle)
            viewer.following.put_open_questions()
        lost = viewer.waits_in_vain and await _is_lost(client.engine.log, handle)
        return FoundTask(task_id, name, handle, viewer, lost and viewer.waits_in_vain)

    # -- leaving

    def leave(self, client: ClientContext, found: FoundTask) -> None:
        """Cancel the task from here on, even after a restart and for other processes; its turn continues."""
        self._left_ones(client).add(_digest(found.task_id), int(found.name.expires) - KEPT_SECONDS)
        found.viewer.leave_turn()

    def _is_left(self, client: ClientContext, task_id: str) -> bool:
        left = self._left_ones(client)
        left.reload()
        return _digest(task_id) in left

    def _left_ones(self, client: ClientContext) -> EndedIds:
        return self.left_ones(client.engine)

    def left_ones(self, engine: Engine) -> EndedIds:
        if self._left is None:
            self._left = EndedIds(state_dir(engine.home) / "left_tasks", KEPT_SECONDS)
        return self._left

    async def _read(self, client: ClientContext, task_id: str, name: TaskName, handle: Handle) -> TaskViewer:
        message_id = await handle.find_message(name.means, max(0, name.begin))
        presentation = presentation_of(handle).asked_for("full" if name.full_report else "brief")
        viewer = TaskViewer(client, handle, presentation, askable=name.askable, after=max(0, name.begin))
        await viewer.resume(name, message_id or NO_MESSAGE)
        other = self._viewers.get(task_id)
        if other is not None and other.broken is None:  # two requests came at once
            viewer.following.stop()
            return other
        self._keep(client, task_id, name, viewer)
        return viewer

    def _keep(self, client: ClientContext, task_id: str, name: TaskName, viewer: TaskViewer) -> None:
        self._viewers.pop(task_id, None)
        self._viewers[task_id] = viewer
        if len(self._viewers) > MOST_OVER:
            over = [other for other, kept in self._viewers.items() if kept.is_over]
            for other in over[: len(self._viewers) - MOST_OVER]:
                self._forget(other)
        self._expire_later(client.loop, task_id, name)

    def _forget(self, task_id: str) -> TaskViewer:
        self._timers.pop(task_id).cancel()
        return self._viewers.pop(task_id)

    def _expire_later(self, loop: asyncio.AbstractEventLoop, task_id: str, name: TaskName) -> None:
        if (before := self._timers.pop(task_id, None)) is not None:
            before.cancel()
        left = max(name.expires - time.time(), 0.0) + 0.001
        self._timers[task_id] = loop.call_later(min(left, LONGEST_TIMER), self._look_at_time, loop, task_id, name)

    def _look_at_time(self, loop: asyncio.AbstractEventLoop, task_id: str, name: TaskName) -> None:
        if time.time() < name.expires:
            self._expire_later(loop, task_id, name)
        else:
            self._forget(task_id).expire()


class LoneClient(ClientContext):
    """The client of one request, in the era without sessions."""

    def __init__(self, engine: Engine, caller: Caller, board: TaskBoard, sink: Sink) -> None:
        super().__init__(engine, caller, Peer(), sink)
        self.board = board  # the tasks of its server
        self.asked: AskedAgain | None = None  # what a call of a tool says about its earlier rounds
        self.streams_answer_at_end = True


async def _take_up(handle: Handle) -> None:
    """The turn's process may be gone: the turn continues here if it waits for an answer, and is closed otherwise."""
    if handle.facts.turn is None:
        return
    with suppress(ConversationBusy, NotAllowed):  # another process runs it, or the caller may only look
        await handle.submit(Resume())
        with suppress(AgentError):
            await handle.durable()


async def _is_lost(log: EventLog, handle: Handle) -> bool:
    """Whether no process will read the message of a task whose turn has not begun. The worker of another host reads its letters by
    itself, and may have done so since we last looked.
    """
    if await log.holder(handle.id) is not None:
        return False
    if not log.is_remote:
        return True
    position = (await log.positions([handle.id])).get(handle.id)
    return position is None or not position.goes_beyond(handle.facts.last_seq)


def _digest(task_id: str) -> str:
    return sha256(task_id.encode()).hexdigest()[:32]


def unknown_task() -> InvalidParams:
    return InvalidParams("Unknown task: there is none with this id, or it has expired")
