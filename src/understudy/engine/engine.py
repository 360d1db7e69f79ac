"""The agent of one process: its conversations and what they share (store, sandbox, model connections, configuration)."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.config.home import find_home, is_there, state_dir
from understudy.config.load import BY_ARGUMENT, Configs
from understudy.config.model import Config
from understudy.config.schema import Tree
from understudy.engine.conversation.conversation import Conversation
from understudy.engine.conversation.phases import FORGOTTEN, GONE
from understudy.engine.conversation.watch import Watch
from understudy.engine.handle import Handle
from understudy.engine.log.logs import Logs, OpenLog
from understudy.engine.log.tail import CommitDelay, Told
from understudy.engine.remembered import Remembered
from understudy.engine.setup.commands import Commands, Warming
from understudy.engine.setup.preparing import Preparing
from understudy.engine.steps import EagerTasks, Pace
from understudy.engine.viewers.following import Following
from understudy.errors import ConversationBusy, LacksRight, StoreError, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId, new_uuid
from understudy.protocol.ops import Accepted, Archive, Delete, Op, Send
from understudy.protocol.records import Entry, Overrides, Terms
from understudy.store.log import Listed, Page, Store
from understudy.store.opening import open_store

if TYPE_CHECKING:
    from understudy.engine.conversation.elsewhere import TakenUp
    from understudy.engine.listing import Listing, Standing
    from understudy.engine.services.observing import InHand, Observer
    from understudy.engine.services.turns_at_work import TurnsAtWork
    from understudy.engine.turn.accounts import Accounts
    from understudy.engine.workspaces.workspaces import Workspaces
    from understudy.store.search.asked import Found, Wanted

MOST_NAMED = 100  # viewers


class Engine:
    """Makes and finds conversations and hands them out as handles. Everything it started has ended when `close` returns."""

    prepares = Preparing

    def __init__(
        self,
        *,
        cli: Sequence[tuple[str, Any]] = (),
        defaults: Tree | None = None,
        reads_user_file: bool = True,
        given_by: str = BY_ARGUMENT,
        env: Mapping[str, str] | None = None,
        open_log: OpenLog = open_store,
    ) -> None:
        """`cli` overrides the user's file, which overrides `defaults`. `given_by`: see `load_config`."""
        self._home: Path | None = None
        self._env = dict(os.environ if env is None else env)
        self._loop = asyncio.get_running_loop()
        self.tasks = EagerTasks(self._loop)  # front ends use it too
        self.pace = Pace(self._loop)  # front ends use it too
        self._commands = Commands()
        self._commit_delay = CommitDelay(self._loop)
        self._warming = Warming(self._loop, self._commands)
        self._logs = Logs(self._find_home, self._loop, open_log)
        configs = partial(
            Configs, cli, Path.cwd(), self._env, defaults=defaults, reads_user_file=reads_user_file, given_by=given_by
        )
        self._preparing = self.prepares(self._find_home, configs, self._logs, self._commands, self._env)
        self._remembered = Remembered(self._loop)
        self._conversations = self._remembered.all
        self._watch = Watch(self._logs.store, self._conversations)
        self._workspaces: Workspaces | None = None  # few conversations use a workspace made for them
        self.host_name = ""  # this host's name among the hosts of one database; empty: the system's host name
        self.observer: Observer | None = None  # set before the first conversation
        self.at_work: TurnsAtWork | None = None  # set before the first conversation if callers have a limit of concurrent turns
        self.accounts: Accounts | None = None  # set before the first conversation if callers have budgets
        self.where_from: Callable[[], str] = str  # the network address of the current request, if a door knows it
        self.takes_no_new: str | None = None  # why no new conversation is begun at present

    def _find_home(self) -> Path:
        """Raises `ConfigError` if there is none: each call gets this error, and the server stays up."""
        if self._home is None:
            self._home = find_home(self._env)
        return self._home

    @property
    def home(self) -> Path:
        """Raises `ConfigError` if there is none."""
        return self._find_home()

    @property
    def log(self) -> Store:
        return self._logs.store()

    # -- conversations

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
        """Open a new conversation of this caller in the log. If it fails or is not allowed, `AgentError` is raised and nothing is
        recorded.

        `for_turn`: a message follows at once under these `terms`, so the caller needs room for a turn. Somebody else may have
        chosen the conversation's id.
        """
        for right in ("run", "read"):  # a caller who cannot see it could do nothing with it
            if not caller.may(right, caller.name):
                raise LacksRight(f"{caller.name} does not have the right to {right} conversations", right)
        if caller.limits is not None:
            from understudy.engine.caller_limits import check_choices  # only callers with a token of their own have limits

            check_choices(caller.limits, overrides)
        self._check_room()
        if for_turn and self.at_work is not None:
            self.at_work.check(caller.name)
        if for_turn:
            await self.admit(caller, terms)
        if conversation_id is None:
            conversation_id = ConversationId(new_uuid())
        if overrides.workspace is not None:
            config = self.configure(msgspec.structs.replace(overrides, workspace=None, cwd=None))  # check before anything is made
            create = partial(self._create, conversation_id, caller, thread_source=thread_source, terms=terms)
            limits = (caller.limits is not None, config.history_persistence != "none")
            return await self.workspaces().create_in(conversation_id, overrides, limits, create)
        return await self._create(conversation_id, caller, overrides, thread_source, terms)

    def workspaces(self) -> "Workspaces":
        """Raises `ConfigError`."""
        if self._workspaces is None:
            from understudy.engine.workspaces.workspaces import Workspaces

            self._workspaces = Workspaces(self._find_home(), self._env, self.host_name, self._find, has_hosts=self.log.is_remote)
        return self._workspaces

    async def make_ready(self, conversation: Conversation) -> None:
        """Make the workspace available before work begins in it. Raises `WorkspaceAway`."""
        if conversation.state.overrides.workspace is not None and not conversation.turn_runs:
            workspaces, read = self.workspaces(), partial(self.log.read, conversation.id)
            if self.log.is_remote:  # the workspace may be on another host
                await workspaces.make_ready_here(conversation, read)
            else:
                await workspaces.make_ready(conversation.id, conversation.state, read)

    async def _create(
        self, conversation_id: ConversationId, caller: Caller, overrides: Overrides, thread_source: str | None, terms: Terms | None
    ) -> Handle:
        config = self.configure(overrides)
        if config.history_persistence == "none":
            self._logs.in_memory()
        setup = self._preparing.prepare_from(config, conversation_id)
        if caller.limits is not None:
            from understudy.engine.caller_limits import check_setup

            check_setup(caller.limits, setup)
        if terms is not None and terms.budget is not None:
            from understudy.engine.turn.budgets import check_budget  # few messages have a budget

            check_budget(caller, caller.name, terms.budget, config)
        conversation = self._make(conversation_id, kept=config.history_persistence != "none")
        stored = self._preparing.for_the_log(conversation_id, overrides, config)
        conversation.use_setup(setup, stored)
        await conversation.open(stored, config.model, config.model_provider, setup.pins, caller.name, thread_source)
        self._remembered.note_used(conversation)
        self._warming.begin(setup)
        return Handle(self, conversation, caller)

    async def find(self, caller: Caller, conversation_id: ConversationId, *, to_send: bool = False) -> Handle:
        """Raises `UnknownConversation`, also for a caller who may not read it.

        With `to_send` the newest records need not be loaded first: sending loads them.
        """
        conversation = await self._find(conversation_id)
        if conversation.is_shared and not to_send and not conversation.has_claim:
            position = (await self.log.positions([conversation_id])).get(conversation_id)
            if position is None:  # another process has deleted it
                await conversation.note_deleted()
                self._remembered.forget(conversation)
                raise UnknownConversation(f"no conversation {conversation_id}")
            await conversation.look(position)
        if to_send:
            await self.make_ready(conversation)
        return Handle(self, conversation, caller)

    async def copy_in_memory(self, caller: Caller, conversation_id: ConversationId) -> Handle:
        """Like `find`, but returns a copy in memory under the same id: what happens in it is neither kept nor seen elsewhere."""
        handle = await self.find(caller, conversation_id)
        if await self.log.holder(conversation_id) is not None:
            raise ConversationBusy(f"a turn of conversation {conversation_id} is running in another process")
        listed = await self.log.find(conversation_id)
        if listed is None:
            raise UnknownConversation(f"no conversation {conversation_id}")
        entries = await self.log.read(conversation_id)
        if (known := self._conversations.get(conversation_id)) is not None:
            self._remembered.forget(known)
        self._logs.in_memory().log.take_in(listed, entries)
        return await self.find(handle.caller, conversation_id)

    async def fork(
        self,
        caller: Caller,
        source: ConversationId,
        *,
        message_id: str | None = None,
        turn: str | None = None,
        kept: bool | None = None,
        thread_source: str | None = None,
    ) -> Handle:
        """A new conversation that begins like this one, up to the end of a turn: the turn that read the given message, the turn
        with the given id, or the last finished one. `kept` (on disk) and `thread_source` default to those of this one (None). If it
        raises `AgentError`, nothing is recorded.
        """
        from understudy.engine.log.forking import fork  # few conversations are forked

        handle = await self.find(caller, source)
        handle.check_right("run")
        if caller.limits is not None and handle.facts.owner != caller.name:
            from understudy.engine.caller_limits import check_inherited

            check_inherited(caller.limits, [entry.record for entry in await handle.read(0)])
        self._check_room()
        known = self._logs.of(kept=self._logs.is_kept(source))
        target = known if kept is None else self._logs.of(kept=kept)
        new_id = await fork(source, known, target, message_id, turn, owner=caller.name, pace=self.pace, thread_source=thread_source)
        if handle.facts.owner == caller.name:  # a new owner does not get what another caller gave for the conversation
            self._preparing.copy_secrets(source, new_id)
        return await self.find(caller, new_id)

    async def _find(self, conversation_id: ConversationId) -> Conversation:
        while True:
            conversation = self._conversations.get(conversation_id)
            if conversation is None:
                conversation = self._make(conversation_id, kept=self._logs.is_kept(conversation_id))
            self._remembered.note_used(conversation)  # before the read: concurrent callers get the same object
            if conversation.tail.state.last_seq:
                return conversation
            try:
                await conversation.load()
            except BaseException:
                if not conversation.loaded:
                    self._remembered.forget(conversation)
                raise
            if self._conversations.get(conversation_id, conversation) is conversation:
                self._remembered.note_used(conversation)
                return conversation  # even if a concurrent caller who could not read it has dropped it from memory

    async def submit(
        self, conversation: Conversation, op: Op, following: Following | None = None, told: Told | None = None
    ) -> Accepted:
        """Raises `AgentError` with nothing recorded if the op is refused. Only handles call this: they have checked the rights.

        `told` is called once the accepted op is durable, or with the error if it failed.
        """
        if conversation.standing.phase is FORGOTTEN:  # it was idle for so long that it has left memory
            conversation = await self._find(conversation.id)
        match op:
            case Delete():
                return await self._delete(conversation, op)
            case Archive():
                return await conversation.submit(op)
            case Send():
                op = self.pinned(conversation, op)
            case _:
                pass
        try:
            return await conversation.submit(op, following, told)
        except UnknownConversation:
            if following is not None:
                following.stop()  # the caller learns of it by the error
            await self._note_refused(conversation)
            raise

    async def take_up(self, conversation_id: ConversationId) -> "TakenUp":
        """Do the work that was left for a conversation of this host while no process had it. Raises `AgentError`."""
        conversation = await self._find(conversation_id)
        taken = await conversation.take_up()
        if taken.deletes:
            await self._delete(conversation, Delete())
        return taken

    async def end_commands_between_turns(self, reason: str) -> None:
        """End the commands that outlived their turns, in conversations without a running turn."""
        known = [one for one in self._conversations.values() if one.runs_commands and not one.turn_runs]
        await asyncio.gather(*(one.end_commands(reason) for one in known))

    async def _note_refused(self, conversation: Conversation) -> None:
        """Tell viewers if another process has deleted the conversation. If the conversation was to be deleted here, it may still
        exist.
        """
        if not conversation.is_forgotten:
            await conversation.note_deleted()
        if conversation.phase is GONE:
            self._remembered.forget(conversation)

    def pinned(self, conversation: Conversation, op: Send) -> Send:
        """The op with the folders that its message changes to pinned as they are now. Raises `ConfigError`."""
        message = op.message
        if message.overrides is None or message.pins is not None:
            return op
        fixed = self._preparing.fix_choices(conversation.id, conversation.state, message, message.overrides)
        return msgspec.structs.replace(op, message=fixed)

    async def admit(self, caller: Caller, terms: Terms | None) -> None:
        """Raises `BudgetSpent` if the caller may use no more, or less than they ask for."""
        account = None if self.accounts is None else self.accounts.find(caller.name)
        if account is not None:
            await account.admit(None if terms is None else terms.budget)

    def _check_room(self) -> None:
        if self.takes_no_new is not None:
            raise StoreError(f"conversation store: {self.takes_no_new}")

    async def retire(self, seen: Listed) -> bool:
        """Delete a conversation if nobody has used it since it was `seen`. False if somebody has, or is using it now."""
        # only needed if an operator limits how long conversations are kept
        from understudy.engine.conversation.retiring import delete_if_unused

        known = self._conversations.get(seen.conversation_id)
        if known is not None and not known.is_quiet:
            return False
        conversation = self._make(seen.conversation_id, kept=True) if known is None else known
        self._remembered.note_used(conversation)  # concurrent callers get the conversation whose queue this delete is in
        deleted = await conversation.alone(delete_if_unused(conversation, self.log, seen))
        if deleted or not (conversation.loaded or conversation.is_busy):
            self._remembered.forget(conversation)
        if deleted:
            await self._clear_up(conversation, self._logs.temporary_folder(conversation.id, kept=True))
        return deleted

    async def _delete(self, conversation: Conversation, op: Delete) -> Accepted:
        # Looked up before the delete: afterwards nothing tells whether the conversation was only in memory.
        temporary = self._logs.temporary_folder(conversation.id, kept=self._logs.is_kept(conversation.id))
        accepted = await conversation.submit(op)
        self._remembered.forget(conversation)
        await self._clear_up(conversation, temporary)
        return accepted

    async def _clear_up(self, conversation: Conversation, temporary: Path) -> None:
        """Remove the files of a deleted conversation."""
        workspace = conversation.state.overrides.workspace
        if workspace is not None or (not conversation.loaded and is_there(state_dir(self.home) / "snapshots")):
            await self.workspaces().discard(conversation.id, kept_too=True)
        self._preparing.forget(conversation.id)
        from understudy.sandbox.private_tmp import remove_folder  # only needed here

        await remove_folder(str(temporary))
        await remove_folder(f"{temporary}-hooks")

    @cached_property
    def _listing(self) -> "Listing":
        from understudy.engine.listing import Listing  # the first turn of a process lists nothing

        return Listing(self._logs, self._conversations)

    async def list(self, caller: Caller, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        """What the caller may read, most recently active first."""
        return await self._listing.list(caller, limit, cursor, archived=archived)

    async def search(self, caller: Caller, wanted: "Wanted") -> "Found":
        """Search what was said and run in kept conversations that the caller may read, newest first."""
        from understudy.engine.services.searching import mask_of, search  # few processes ever search

        return await search(self.log, caller, wanted, mask_of(self._env))

    async def standing_of(self, listed: Listed) -> "Standing":
        """The current state of a row, which may since have changed: after a crash no turn runs, whatever its last record says."""
        return await self._listing.standing_of(listed)

    async def last_records(self, listed: Listed, count: int) -> Sequence[Entry]:
        """The last `count` records, up to the last one that the row covers. Only for callers who may read the conversation."""
        return await self._listing.last_records(listed, count)

    async def listed(self, conversation_id: ConversationId) -> Listed | None:
        """The conversation's row in a list. Only for callers who may read it."""
        return await self._listing.find(conversation_id)

    def viewers_of(self, conversation_id: ConversationId) -> tuple[str, ...]:
        """Names of the callers who watch the conversation in this process, one per viewer, at most `MOST_NAMED`."""
        known = self._conversations.get(conversation_id)
        followers = () if known is None else known.followers
        names = (follower.name for follower in followers if isinstance(follower, Following) and follower.name)
        return tuple(islice(names, MOST_NAMED))

    def configure(self, overrides: Overrides) -> Config:
        """Raises `ConfigError`."""
        return self._preparing.configure(overrides)

    def _make(self, conversation_id: ConversationId, *, kept: bool) -> Conversation:
        log = self._logs.of(kept=kept)
        shared = (self._commands, self._preparing.prepare, self._loop, self.tasks, self._commit_delay, self._watch.wake, self.pace)
        conversation = Conversation(conversation_id, log, *shared)
        conversation.is_observed_by(self.observer, self.at_work, self.accounts)
        if log.is_remote:
            conversation.fixes = partial(self.pinned, conversation)
            self._commands.held_by(self.log.when_renewed)
        conversation.works_in(self.workspaces)
        return conversation

    def in_hand(self) -> "InHand":
        from understudy.engine.services.observing import InHand  # only needed if somebody observes

        known = [conversation for conversation in self._conversations.values() if conversation.loaded]
        return InHand(
            sum(conversation.turn_runs for conversation in known),
            sum(len(conversation.state.questions) for conversation in known),
            sum(len(conversation.followers) for conversation in known),
            len(known),
        )

    @property
    def turns_under_way(self) -> int:
        """Turns that run here and do not wait for a person's answer."""
        known = (conversation for conversation in self._conversations.values() if conversation.loaded)
        return sum(conversation.turn_runs and not conversation.state.questions for conversation in known)

    # -- ending

    async def close(self) -> None:
        """Interrupt the turns, record their ends, end the child processes, and finish writing the log."""
        if self._workspaces is not None:
            await self._workspaces.settle()
        await asyncio.gather(*(conversation.stop() for conversation in tuple(self._conversations.values())))
        for conversation in self._conversations.values():
            conversation.flush()
        if self._workspaces is not None:
            await self._workspaces.close()
        await self._watch.close()
        self._warming.end()
        await self._preparing.close_servers()
        await self._commands.close()
        await self._preparing.close()
        await self._logs.close()
        self._preparing.finish_notifying()
        self._logs.forget_memory()
