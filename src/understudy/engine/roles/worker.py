"""The worker of a host: does what was left for conversations whose workspaces are there, and begins those that front ends ask for.

Notifications say when there is work; they may be lost, so the worker also checks once a second. A lock in the state folder ensures
that no other process serves the host.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

from understudy.engine.engine import Engine
from understudy.engine.turn.long_commands import LEAVING
from understudy.errors import AgentError, ConfigError, ConversationBusy, StoreError, report_bug
from understudy.protocol.beginnings import Refused, decode_begin
from understudy.protocol.ids import ConversationId
from understudy.store.postgres.host_lock import NAME, HostLock
from understudy.store.postgres.log import PostgresLog

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
BETWEEN_ROUNDS_SECONDS = 0.01  # notifications that come together share a round


class Worker:
    def __init__(self, engine: Engine, log: PostgresLog, folder: Path, address: Callable[[], str]) -> None:
        self._engine = engine
        self._log = log
        self._folder = folder
        self._address = address
        self._lock: HostLock | None = None
        self._disk: UUID | None = None
        self._served_as: UUID | None = None  # under this id the database knows that the process serves the host
        self._in_hand: set[str] = set()
        self._asked_again: set[str] = set()  # of those, the ones for which more work has come meanwhile
        self._woken = asyncio.Event()
        self._said: str | None = None  # the last problem that was logged
        self._task: asyncio.Task[None] | None = None
        self._drained_since: float | None = None  # by the loop's clock; None: it takes up new work

    def must_be_the_one(self) -> None:
        """Raises `ConfigError` if another process of this machine serves the host."""
        if not self._has_lock():
            raise ConfigError(
                f"another process serves host {self._log.hosts.name} from this state folder: it has the lock {self._folder / NAME}"
            )

    def start(self) -> None:
        self._log.listen_for_work(self._woken.set)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="worker of a host")

    async def stop(self) -> None:
        """Take up nothing more. The next server of the host may begin once this process has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def drained_seconds(self) -> float:
        """How long what runs here has had to end since nothing new begins."""
        return 0.0 if self._drained_since is None else asyncio.get_running_loop().time() - self._drained_since

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _has_lock(self) -> bool:
        if self._disk is None:
            self._lock = self._lock or HostLock(self._folder)
            self._disk = self._lock.take()
        return self._disk is not None

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._round()
            except AgentError as error:
                self._say(str(error))
            except Exception as error:
                self._say(report_bug(logger, error, "in serving a host"))
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._woken.wait()
                await asyncio.sleep(BETWEEN_ROUNDS_SECONDS)
            except TimeoutError:
                pass

    def _say(self, trouble: str | None) -> None:
        """Log a problem once, however long it lasts."""
        if trouble != self._said and trouble is not None:
            logger.warning("host %s: %s", self._log.hosts.name, trouble)
        self._said = trouble

    async def _round(self) -> None:
        if not self._has_lock():
            return  # another server of this machine does it
        hosts = self._log.hosts
        is_known = self._served_as is not None and self._served_as == hosts.incarnation
        if not is_known and not await self._serve():
            return
        waiting = await hosts.waiting()
        self._say(None)
        if waiting is None:
            await self._drain()
            return
        self._drained_since = None
        for name in waiting:
            self._do(name, self._take_up(name))
        for name, op in await hosts.to_begin():
            self._do(name, self._begin(name, op))

    async def _serve(self) -> bool:
        assert self._disk is not None
        served_as = await self._log.hosts.serve(self._disk, self._address(), anew=self._served_as is None)
        if served_as is None:
            name = self._log.hosts.name
            self._say(f"another machine serves a host of the name {name}: give each a name of its own; it is waited for until then")
            return False
        self._served_as = served_as
        return True

    async def _drain(self) -> None:
        """Let running turns end by themselves, and end commands that would run for ever."""
        if self._drained_since is None:
            logger.info("host %s is drained: nothing new begins here", self._log.hosts.name)
            self._drained_since = asyncio.get_running_loop().time()
        await self._engine.end_commands_between_turns(LEAVING)

    def _do(self, name: ConversationId, work: Coroutine[Any, Any, None]) -> None:
        """Run work concurrently for different conversations, one piece at a time for each."""
        if name in self._in_hand:
            work.close()
            self._asked_again.add(name)
            return
        self._in_hand.add(name)
        self._engine.tasks.run(self._alone(name, work))

    async def _alone(self, name: ConversationId, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ConversationBusy, StoreError) as error:
            logger.info("%s is left for later: %s", name, error)
        except AgentError as error:
            logger.warning("%s cannot be taken up: %s", name, error)
        except Exception as error:
            report_bug(logger, error, "in taking up %s", name)
        finally:
            self._in_hand.discard(name)
            if name in self._asked_again:
                self._asked_again.discard(name)
                self._woken.set()

    async def _take_up(self, name: ConversationId) -> None:
        taken = await self._engine.take_up(name)
        if taken.unrecorded:
            await self._log.hosts.discard(name, taken.epoch, taken.unrecorded)

    async def _begin(self, name: ConversationId, op: bytes) -> None:
        try:
            begin = decode_begin(op)
            create = self._engine.create(
                begin.caller, begin.overrides, begin.thread_source, terms=begin.terms, conversation_id=name
            )
            await (await create).committed()
        except StoreError:
            raise
        except AgentError as error:
            refused = Refused(str(error), error.kind)
        except Exception as error:
            refused = Refused(report_bug(logger, error, "in beginning %s", name), AgentError.kind)
        else:
            return
        finally:
            self._log.hosts.has_tried(name)
        await self._log.hosts.refuse(name, refused.written())
