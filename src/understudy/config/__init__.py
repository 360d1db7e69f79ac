"""config.toml, profiles and overrides become one frozen `Config`."""

from understudy.config.home import find_home, state_dir
from understudy.config.load import load_config
from understudy.config.model import Config, Limits, SandboxSettings, ShellEnvironment
from understudy.config.overrides import parse_flag

__all__ = [
    "Config",
    "Limits",
    "SandboxSettings",
    "ShellEnvironment",
    "find_home",
    "load_config",
    "parse_flag",
    "state_dir",
]
