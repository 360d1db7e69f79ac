"""What `doctor` looks at, one finding each. Nothing here changes anything, and no key is ever shown."""

import os
import platform
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import metadata

from understudy import __version__
from understudy.cli.config_findings import examine_configuration
from understudy.cli.finding import Finding
from understudy.cli.model_findings import examine_model
from understudy.cli.sandbox_findings import examine_sandbox
from understudy.cli.store_findings import examine_store
from understudy.config.home import find_home
from understudy.errors import ConfigError


def examine(options: Namespace) -> list[Finding]:
    found = [*_program()]
    try:
        home = find_home(os.environ)
    except ConfigError as error:
        return [*found, Finding("Configuration", "folder", "broken", str(error)), *examine_sandbox(None)]
    config, about_config = examine_configuration(home, options)
    found += about_config
    if config is not None:
        found += examine_model(config, online=options.online)
    found += examine_sandbox(config)
    try:
        found += examine_store(home, full=options.full)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}; make it yours, or set CODEX_HOME to a folder of your own"
        found.append(Finding("Conversations", "folder", "broken", text))
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
