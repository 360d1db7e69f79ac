"""From a caller's choices to what a turn runs with, and to what goes into the log, which must never hold a secret."""

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.load import Configs
from understudy.config.model import Config
from understudy.config.project import has_hook_files
from understudy.config.sandbox import places_of
from understudy.engine.log.facts import fields_of, merge, with_changes
from understudy.engine.log.fold import State
from understudy.engine.log.logs import Logs
from understudy.engine.setup.setup import Setups
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides, Pins, UserMessage
from understudy.tools.host import RunsCommands

if TYPE_CHECKING:
    from understudy.engine.hooks.of_conversation import ConversationHooks
    from understudy.engine.turn.other_servers import OtherServers

logger = logging.getLogger(__name__)

MOST_WITH_HOOKS = 1000  # conversations; a dropped entry is made again, as after a restart


class Preparing:
    def __init__(
        self,
        home: Callable[[], Path],
        make_configs: Callable[[], Configs],
        logs: Logs,
        commands: RunsCommands,
        env: Mapping[str, str],
    ) -> None:
        self._home = home
        self._make_configs = make_configs
        self._configs: Configs | None = None  # until the first call needs one
        self._logs = logs
        self._commands = commands
        self._env = env
        self._setups = Setups(env)
        self._other_servers: OtherServers | None = None
        # choices that the log must not hold, kept only in this process
        self._secret_overrides: dict[ConversationId, Overrides] = {}
        self._warned: set[str] = set()
        self._programs: tuple[Config, frozenset[str]] | None = None  # programs in the last configuration that names any
        self._hooks: dict[ConversationId, tuple[Path, ConversationHooks | None]] = {}

    def configure(self, overrides: Overrides) -> Config:
        """Raises `ConfigError`."""
        if self._configs is None:
            self._configs = self._make_configs()
        config = self._configs.load(self._home(), overrides)
        for warning in (*config.warnings, *config.notices):
            if warning not in self._warned:
                self._warned.add(warning)
                from understudy.text import make_visible  # few configurations need it

                logger.warning("%s", make_visible(warning))
        return config

    def prepare(self, overrides: Overrides, conversation_id: ConversationId, pins: Pins | None) -> TurnSetup:
        """The setup for a turn of an existing conversation. Raises `ConfigError`."""
        secret = self._secret_overrides.get(conversation_id)
        return self.prepare_from(self.configure(merge(overrides, secret) if secret else overrides), conversation_id, pins)

    def prepare_from(self, config: Config, conversation_id: ConversationId, pins: Pins | None = None) -> TurnSetup:
        kept = config.history_persistence != "none"
        private_tmp = partial(self._logs.temporary_folder, conversation_id, kept=kept)
        setup = self._setups.prepare(config, private_tmp, pins)
        kept_files = self._programs_in_roots(config)
        if config.hooks or has_hook_files(str(config.cwd), config.home, self._env):
            from understudy.engine.hooks.of_conversation import open_hooks  # few users have hooks

            if len(self._hooks) > MOST_WITH_HOOKS:
                self._hooks.pop(next(iter(self._hooks)))
            known = self._hooks.get(conversation_id)
            if known is None or known[0] != config.cwd:
                known = self._hooks[conversation_id] = config.cwd, open_hooks(config, self._env, conversation_id, private_tmp())
            setup = msgspec.structs.replace(setup, hooks=known[1])
            if known[1] is not None:
                kept_files |= known[1].keep_scripts(config)
        if kept_files:
            from understudy.engine.setup.tool_settings import keeping

            setup = msgspec.structs.replace(setup, settings=cache(partial(keeping, setup.settings, kept_files)))
        if not config.mcp_servers:
            return setup
        from understudy.engine.turn.other_servers import ConversationServers, OtherServers

        taken = frozenset(tool.name for tool in setup.offered)
        pool = self._other_servers = self._other_servers or OtherServers(self._commands, self._env, config.state_dir)
        servers = (conversation_id, config.mcp_servers, setup.settings, taken, config.mcp_wait_seconds)
        return msgspec.structs.replace(setup, servers=ConversationServers(pool, *servers))

    def _programs_in_roots(self, config: Config) -> frozenset[str]:
        if not (config.mcp_servers or config.notify or config.questions.command):
            return frozenset()
        if self._programs is None or self._programs[0] is not config:
            from understudy.engine.setup.programs import programs_in_roots  # few configurations name any

            self._programs = config, programs_in_roots(config)
        return self._programs[1]

    # -- for the log

    def for_the_log(self, conversation_id: ConversationId, overrides: Overrides, config: Config) -> Overrides:
        """Write down the configuration's choices with the caller's, so that continuing later means the same."""
        chosen = Overrides(
            model=config.model, cwd=str(config.cwd), approval_policy=config.approval_policy, sandbox=config.sandbox.mode
        )
        stored = merge(overrides, chosen)
        if stored.config:
            from understudy.policy.secrets import without_secrets  # few calls hold secrets

            plain = without_secrets(stored.config)
            if plain != stored.config:
                self._secret_overrides[conversation_id] = Overrides(config=stored.config)
            stored = merge(Overrides(config=plain), Overrides(**{**fields_of(stored), "config": None}))
        return stored

    def fix_choices(self, conversation_id: ConversationId, state: State, message: UserMessage, overrides: Overrides) -> UserMessage:
        """The message with its changed settings, as the log must have it. Raises `ConfigError`."""
        config = self.configure(with_changes(state.overrides, overrides))
        pins = places_of(config, state.pins).pins()
        stored = self.for_the_log(conversation_id, overrides, config)
        return msgspec.structs.replace(message, overrides=stored, pins=pins)

    def copy_secrets(self, source: ConversationId, target: ConversationId) -> None:
        if source in self._secret_overrides:
            self._secret_overrides[target] = self._secret_overrides[source]

    # -- ending

    def forget(self, conversation_id: ConversationId) -> None:
        self._secret_overrides.pop(conversation_id, None)
        self._hooks.pop(conversation_id, None)
        if self._other_servers is not None:
            self._other_servers.end(conversation_id)

    async def close_servers(self) -> None:
        if self._other_servers is not None:
            await self._other_servers.close()

    async def close(self) -> None:
        await self._setups.aclose()

    def finish_notifying(self) -> None:
        self._setups.finish_notifying()
