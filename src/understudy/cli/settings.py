"""What commands need of the user's configuration."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.cli.parsing import wrong_usage
from understudy.config.home import find_home
from understudy.config.load import load_config
from understudy.config.model import Config
from understudy.config.overrides import parse_flag
from understudy.errors import ConfigError
from understudy.protocol.records import Overrides


def read_overrides(options: Namespace) -> list[tuple[str, Any]]:
    """The `-c` flags. An invalid one ends the program with exit code 2, like any other wrong argument."""
    try:
        return [parse_flag(text) for text in options.overrides]
    except ConfigError as error:
        wrong_usage(str(error))


def read_config(options: Namespace, overrides: Overrides, more: Sequence[tuple[str, Any]] = ()) -> Config:
    """The configuration of a conversation begun here; `more` overrides the `-c` flags. Raises `ConfigError`."""
    flags = [*read_overrides(options), *more]
    return load_config(find_home(os.environ), overrides, cli=flags, server_cwd=Path.cwd(), env=os.environ)
