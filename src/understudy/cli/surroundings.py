"""How the shell tool would run and judge a command here: the very settings that a turn gets."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.cli.settings import read_config
from understudy.cli.terminal import one_line
from understudy.config.model import Config
from understudy.engine.setup import Setups
from understudy.protocol.choices import SandboxMode
from understudy.protocol.records import Overrides
from understudy.tools.host import ToolSettings

ANY_MODEL = "none"  # none is asked anything here, so none need be configured


def configured(options: Namespace, *, mode: SandboxMode | None = None, more: Sequence[tuple[str, Any]] = ()) -> Config:
    """For the folder of `--cwd`, else this one, with its warnings told. Raises `ConfigError`."""
    config = read_config(options, Overrides(model=ANY_MODEL, cwd=options.cwd, sandbox=mode), more)
    for warning in config.warnings:
        print(f"understudy: {one_line(warning)}", file=sys.stderr)
    return config


def tool_settings(config: Config, private_tmp: Path) -> ToolSettings:
    """Raises `ConfigError`."""
    return Setups(os.environ).prepare(config, private_tmp).settings()
