"""What `doctor` looks at, one finding each. Nothing here changes anything, and no key is ever shown."""

import os
import platform
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from understudy import __version__
from understudy.cli.settings import read_overrides
from understudy.cli.store_findings import examine_store
from understudy.config.home import find_home, state_dir
from understudy.config.load import load_config
from understudy.config.model import Config
from understudy.errors import ConfigError, ModelError, SandboxError
from understudy.models.auth import Credentials
from understudy.models.providers import SCRIPTED, Provider, find_provider
from understudy.policy.rules import parse_rules
from understudy.protocol.records import Overrides
from understudy.sandbox.probe import choose, describe_rungs, forced_rung

Level = Literal["ok", "info", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    section: str
    name: str
    level: Level
    text: str
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"section": self.section, "name": self.name, "level": self.level, "text": self.text}
        return {**told, "details": list(self.details)} if self.details else told


def examine(options: Namespace) -> list[Finding]:
    found = [*_program()]
    try:
        home = find_home(os.environ)
    except ConfigError as error:
        return [*found, Finding("Configuration", "folder", "broken", str(error)), *_sandbox(None)]
    config, about_config = _configuration(home, options)
    found += about_config
    if config is not None:
        found += _model(config)
    found += _sandbox(config)
    found += [Finding("Conversations", name, level, text, details) for name, level, text, details in examine_store(state_dir(home))]
    return found


def _program() -> Iterator[Finding]:
    section = "Program"
    yield Finding(section, "understudy", "ok", f"{__version__}, Python {platform.python_version()} ({sys.executable})")
    yield Finding(section, "system", "ok" if sys.platform == "linux" else "warning", _system())
    try:
        yield Finding(section, "uvloop", "ok", metadata.version("uvloop"))
    except metadata.PackageNotFoundError:
        yield Finding(section, "uvloop", "warning", "not installed; the server works without it, a little slower")
    yield Finding(section, "SQLite", "ok", sqlite3.sqlite_version)


def _system() -> str:
    told = f"{platform.system()} {platform.release()} {platform.machine()}"
    return told if sys.platform == "linux" else f"{told}; proven on Linux only"


# -- configuration


def _configuration(home: Path, options: Namespace) -> tuple[Config | None, list[Finding]]:
    section = "Configuration"
    path = home / "config.toml"
    found = [
        Finding(section, "file", "ok" if path.exists() else "info", f"{path}{'' if path.exists() else ', which is not there'}")
    ]
    flags = read_overrides(options)
    try:
        config = load_config(home, Overrides(), cli=flags, server_cwd=Path.cwd(), env=os.environ)
    except ConfigError as error:
        first, *rest = str(error).split("\n")
        return _without_model(home, flags), [*found, Finding(section, "settings", "broken", first, tuple(rest))]
    found.append(
        Finding(section, "settings", "ok", f"approval {config.approval_policy}, sandbox {config.sandbox.mode} for {config.cwd}")
    )
    found += [Finding(section, "settings", "warning", warning) for warning in config.warnings]
    found += _rules(config, str(path))
    found += _auth_file(home)
    return config, found


def _without_model(home: Path, flags: list[tuple[str, Any]]) -> Config | None:
    """So that a missing model does not hide the rest."""
    try:
        return load_config(home, Overrides(model="none"), cli=flags, server_cwd=Path.cwd(), env=os.environ)
    except ConfigError:
        return None


def _rules(config: Config, source: str) -> Iterator[Finding]:
    try:
        parse_rules(config.policy_rules, source=source, home=os.path.expanduser("~"))
    except ConfigError as error:
        yield Finding("Configuration", "rules", "broken", str(error))
    else:
        if config.policy_rules:
            yield Finding("Configuration", "rules", "ok", f"{len(config.policy_rules)} in [[policy.rules]]")


def _auth_file(home: Path) -> Iterator[Finding]:
    try:
        mode = (home / "auth.json").stat().st_mode & 0o777
    except OSError:
        return
    if mode & 0o077:
        text = f"{home / 'auth.json'} holds credentials and can be read by others (mode {mode:o}): chmod 600 it"
        yield Finding("Configuration", "auth.json", "warning", text)


def _model(config: Config) -> Iterator[Finding]:
    section = "Model"
    if config.model != "none":
        yield Finding(section, "model", "ok", config.model)
    try:
        provider = find_provider(config.model_provider, config.provider_tables, os.environ)
    except ConfigError as error:
        yield Finding(section, "provider", "broken", str(error))
        return
    if provider.id == SCRIPTED:
        script = config.scripted_model or "its built-in script"
        yield Finding(section, "provider", "ok", f"scripted: plays {script}, no key needed")
        return
    yield Finding(section, "provider", "ok", f"{provider.name} at {_address(provider)}, {provider.wire_api} wire")
    try:
        key = Credentials(os.environ, config.home).key_for(provider)
    except ModelError as error:
        yield Finding(section, "key", "broken", str(error))
    else:
        yield Finding(section, "key", "ok", "present" if key is not None else "none needed")


def _address(provider: Provider) -> str:
    """Without user, password and query, which may be secrets."""
    from urllib.parse import urlsplit

    parts = urlsplit(provider.base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


# -- the sandbox


def _sandbox(config: Config | None) -> Iterator[Finding]:
    section = "Sandbox"
    rungs = describe_rungs()
    try:
        used = choose(rungs, forced_rung())
    except SandboxError as error:
        yield Finding(section, "used", "broken", str(error))
        used = None
    for rung in rungs:
        if rung is used:
            yield Finding(section, rung.name, "ok" if not rung.weaker else "warning", "works, and is used", rung.weaker)
        elif rung.available:
            yield Finding(section, rung.name, "info", "works, and is not needed")
        else:
            wanted = used is None or rungs.index(rung) < rungs.index(used)
            details = (f"to have it: {rung.install}",) if wanted else ()
            yield Finding(section, rung.name, "info", rung.reason, details)
    if not rungs:
        yield Finding(section, "used", "broken", "there is none for this system, so commands run only in danger-full-access")
    if config is not None and config.sandbox.mode == "danger-full-access":
        yield Finding(section, "mode", "warning", "danger-full-access is configured: commands are not contained at all")
    if forced := forced_rung():
        yield Finding(section, "forced", "info", f"UNDERSTUDY_SANDBOX_RUNG={forced}")
