"""Saves workspaces after turns, in the background. If the repository does not answer, it is tried again."""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from understudy.config.store import WorkspaceSettings
from understudy.engine.log.fold import State
from understudy.engine.workspaces.snapshots import Snapshot, Snapshots, ref_of
from understudy.errors import AgentError, ConversationBusy, WorkspaceFailed, report_bug
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Record, WorkspaceSaved

logger = logging.getLogger(__name__)

PAUSES = (0.0, 2.0, 10.0, 60.0, 300.0, 900.0)  # seconds before each try
PATIENCE_AT_END = 5.0
LOCK_SECONDS = 120.0
APPEND_SECONDS = 600.0  # how long another process may hold the conversation before the record is given up


class Kept(Protocol):
    """What is needed of a conversation."""

    @property
    def state(self) -> State: ...
    @property
    def turn_runs(self) -> bool: ...
    @property
    def turn_id(self) -> str | None: ...
    def alone(self, op: Coroutine[Any, Any, None]) -> Awaitable[None]: ...
    def check_exists(self) -> None: ...
    def check_log(self) -> None: ...
    def take_claim(self) -> Awaitable[object]: ...
    def append(self, *records: Record, turn: str) -> None: ...


Find = Callable[[ConversationId], Awaitable[Kept]]


class Saving:
    def __init__(self, state_folder: Path, settings: WorkspaceSettings, env: Mapping[str, str], find: Find) -> None:
        self._folder = state_folder / "snapshots"
        self._settings = settings
        self._env = env
        self._find = find
        self._wanted: dict[ConversationId, str] = {}  # the newest finished turn of each
        self._tasks: dict[ConversationId, asyncio.Task[None]] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._failed: set[ConversationId] = set()  # at the last try
        self._until: float | None = None  # when to stop waiting because the process ends
        self._quick = False  # the process ends: one try each, and nothing more is recorded

    def folder_of(self, conversation_id: ConversationId) -> str:
        return str(self._folder / f"{conversation_id}.git")

    def save(self, conversation_id: ConversationId, turn: str) -> None:
        """Save soon, after any save of this conversation that is running."""
        self._wanted[conversation_id] = turn
        if conversation_id not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._run(conversation_id), name=f"saving {conversation_id}")
            self._tasks[conversation_id] = task

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work in the background; errors are logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def settle(self) -> None:
        """The process ends: wait a while for saves that may finish soon, but not for those that have failed before."""
        now = asyncio.get_running_loop().time()
        self._until = now + PATIENCE_AT_END if self._until is None else self._until
        hopeful = [task for conversation_id, task in self._tasks.items() if conversation_id not in self._failed]
        if under_way := (*hopeful, *self._beside):
            await asyncio.wait(under_way, timeout=max(0.0, self._until - now))

    async def close(self) -> None:
        self._quick = True
        await self.settle()
        tasks = (*self._tasks.values(), *self._beside)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def end(self, conversation_id: ConversationId) -> None:
        """The conversation is deleted."""
        self._wanted.pop(conversation_id, None)
        if (task := self._tasks.get(conversation_id)) is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self, conversation_id: ConversationId) -> None:
        try:
            while (turn := self._wanted.pop(conversation_id, None)) is not None:
                await self._save(conversation_id, turn)
        except AgentError as error:
            logger.info("the workspace of %s is not saved: %s", conversation_id, error)
        except Exception as error:
            report_bug(logger, error, "in saving the workspace of %s", conversation_id)
        finally:
            self._tasks.pop(conversation_id, None)
            self._failed.discard(conversation_id)

    async def _save(self, conversation_id: ConversationId, turn: str) -> None:
        try:
            snapshots, taken = await self._take(conversation_id, turn)
        except (WorkspaceFailed, OSError) as error:
            reason = str(error) if isinstance(error, WorkspaceFailed) else error.strerror or "it cannot be read"
            await self._record(conversation_id, WorkspaceSaved(turn, problem=reason))
            return
        ref, told = ref_of(conversation_id, turn), False
        for pause in PAUSES:
            await asyncio.sleep(pause)
            if conversation_id in self._wanted:
                return  # the next snapshot includes this one
            try:
                await snapshots.push(taken.commit, ref)
            except WorkspaceFailed as error:
                self._failed.add(conversation_id)
                problem = WorkspaceSaved(turn, "", taken.commit, str(error), taken.left_out)
                if not told:
                    await self._record(conversation_id, problem)
                told = True
                if self._quick:
                    return
            else:
                self._failed.discard(conversation_id)
                await self._record(conversation_id, WorkspaceSaved(turn, ref, taken.commit, "", taken.left_out))
                return

    async def _take(self, conversation_id: ConversationId, turn: str) -> tuple[Snapshots, Snapshot]:
        state = (await self._find(conversation_id)).state
        workspace = state.overrides.workspace
        assert workspace is not None
        snapshots = Snapshots(workspace.path, self.folder_of(conversation_id), self._settings, self._env)
        before = "" if state.saved is None else state.saved.commit
        async with self.locked(conversation_id):
            return snapshots, await snapshots.take(conversation_id, turn, workspace.url, before)

    @asynccontextmanager
    async def locked(self, conversation_id: ConversationId) -> AsyncGenerator[None]:
        """Lock against other processes that save or restore the same workspace. Raises `WorkspaceFailed`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{conversation_id}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            await _lock(lock)
            yield
        finally:
            os.close(lock)

    async def _record(self, conversation_id: ConversationId, record: WorkspaceSaved) -> None:
        if record.problem:
            logger.warning("%s: %s", conversation_id, record.describe())
        end = asyncio.get_running_loop().time() + APPEND_SECONDS
        while not self._quick:
            conversation = await self._find(conversation_id)
            try:
                await conversation.alone(_append(conversation, record))
                return
            except ConversationBusy:
                if asyncio.get_running_loop().time() > end:
                    return
                await asyncio.sleep(1.0)


async def _append(conversation: Kept, record: WorkspaceSaved) -> None:
    conversation.check_exists()
    if conversation.turn_runs:
        conversation.check_log()
        conversation.append(record, turn=conversation.turn_id or "0")
        return
    await conversation.take_claim()
    conversation.append(record, turn="0")


async def _lock(lock: int) -> None:
    end = asyncio.get_running_loop().time() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if asyncio.get_running_loop().time() > end:
                raise WorkspaceFailed("another process has been at work on this workspace for too long") from None
            await asyncio.sleep(0.1)
