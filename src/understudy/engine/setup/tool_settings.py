"""The part of the configuration that tools use. Made on first use: the model is asked before that."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.models.providers import Provider
from understudy.places.places import Places
from understudy.policy.environment import shell_environment
from understudy.policy.rules import NO_RULES, Rules, Table, parse_rules
from understudy.sandbox.spec import Containment, Limits
from understudy.tools.host import ToolSettings


def tool_settings(config: Config, provider: Provider, env: Mapping[str, str]) -> ToolSettings:
    """Raises `ConfigError` for rules that cannot be read."""
    sandbox = config.sandbox
    roots = tuple(str(root) for root in dict.fromkeys((config.cwd, *sandbox.writable_roots)))
    key_variables = [name for name in (provider.env_key, *provider.env_http_headers.values()) if name]
    containment, mode = None, "read-only" if config.plans else sandbox.mode
    if mode != "danger-full-access":
        containment = Containment(
            mode=mode,
            writable_roots=roots if mode == "workspace-write" else (),
            network="off" if config.plans and sandbox.mode == "danger-full-access" else sandbox.network,
            unix_sockets=sandbox.unix_sockets and not config.plans,
            masked=tuple(str(path) for path in sandbox.mask),
            protected=sandbox.protect,
            kept=sandbox.kept,
            private_tmp="",  # each conversation has its own
            limits=_limits(config),
            workspace=str(config.cwd),
        )
    home = os.path.expanduser("~")
    return ToolSettings(
        cwd=str(config.cwd),
        approval_policy=config.approval_policy,
        sandbox_mode=mode,
        plans=config.plans,
        containment=containment,
        roots=roots,
        environment=shell_environment(config.shell_environment, env, provider_keys=key_variables),
        rules=_rules(config.policy_rules, config.home, home),
        protected=sandbox.protect,
        places=places_of(config),  # each conversation has its own
        home=home,
        default_timeout=float(config.command_seconds),
        output_tokens=config.tool_output_token_limit,
        most_sessions=config.command_sessions,
        idle_seconds=float(config.command_idle_seconds),
        state=str(config.state_dir),
    )


def of_conversation(settings: ToolSettings, places: Places, private_tmp: Path) -> ToolSettings:
    containment = settings.containment
    if containment is not None:
        containment = replace(containment, private_tmp=str(private_tmp), pinned=places.pinned, masked=places.masks.paths)
    roots = tuple(dict.fromkeys((*settings.roots, *places.roots)))  # as the user spells them, and as real paths
    return msgspec.structs.replace(settings, containment=containment, places=places, roots=roots)


def keeping(made: Callable[[], ToolSettings], paths: Iterable[str]) -> ToolSettings:
    """The settings with these paths protected as well."""
    settings = made()
    protected = tuple(dict.fromkeys((*settings.protected, *sorted(paths))))
    containment = None if settings.containment is None else replace(settings.containment, protected=protected)
    places = settings.places.with_protected(protected)
    return msgspec.structs.replace(settings, protected=protected, containment=containment, places=places)


def _rules(tables: Sequence[Table], config_home: Path, home: str) -> Rules:
    return parse_rules(tables, source=str(config_home / "config.toml"), home=home) if tables else NO_RULES


def _limits(config: Config) -> Limits:
    """The user's limits override the sandbox's own."""
    given = config.sandbox.limits
    chosen = {name: getattr(given, name) for name in given.__struct_fields__}
    return replace(Limits(), **{name: value for name, value in chosen.items() if value is not None})
