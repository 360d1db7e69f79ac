"""What `doctor` finds out about this install: other programs of our name that a shell may start, and what uninstalling leaves."""

import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from understudy import __version__
from understudy.cli.doctor.config_findings import Finding
from understudy.cli.tell.terminal import one_line
from understudy.config.home import state_dir

SECTION = "Program"
PACKAGE = "understudy-codex"
COMMANDS = ("understudy", "understudy-codex")


def examine_install(home: Path) -> Iterator[Finding]:
    yield from _half_upgraded()
    yield from _elsewhere()
    yield _what_is_left(home)


def _half_upgraded() -> Iterator[Finding]:
    """pip that is stopped between two versions leaves the files of one and the name of the other."""
    try:
        said = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return  # run from a folder of sources
    if said != __version__:
        text = f"the files are of version {__version__}, and the package says {one_line(said)}: install it again"
        yield Finding(SECTION, "package", "warning", text)


def _elsewhere() -> Iterator[Finding]:
    """Nothing is run: a program may be anybody's. What was installed beside it tells whose it is."""
    ours = os.path.realpath(sys.prefix)
    seen = {ours}
    for program in _programs():
        environment = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        if environment in seen:
            continue
        seen.add(environment)
        version = _version_in(Path(environment))
        where = one_line(str(program))
        if version is None:
            text = f"{where} is not of the package `{PACKAGE}`, and answers to the same name: start this one as {_this_one()}"
            yield Finding(SECTION, "another program", "warning", text)
        elif _number(version) > _number(__version__):
            text = f"{where} is newer: {one_line(version)}, and this is {__version__}. Use that one, and uninstall this one"
            yield Finding(SECTION, "another version", "warning", text)
        else:
            yield Finding(SECTION, "another version", "info", f"{where} is version {one_line(version)}")


def _programs() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in COMMANDS:
            program = Path(folder or ".", name)
            if os.path.isfile(program) and os.access(program, os.X_OK):
                yield program


def _version_in(environment: Path) -> str | None:
    found = sorted(environment.glob("lib/python3*/site-packages/understudy_codex-*.dist-info"))
    return found[-1].name.removesuffix(".dist-info").partition("-")[2] if found else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _this_one() -> str:
    return one_line(os.path.join(sys.prefix, "bin", COMMANDS[1]))


def _what_is_left(home: Path) -> Finding:
    """Removing a package never removes what a person made with it."""
    kept = [path for path in (state_dir(home), home / "config.toml", home / "auth.json") if path.exists()]
    if not kept:
        return Finding(SECTION, "uninstalling", "info", "leaves nothing: there are no conversations and no configuration yet")
    named = ", ".join(one_line(str(path)) for path in kept)
    text = f"leaves {named}: conversations, tokens and keys are there until you remove them (`understudy backup FILE` keeps a copy)"
    return Finding(SECTION, "uninstalling", "info", text)
