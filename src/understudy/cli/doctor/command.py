"""`understudy doctor`: what works here, what does not, and what to do about it.

Changes nothing, and never shows a key.
"""

import json
import os
import platform
import shutil
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from rich.text import Text

from understudy import __version__
from understudy.cli.doctor.config_findings import Finding, examine_configuration, examine_model
from understudy.cli.doctor.file_findings import run_files
from understudy.cli.doctor.machine_findings import examine_install, examine_sandbox, examine_store
from understudy.cli.ending import ending_tidily
from understudy.cli.tell.terminal import Flow, one_line, open_console
from understudy.config.home import find_home
from understudy.errors import ConfigError

# What each extra installs, as in pyproject.toml.
EXTRAS = {
    "chat": "prompt_toolkit",
    "http": "uvicorn",
    "images": "PIL",
    "keyring": "keyring",
    "mcp": "mcp",
    "oauth": "joserfc",
    "postgres": "psycopg",
    "telemetry": "opentelemetry",
}


def examine(options: Namespace) -> list[Finding]:
    found = [*_program()]
    try:
        home = find_home(os.environ)
    except ConfigError as error:
        return [*found, Finding("Configuration", "folder", "broken", str(error)), *examine_sandbox(None)]
    found += examine_install(home)
    config, about_config = examine_configuration(home, options)
    found += about_config
    if config is not None:
        found += examine_model(config, online=options.online)
    found += examine_sandbox(config)
    try:
        found += examine_store(home, full=options.full)
    except ConfigError as error:  # only the configuration says where conversations are kept
        said = any(finding.level == "broken" for finding in about_config)
        text = "not looked at: where it is stands in the configuration, which is broken" if said else str(error)
        found.append(Finding("Conversations", "store", "info" if said else "broken", text))
    except OSError as error:
        text = f"{error.filename}: {error.strerror}; make it yours, or set CODEX_HOME to a folder of your own"
        found.append(Finding("Conversations", "folder", "broken", text))
    return found


def _program() -> Iterator[Finding]:
    section = "Program"
    yield Finding(section, "understudy", "ok", f"{__version__}, Python {platform.python_version()} ({sys.executable})")
    yield from _strangers(section)
    yield Finding(section, "system", "ok" if sys.platform == "linux" else "warning", _system())
    try:
        yield Finding(section, "uvloop", "ok", metadata.version("uvloop"))
    except metadata.PackageNotFoundError:
        yield Finding(section, "uvloop", "warning", "not installed; the server works without it, a little slower")
    yield Finding(section, "SQLite", "ok", sqlite3.sqlite_version)
    yield from _tools(section)


def _strangers(section: str) -> Iterator[Finding]:
    """PyPI's package `understudy` has a command and a module with our name; the one installed last has overwritten the other."""
    for found in metadata.distributions(name="understudy"):
        text = (
            f"the package `understudy` {one_line(found.version)} is installed beside this one, `understudy-codex`. It is somebody"
            " else's, or an old one of ours, and each overwrites files of the other:"
            " uninstall both, then install `understudy-codex` again"
        )
        yield Finding(section, "package", "warning", text)


def _tools(section: str) -> Iterator[Finding]:
    """Optional programs, and what each is for."""
    there = [name for name, module in EXTRAS.items() if find_spec(module) is not None]
    lacking = [name for name in EXTRAS if name not in there]
    words = f"installed: {', '.join(there) or 'none'}" + (f"; not installed: {', '.join(lacking)}" if lacking else "")
    yield Finding(section, "extras", "info", words)
    git = shutil.which("git")
    if git is None:
        yield Finding(section, "git", "info", "not installed; `review` needs it")
    else:
        yield Finding(section, "git", "ok", one_line(git))


def _system() -> str:
    told = f"{platform.system()} {platform.release()} {platform.machine()}"
    return told if sys.platform == "linux" else f"{told}; proven on Linux only"


def run(options: Namespace) -> int:
    if options.files:
        return run_files(options)
    with ending_tidily():  # it uses a temporary folder
        findings = examine(options)
    broken = any(finding.level == "broken" for finding in findings)
    if options.json:
        print(json.dumps({"ok": not broken, "findings": [finding.as_json() for finding in findings]}, indent=2))
    else:
        _print(findings)
    return 1 if broken else 0


def _print(findings: list[Finding]) -> None:
    console = open_console()
    marks = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "broken": ("✗", "bold red"), "info": ("·", "dim")}
    section = ""
    for finding in findings:
        if finding.section != section:
            if section:
                console.print()
            section = finding.section
            console.print(Text(section, "bold"))
        mark, style = marks[finding.level]
        flow = Flow(console, first=f"  {mark} ", indent="    ", first_style=style)
        flow.whole(f"{finding.name}: {one_line(finding.text)}")
        for line in finding.details:
            more = Flow(console, first="      ", indent="      ", style="dim")
            more.whole(one_line(line))
    counts = {level: sum(finding.level == level for finding in findings) for level in ("broken", "warning")}
    console.print()
    if counts["broken"]:
        console.print(Text(f"{counts['broken']} broken, {counts['warning']} to look at", "bold red"))
    elif counts["warning"]:
        console.print(Text(f"All works; {counts['warning']} to look at", "bold yellow"))
    else:
        console.print(Text("All works.", "bold green"))
