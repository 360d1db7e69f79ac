"""The hooks of a folder, as a conversation that begins there would have them."""

import os
from argparse import Namespace
from pathlib import Path

from understudy.config.home import find_home
from understudy.config.load import load_config
from understudy.config.model import Config
from understudy.engine.hooks.loading import LoadedHooks, load_hooks, untrusted_folders
from understudy.protocol.records import Overrides


def config_of(options: Namespace) -> Config:
    """Raises `ConfigError`."""
    return load_config(find_home(os.environ), Overrides(model="none", cwd=options.cwd), server_cwd=Path.cwd(), env=os.environ)


def hooks_of(config: Config) -> LoadedHooks:
    """Raises `ConfigError`."""
    return load_hooks(config.cwd, config.home, os.environ, config.hooks, untrusted_folders(config.projects))
