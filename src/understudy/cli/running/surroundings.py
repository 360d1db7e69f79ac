"""How the shell tool would run and judge a command here, with exactly the settings that a turn gets."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.cli.settings import read_config
from understudy.cli.tell.terminal import one_line
from understudy.config.model import Config
from understudy.engine.setup.setup import Setups
from understudy.policy.decide import CommandFacts, Verdict, decide_command
from understudy.policy.steering import planted_programs, steering_variable
from understudy.protocol.choices import SandboxMode
from understudy.protocol.records import Overrides
from understudy.tools.host import ToolSettings

ANY_MODEL = "none"  # no model is asked here, so none need be configured


def configured(options: Namespace, *, mode: SandboxMode | None = None, more: Sequence[tuple[str, Any]] = ()) -> Config:
    """For the folder of `--cwd`, or the current one; prints its warnings. Raises `ConfigError`."""
    config = read_config(options, Overrides(model=ANY_MODEL, cwd=options.cwd, sandbox=mode), more)
    for warning in config.warnings:
        print(f"understudy: {one_line(warning)}", file=sys.stderr)
    return config


def tool_settings(config: Config, private_tmp: Path) -> ToolSettings:
    """Raises `ConfigError`."""
    return Setups(os.environ).prepare(config, lambda: private_tmp).settings()


def judge(argv: Sequence[str], settings: ToolSettings, *, sandbox_available: bool = True, escalated: bool = False) -> Verdict:
    return decide_command(
        CommandFacts(
            argv=tuple(argv),
            cwd=settings.cwd,
            project=settings.roots,
            approval_policy=settings.approval_policy,
            sandbox_mode=settings.sandbox_mode,
            sandbox_available=sandbox_available,
            escalated=escalated,
            rules=settings.rules,
            planted=planted_programs(settings.environment.get("PATH"), settings.cwd, settings.roots, argv[:1]),
            steered_by=steering_variable(settings.environment, settings.cwd, settings.roots),
            home=settings.home,
        )
    )
