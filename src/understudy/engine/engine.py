"""The agent of one process: its conversations, and what they share (store, sandbox, model connections, configuration)."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.config.home import find_home, state_dir
from understudy.config.load import BY_ARGUMENT, Configs
from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.config.schema import Tree
from understudy.engine.chosen import fields_of, unpinned
from understudy.engine.commands import Commands
from understudy.engine.commit_delay import CommitDelay
from understudy.engine.conversation import Conversation
from understudy.engine.eager import EagerTasks
from understudy.engine.fold import merge
from understudy.engine.following import Following
from understudy.engine.handle import Handle
from understudy.engine.other_servers import ConversationServers, OtherServers
from understudy.engine.setup import Setups
from understudy.engine.tail import Told
from understudy.engine.turn_setup import TurnSetup
from understudy.engine.watch import Watch
from understudy.errors import ConversationBusy, NotAllowed, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Accepted, Archive, Delete, Op, Send
from understudy.protocol.records import Overrides, Pins, UserMessage
from understudy.protocol.uuids import new_uuid
from understudy.store.log import Listed, Page, RunningCommand, Status, Store
from understudy.store.opening import open_store

if TYPE_CHECKING:
    from understudy.engine.in_memory import InMemory

logger = logging.getLogger(__name__)

WARM_WAIT_SECONDS = 0.01
WARM_WAITS = 5  # before it begins; waits and not one longer time, because asking a model takes longer on a busy machine
WARM_PAUSE_SECONDS = 0.002
LOOKED_AHEAD = 50  # rows of a list, in search of one that the caller may read
MOST_IDLE = 512  # idle conversations kept in memory; the rest are read again when asked for


class Engine:
    def __init__(
        self,
        *,
        cli: Sequence[tuple[str, Any]] = (),
        defaults: Tree | None = None,
        reads_user_file: bool = True,
        given_by: str = BY_ARGUMENT,
        env: Mapping[str, str] | None = None,
        open_log: Callable[[Path, asyncio.AbstractEventLoop], Store] = open_store,
    ) -> None:
        """`cli` goes over the user's file, `defaults` under it. `given_by`: see `load_config`."""
        self._home: Path | None = None
        self._env = dict(os.environ if env is None else env)
        self._server_cwd = Path.cwd()
        self._loop = asyncio.get_running_loop()
        self.tasks = EagerTasks(self._loop)  # also of front ends
        self._cli = cli
        self._defaults = defaults
        self._reads_user_file = reads_user_file
        self._given_by = given_by
        self._setups = Setups(self._env)
        self._commands = Commands()
        self._commit_delay = CommitDelay(self._loop)
        self._warming: asyncio.TimerHandle | None = None
        self._open_log = open_log
        self._log: Store | None = None
        self._configs: Configs | None = None
        self._in_memory: InMemory | None = None
        self._conversations: dict[ConversationId, Conversation] = {}  # in order of use
        self._secret_overrides: dict[ConversationId, Overrides] = {}  # what the log must not hold, for this process only
        self._warned: set[str] = set()
        self._other_servers: OtherServers | None = None
        self._watch = Watch(lambda: self.log, self._conversations)

    @property
    def home(self) -> Path:
        """Raises `ConfigError` where there is none: each call is told, and the server lives on."""
        if self._home is None:
            self._home = find_home(self._env)
        return self._home

    @property
    def log(self) -> Store:
        if self._log is None:
            self._log = self._open_log(self.home, self._loop)
        return self._log

    # -- conversations

    async def create(self, caller: Caller, overrides: Overrides) -> Handle:
        """A new conversation of this caller, opened in the log. Raises `ConfigError`, with nothing recorded."""
        if not caller.may("run", caller.name):
            raise NotAllowed(f"{caller.name} does not have the right to run conversations")
        conversation_id = ConversationId(new_uuid())
        config = self.configure(overrides)
        if config.history_persistence == "none":
            self._open_in_memory()
        setup = self._prepare_from(config, conversation_id)
        conversation = self._make(conversation_id, kept=config.history_persistence != "none")
        stored = self._for_the_log(conversation_id, overrides, config)
        conversation.beginning.use_setup(setup, stored)
        await conversation.open(stored, config.model, config.model_provider, setup.pins, caller.name)
        self._remember(conversation)
        if self._warming is None:  # ready by the time a model has answered, and not in the way of asking it
            self._warm_later(setup, WARM_WAITS)
        return Handle(self, conversation, caller)

    async def find(self, caller: Caller, conversation_id: ConversationId, *, to_send: bool = False) -> Handle:
        """Raises `UnknownConversation`, also for a caller who may not read it.

        Whoever means to send (`to_send`) need not see the newest of it first: sending looks for itself.
        """
        conversation = await self._find(conversation_id)
        if conversation.is_shared and not to_send and not conversation.claim.is_held:
            position = (await self.log.positions([conversation_id])).get(conversation_id)
            if position is None:  # another process has deleted it
                await conversation.elsewhere.note_deleted()
                self._forget(conversation)
                raise UnknownConversation(f"no conversation {conversation_id}")
            await conversation.elsewhere.look(position)
        return Handle(self, conversation, caller)

    async def copy_in_memory(self, caller: Caller, conversation_id: ConversationId) -> Handle:
        """Like `find`, but of a copy in memory under the same id: nothing of what is done here is kept, or seen elsewhere."""
        handle = await self.find(caller, conversation_id)
        if await self.log.holder(conversation_id) is not None:
            raise ConversationBusy(f"a turn of conversation {conversation_id} is running in another process")
        listed = await self.log.find(conversation_id)
        if listed is None:
            raise UnknownConversation(f"no conversation {conversation_id}")
        entries = await self.log.read(conversation_id)
        self._conversations.pop(conversation_id, None)
        self._open_in_memory().log.take_in(listed, entries)
        return await self.find(handle.caller, conversation_id)

    async def fork(
        self,
        caller: Caller,
        source: ConversationId,
        *,
        message_id: str | None = None,
        turn: str | None = None,
        kept: bool | None = None,
    ) -> Handle:
        """A new conversation that begins like this one, up to the end of a turn: of the one that read this message, of the one with
        this id, or of the last one that is over. `kept`: on disk; None: as this one. Raises `AgentError` with nothing recorded.
        """
        from understudy.engine.forking import fork  # few conversations are

        (await self.find(caller, source)).check_right("run")
        known = self.log if self._is_kept(source) else self._open_in_memory().log
        target = known if kept is None else self.log if kept else self._open_in_memory().log
        new_id = await fork(source, known, target, message_id, turn)
        if source in self._secret_overrides:
            self._secret_overrides[new_id] = self._secret_overrides[source]
        return await self.find(caller, new_id)

    async def _find(self, conversation_id: ConversationId) -> Conversation:
        conversation = self._conversations.pop(conversation_id, None)
        if conversation is None:
            conversation = self._make(conversation_id, kept=self._is_kept(conversation_id))
        self._remember(conversation)  # before it is read: whoever asks for it meanwhile gets the same one
        try:
            await conversation.load()
        except BaseException:
            self._forget(conversation)
            raise
        return conversation

    def _forget(self, conversation: Conversation) -> None:
        if self._conversations.get(conversation.id) is conversation:
            del self._conversations[conversation.id]

    async def submit(
        self, conversation: Conversation, op: Op, following: Following | None = None, told: Told | None = None
    ) -> Accepted:
        """Raises `AgentError` where it is not taken, with nothing recorded. For handles, which know who may do what.

        `told` is called once what was accepted is durable, or with the reason why it is not.
        """
        if conversation.forgotten:  # it was quiet for so long that it has left memory
            conversation = await self._find(conversation.id)
        match op:
            case Delete():
                await self._delete(conversation)
                return Accepted()
            case Archive(archived=archived):
                await conversation.archive(archived=archived)
                return Accepted()
            case Send(message=message) if message.overrides is not None and message.pins is None:
                op = msgspec.structs.replace(op, message=self._fix_choices(conversation, message, message.overrides))
            case _:
                pass
        try:
            return await conversation.submit(op, following, told)
        except UnknownConversation:  # another process has deleted it
            self._forget(conversation)
            raise

    def _fix_choices(self, conversation: Conversation, message: UserMessage, overrides: Overrides) -> UserMessage:
        """A message with what it changes from here on, as the log is to have it. Raises `ConfigError`."""
        config = self.configure(self.with_changes(conversation, overrides))
        pins = places_of(config, conversation.state.pins).pins()
        stored = self._for_the_log(conversation.id, overrides, config)
        return msgspec.structs.replace(message, overrides=stored, pins=pins)

    def with_changes(self, conversation: Conversation, overrides: Overrides) -> Overrides:
        return merge(unpinned(conversation.state.overrides, overrides), overrides)

    def watch(self, conversation: Conversation) -> None:
        """A viewer has come."""
        self._watch.wake(conversation)

    async def _delete(self, conversation: Conversation) -> None:
        kept = self._is_kept(conversation.id)
        temporary = state_dir(self.home) / "tmp" if kept else self._open_in_memory().temporary_folder(conversation.id).parent
        await conversation.delete()
        self._forget(conversation)
        self._secret_overrides.pop(conversation.id, None)
        if self._other_servers is not None:
            self._other_servers.end(conversation.id)
        from understudy.sandbox.private_tmp import remove_folder  # only here

        await remove_folder(str(temporary / conversation.id))

    async def status_of(self, listed: Listed) -> Status:
        """What holds now: after a crash a turn is not running, whatever its last record says."""
        status = listed.summary.status
        if status == "idle":
            return status
        known = self._conversations.get(listed.conversation_id)
        ends_here = known is not None and (
            bool(known.running) or not known.tail.idle
        )  # the end may still be on its way to the disk
        if ends_here or (self._is_kept(listed.conversation_id) and await self.log.holder(listed.conversation_id) is not None):
            return status
        return "waiting" if listed.summary.pending else "idle"

    async def running_in(self, listed: Listed) -> tuple[RunningCommand, ...]:
        """Its commands that outlive their turns and run now: after a crash none does, whatever the log says."""
        running = listed.summary.running
        known = self._conversations.get(listed.conversation_id)
        if not running or (known is not None and known.long_commands):
            return running
        held = self._is_kept(listed.conversation_id) and await self.log.holder(listed.conversation_id) is not None
        return running if held else ()

    async def list(self, caller: Caller, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        """What the caller may read, the last active first."""
        if "read" in caller.rights and "read" in caller.others:
            return await self._list(limit, cursor, archived=archived)
        rows: list[Listed] = []
        while True:
            page = await self._list(limit - len(rows), cursor, archived=archived)
            rows += [listed for listed in page.rows if caller.may("read", listed.owner)]
            cursor = page.next_cursor
            if cursor is None or len(rows) >= limit:
                break
        more = await self._has_readable(caller, cursor, archived=archived)  # else a cursor would tell that others have some
        return Page(tuple(rows), cursor if more else None)

    async def _has_readable(self, caller: Caller, cursor: str | None, *, archived: bool) -> bool:
        while cursor is not None:
            page = await self._list(LOOKED_AHEAD, cursor, archived=archived)
            if any(caller.may("read", listed.owner) for listed in page.rows):
                return True
            cursor = page.next_cursor
        return False

    async def _list(self, limit: int, cursor: str | None, *, archived: bool) -> Page:
        if self._in_memory is not None and not archived:
            return await self._in_memory.list(limit, cursor, self.log)
        return await self.log.list(limit, cursor, archived=archived)

    def _make(self, conversation_id: ConversationId, *, kept: bool) -> Conversation:
        log = self.log if kept else self._open_in_memory().log
        shared = (self._commands, self._prepare, self._loop, self.tasks, self._commit_delay, self._watch.wake)
        return Conversation(conversation_id, log, *shared)

    def _is_kept(self, conversation_id: ConversationId) -> bool:
        return self._in_memory is None or conversation_id not in self._in_memory.log

    def _open_in_memory(self) -> "InMemory":
        if self._in_memory is None:
            from understudy.engine.in_memory import InMemory  # few processes have any

            self._in_memory = InMemory(self._loop)
        return self._in_memory

    def _remember(self, conversation: Conversation) -> None:
        self._conversations[conversation.id] = conversation
        if len(self._conversations) > MOST_IDLE:
            for conversation_id, other in tuple(self._conversations.items())[: len(self._conversations) - MOST_IDLE]:
                if other.is_quiet:
                    other.forget()
                    del self._conversations[conversation_id]

    def _warm_later(self, setup: TurnSetup, waits: int) -> None:
        if waits:
            self._warming = self._loop.call_later(WARM_WAIT_SECONDS, self._warm_later, setup, waits - 1)
        else:
            self._warm(self._commands.warm(), setup)

    def _warm(self, steps: Iterator[None], setup: TurnSetup) -> None:
        """A step at a time: the model may be speaking already."""
        for _ in steps:
            self._warming = self._loop.call_later(WARM_PAUSE_SECONDS, self._warm, steps, setup)
            return
        setup.settings()

    # -- configuration

    def configure(self, overrides: Overrides) -> Config:
        """Raises `ConfigError`."""
        self._configs = self._configs or Configs(
            self._cli,
            self._server_cwd,
            self._env,
            defaults=self._defaults,
            reads_user_file=self._reads_user_file,
            given_by=self._given_by,
        )
        config = self._configs.load(self.home, overrides)
        for warning in config.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                from understudy.policy.visible import make_visible  # few configurations have any

                logger.warning("%s", make_visible(warning))
        return config

    def _prepare(self, overrides: Overrides, conversation_id: ConversationId, pins: Pins | None) -> TurnSetup:
        secret = self._secret_overrides.get(conversation_id)
        return self._prepare_from(self.configure(merge(overrides, secret) if secret else overrides), conversation_id, pins)

    def _prepare_from(self, config: Config, conversation_id: ConversationId, pins: Pins | None = None) -> TurnSetup:
        setup = self._setups.prepare(config, self._temporary_folder(config, conversation_id), pins)
        if not config.mcp_servers:
            return setup
        taken = frozenset(tool.name for tool in setup.offered)
        pool = self._other_servers = self._other_servers or OtherServers(self._commands, self._env)
        servers = (conversation_id, config.mcp_servers, setup.settings, taken, config.mcp_wait_seconds)
        return msgspec.structs.replace(setup, servers=ConversationServers(pool, *servers))

    def _temporary_folder(self, config: Config, conversation_id: ConversationId) -> Path:
        kept = config.history_persistence != "none"
        if self._in_memory is not None and (not kept or not self._is_kept(conversation_id)):
            return self._in_memory.temporary_folder(conversation_id)
        return config.state_dir / "tmp" / conversation_id

    def _for_the_log(self, conversation_id: ConversationId, overrides: Overrides, config: Config) -> Overrides:
        """What goes on later must mean the same: the choices that the configuration made are written down with the caller's."""
        chosen = Overrides(
            model=config.model, cwd=str(config.cwd), approval_policy=config.approval_policy, sandbox=config.sandbox.mode
        )
        stored = merge(overrides, chosen)
        if stored.config:
            from understudy.policy.secrets import without_secrets  # few calls have any

            plain = without_secrets(stored.config)
            if plain != stored.config:
                self._secret_overrides[conversation_id] = Overrides(config=stored.config)
            stored = merge(Overrides(config=plain), Overrides(**{**fields_of(stored), "config": None}))
        return stored

    # -- ending

    async def close(self) -> None:
        """Turns are interrupted and recorded, children are gone, the log is on disk."""
        await asyncio.gather(*(conversation.stop() for conversation in tuple(self._conversations.values())))
        for conversation in self._conversations.values():
            conversation.flush()
        await self._watch.close()
        if self._warming is not None:
            self._warming.cancel()
        if self._other_servers is not None:
            await self._other_servers.close()
        await self._commands.close()
        await self._setups.aclose()
        if self._log is not None:
            self._log.finish()
            await asyncio.sleep(0)  # whoever waited for the disk is told
            self._log.close()
        self._setups.finish_notifying()
        if self._in_memory is not None:
            self._in_memory.close()
