"""The engine of a front end, which claims nothing: workers begin the conversations and receive ops as letters, and the log tells
the outcomes.
"""

import asyncio
import os
from pathlib import Path

import msgspec

from understudy.config.model import Config
from understudy.engine.conversation.conversation import Conversation
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.setup.preparing import Preparing
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.errors import AgentError, BadRequest, ConfigError, HostAway, LacksRight, NotAllowed, StoreError, WorkspaceFailed
from understudy.policy.secrets import without_secrets
from understudy.protocol.beginnings import Begin, Refused, encode_begin
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId, new_uuid
from understudy.protocol.ops import Send
from understudy.protocol.records import Overrides, Pins, Terms
from understudy.store.postgres.hosts import Hosts
from understudy.store.postgres.log import PostgresLog

BEGIN_SECONDS = 10.0  # for a worker to begin a conversation
LOOK_SECONDS = 1.0
_KINDS: dict[str, type[AgentError]] = {
    each.kind: each for each in (BadRequest, ConfigError, NotAllowed, StoreError, HostAway, WorkspaceFailed)
}
NOT_KEPT = (
    'a conversation that is not kept (`history.persistence = "none"`) cannot be begun through a front end: it would be in the '
    "memory of a worker alone"
)
SECRETS = "keys cannot be given with `config` through a front end, or they would lie in the database: set them where workers run"


class FrontPreparing(Preparing):
    """Prepares without the conversations' folders, which are elsewhere; all other configuration applies here too."""

    def configure(self, overrides: Overrides) -> Config:
        config = super().configure(_anywhere(overrides))
        return config if overrides.cwd is None else msgspec.structs.replace(config, cwd=Path(overrides.cwd))

    def prepare(self, overrides: Overrides, conversation_id: ConversationId, pins: Pins | None) -> TurnSetup:
        """A setup only for checks: nothing runs with it here."""
        setup = self.prepare_from(super().configure(_anywhere(overrides)), conversation_id)
        return msgspec.structs.replace(setup, config=self.configure(overrides), pins=pins)


def _anywhere(overrides: Overrides) -> Overrides:
    return overrides if overrides.cwd is None else msgspec.structs.replace(overrides, cwd=None)


class FrontEngine(Engine):
    prepares = FrontPreparing

    async def create(
        self,
        caller: Caller,
        overrides: Overrides,
        thread_source: str | None = None,
        *,
        for_turn: bool = False,
        terms: Terms | None = None,
        conversation_id: ConversationId | None = None,
    ) -> Handle:
        for right in ("run", "read"):
            if not caller.may(right, caller.name):
                raise LacksRight(f"{caller.name} does not have the right to {right} conversations", right)
        if caller.limits is not None:
            from understudy.engine.caller_limits import check_choices

            check_choices(caller.limits, overrides)
        if for_turn:
            await self.admit(caller, terms)
        path = self._checked(overrides)
        name = conversation_id or ConversationId(new_uuid())
        seconds = BEGIN_SECONDS
        if overrides.workspace is not None and overrides.workspace.kind == "git":
            workspaces = self.workspaces()
            workspaces.check(overrides, limited=caller.limits is not None, kept=True)
            path, seconds = workspaces.path_of(name), BEGIN_SECONDS + workspaces.settings.seconds
        await self._begin(Begin(name, overrides, caller, thread_source, terms), path, seconds)
        return await self.find(caller, name)

    async def make_ready(self, conversation: Conversation) -> None:
        """The worker does this, on its own host."""

    def pinned(self, conversation: Conversation, op: Send) -> Send:
        """The worker pins changed folders, because it has them. A message that changes none keeps the conversation's pins."""
        chosen = op.message.overrides
        if chosen is None or op.message.pins is not None:
            return op
        _check_secrets(chosen)
        if chosen.cwd is not None:
            if not os.path.isabs(chosen.cwd):
                raise ConfigError(_relative(chosen.cwd))
            return op
        if chosen.config:
            return op
        return msgspec.structs.replace(op, message=msgspec.structs.replace(op.message, pins=conversation.state.pins))

    def _checked(self, overrides: Overrides) -> str:
        """The folder to work in. Raises `AgentError` for anything that can be refused without asking a worker."""
        _check_secrets(overrides)
        if self.configure(msgspec.structs.replace(overrides, cwd=None, workspace=None)).history_persistence == "none":
            raise BadRequest(NOT_KEPT)
        workspace = overrides.workspace
        if workspace is not None and workspace.kind == "git":
            return ""  # the worker makes one
        if workspace is not None and workspace.path and overrides.cwd is None:
            overrides = msgspec.structs.replace(overrides, cwd=workspace.path)
        if overrides.cwd is None:
            raise ConfigError("a front end has no folders: say in which one of the workers' the agent is to work (`cwd`)")
        if not os.path.isabs(overrides.cwd):
            raise ConfigError(_relative(overrides.cwd))
        return os.path.normpath(overrides.cwd)

    async def _begin(self, begin: Begin, path: str, seconds: float) -> None:
        log = self.log
        assert isinstance(log, PostgresLog)
        woken = asyncio.Event()
        stop = log.listen(begin.conversation_id, woken.set)
        try:
            await log.hosts.begin(begin.conversation_id, path, encode_begin(begin))
            await _until_begun(log.hosts, begin.conversation_id, woken, seconds)
        finally:
            stop()


async def _until_begun(hosts: Hosts, name: ConversationId, woken: asyncio.Event, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while True:
        woken.clear()
        late = loop.time() >= give_up
        became = await hosts.became_of(name, gives_up=late)
        if became.begun:
            return
        if became.refused is not None:
            refused = Refused.read(became.refused)
            raise _KINDS.get(refused.kind, AgentError)(refused.text)
        if late and became.host is None:
            raise HostAway("no worker has room for this workspace: none is there, or those that are there are being drained")
        if late:
            raise HostAway(f"host {became.host} was to begin this conversation, and has not done so within {seconds:.0f} s")
        try:
            async with asyncio.timeout_at(min(give_up, loop.time() + LOOK_SECONDS)):
                await woken.wait()
        except TimeoutError:
            pass


def _check_secrets(chosen: Overrides) -> None:
    if chosen.config and without_secrets(chosen.config) != chosen.config:
        raise BadRequest(SECRETS)


def _relative(path: str) -> str:
    return f"`cwd` should be an absolute path through a front end, which has no folders: `{path}`"
