"""A simulated process: the real engine on a loop, a log, a model and commands that are simulated."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from tests.simulation.commands import SimulatedCommands
from tests.simulation.log import SimulatedLog, Troubles
from tests.simulation.loop import ProcessLoop
from tests.simulation.models import SimulatedModel
from understudy.config.load import Configs
from understudy.config.model import Config
from understudy.engine.engine import Engine
from understudy.engine.setup.commands import Warming
from understudy.engine.setup.preparing import Preparing
from understudy.engine.setup.setup import Setups
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides, Pins
from understudy.store.log import Store

if TYPE_CHECKING:
    from tests.simulation.world import World

CHOSEN = Overrides(model="gpt-5", approval_policy="untrusted", sandbox="danger-full-access")


@cache
def home() -> Path:
    """Nothing is written there; each run of the program has one."""
    folder = Path(tempfile.gettempdir()) / f"understudy-simulated-{os.getuid()}"
    (folder / "work").mkdir(parents=True, exist_ok=True)
    return folder


@cache
def _environment() -> dict[str, str]:
    return {"CODEX_HOME": str(home()), "HOME": str(home()), "PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "none"}


_configs: dict[bytes, Config] = {}
_setups: dict[int, TurnSetup] = {}


def _configured(overrides: Overrides) -> Config:
    key = msgspec.json.encode(overrides)
    if key not in _configs:
        _configs[key] = Configs((), home() / "work", _environment(), reads_user_file=False).load(home(), overrides)
    return _configs[key]


def _prepared(config: Config) -> TurnSetup:
    known = _setups.get(id(config))
    if known is None:
        made = Setups(_environment()).prepare(config, lambda: home() / "tmp")
        settings = msgspec.structs.replace(made.settings(), state="")  # no locks between folders
        known = _setups[id(config)] = msgspec.structs.replace(made, settings=lambda: settings, stream_retries=2)
    return known


class SimulatedPreparing(Preparing):
    """The real configuration, made once for all seeds."""

    model: SimulatedModel

    def configure(self, overrides: Overrides) -> Config:
        return _configured(overrides)

    def prepare_from(self, config: Config, conversation_id: ConversationId, pins: Pins | None = None) -> TurnSetup:
        return msgspec.structs.replace(_prepared(config), model=self.model)


class SimulatedEngine(Engine):
    def __init__(
        self, model: SimulatedModel, commands: SimulatedCommands, open_log: Callable[[Path, asyncio.AbstractEventLoop], Store]
    ) -> None:
        super().__init__(env=_environment(), open_log=open_log)
        self._commands = commands
        self._warming = Warming(self._loop, commands)
        preparing = SimulatedPreparing(self._find_home, lambda: None, self._logs, commands, self._env)  # type: ignore[arg-type]
        preparing.model = model
        self._preparing = preparing


class SimulatedProcess:
    def __init__(self, world: World, name: str, pid: int, random: Random, troubles: Troubles) -> None:
        self.world = world
        self.name = name
        self.pid = pid
        self.loop = ProcessLoop(world.clock, lambda text: world.history.note("bug", process=name, text=text))
        self.log = SimulatedLog(world.disk, self.loop, Random(random.random()), troubles, pid, world.wall)
        self.commands = SimulatedCommands(Random(random.random()), world.history, name)
        self._engine: SimulatedEngine | None = None
        self.closing = False

    @property
    def engine(self) -> SimulatedEngine:
        """To be asked for on its loop."""
        if self._engine is None:
            self._engine = SimulatedEngine(self.world.model, self.commands, lambda _, __: self.log)
        return self._engine

    @property
    def serves(self) -> bool:
        return not (self.loop.dead or self.closing)

    def crash(self) -> None:
        """As by `kill -9`."""
        self.world.history.note("crash", process=self.name)
        self.log.die()
        self.unwind()

    def unwind(self) -> None:
        """What the kernel takes back of a process that is gone."""
        self.world.history.deaf = True
        try:
            self.loop.kill()
        finally:
            self.world.history.deaf = False
