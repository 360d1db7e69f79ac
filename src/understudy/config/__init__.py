"""config.toml, profiles and overrides become one frozen `Config`; AGENTS.md and the environment become text for the model."""

from understudy.config.docs import environment_context, user_instructions, user_instructions_message
from understudy.config.home import find_home, state_dir
from understudy.config.instructions import instructions_for
from understudy.config.load import load_config
from understudy.config.model import Config, Limits, SandboxSettings, ShellEnvironment
from understudy.config.overrides import parse_flag

__all__ = [
    "Config",
    "Limits",
    "SandboxSettings",
    "ShellEnvironment",
    "environment_context",
    "find_home",
    "instructions_for",
    "load_config",
    "parse_flag",
    "state_dir",
    "user_instructions",
    "user_instructions_message",
]
