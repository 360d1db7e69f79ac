"""Makes the bundle (`bundle.py`) of the modules that this process has imported."""

import marshal
import os
import re
import sys
import time
from binascii import crc32
from collections.abc import Iterable
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from understudy.cli.bundle import (
    ALREADY_LOADED,
    EXTENSION,
    FIRST_PATH,
    MAGIC,
    Compiled,
    Entry,
    Group,
    PatternEntry,
    bundle_place,
    folder_time,
    interpreter_key,
)

_WIRES = ("understudy.models.wires.responses", "understudy.models.wires.chat", "understudy.models.wires.anthropic")
_EXEC = ("understudy.cli.exec.command", "understudy.cli.exec.run", "understudy.cli.exec.json_viewer")
_SERVERS = ("understudy.servers.mcp.stdio", "understudy.servers.app_server.start", "understudy.servers.app_server.dispatcher")
_OTHER_STARTS = (*_WIRES, "understudy.models.prices", *_EXEC, *_SERVERS)
_ANSWERS = "understudy.servers.stdio.start"  # with what this imports first, `initialize` can be answered;
_ANSWERS_EDITORS = ("app_server", "codex_version", "app_server.introduction", "app_server.start", "stdio.stdio_start")
_MOST = 400  # modules: a first turn needs 340, and later ones keep nobody waiting
_TOGETHER = 16  # modules per group: they share names, so there is a tenth less to read
_SETTLED_SECONDS = 2  # a source that was just changed may change again within the same second
_LEFT_SECONDS = 60  # by then, whoever was writing is gone


def write_bundle() -> None:
    """Called after a turn. If it cannot be written, nothing is reported, and the next start is like this one."""
    place = bundle_place()
    unusual = sys.dont_write_bytecode or os.environ.get("PYTHONPATH") or tuple(sys.path) != FIRST_PATH
    if place is None or unusual or not any(wire in sys.modules for wire in _WIRES):
        return
    try:
        if not os.access(os.path.dirname(place), os.W_OK):  # do not spend half a second on what cannot be saved
            return
        made = _make(int(time.time()))
        if made is not None:
            _replace(place, made)
    except Exception:  # any odd module: nobody waits for this or could do anything about it
        return


def _make(now: int) -> bytes | None:
    names = [name for name in sys.modules if name not in ALREADY_LOADED][:_MOST]
    for name in _OTHER_STARTS:
        import_module(name)
    names += [name for name in sys.modules if name.startswith("understudy.") and name not in {*names, *ALREADY_LOADED}][:_MOST]
    codes: dict[str, CodeType] = {}
    found: dict[str, tuple[str, bool, str, int, int]] = {}
    for name in names:
        read = _read(name, sys.modules[name])
        if read is not None:
            code, found[name] = read
            if code is not None:
                codes[name] = code
    grouped = _groups(list(codes))
    number_of = {name: number for number, group in enumerate(grouped) for name in group}
    entries: dict[str, Entry] = {name: (*entry, number_of.get(name, EXTENSION)) for name, entry in found.items()}
    sources = {entry[0] for entry in entries.values()}
    folders = {folder: folder_time(folder) for folder in (*sys.path, *map(os.path.dirname, sources))}
    if max((*folders.values(), *(entry[3] for entry in entries.values()))) > now - _SETTLED_SECONDS:
        return None
    data: list[bytes] = []
    groups: list[Group] = []
    patterns = _patterns(codes)
    for group in grouped:
        together = {name: codes[name] for name in group}
        piece = marshal.dumps((together, [pattern for name in group for pattern in patterns.get(name, ())]))
        groups.append((sum(map(len, data)), len(piece), crc32(piece)))
        data.append(piece)
    table = marshal.dumps((interpreter_key(), tuple(folders.items()), tuple(groups), entries))
    return b"".join((MAGIC, len(table).to_bytes(8, "little"), crc32(table).to_bytes(4, "little"), table, *data))


def _groups(names: list[str]) -> list[list[str]]:
    """Groups of modules to read together: first all that answering `initialize` needs, and no more, because that is the most
    urgent."""
    early = names[: names.index(_ANSWERS) + 1] if _ANSWERS in names else []
    early += [name for name in names if name not in early and name.removeprefix("understudy.servers.") in _ANSWERS_EDITORS]
    later = [name for name in names if name not in early]
    return [early] * bool(early) + [later[first : first + _TOGETHER] for first in range(0, len(later), _TOGETHER)]


def _read(name: str, module: ModuleType) -> tuple[CodeType | None, tuple[str, bool, str, int, int]] | None:
    """What Python itself would load for it, and its path. None if that is neither a compiled file nor machine code."""
    spec = getattr(module, "__spec__", None)  # `typing` puts classes into `sys.modules`
    if spec is None or spec.name != name or spec.origin is None:
        return None
    if isinstance(spec.loader, ExtensionFileLoader):
        found = os.stat(spec.origin)
        return None, (spec.origin, spec.submodule_search_locations is not None, "", int(found.st_mtime), found.st_size)
    if not isinstance(spec.loader, SourceFileLoader) or spec.cached is None or not os.path.isfile(spec.cached):
        return None
    before = os.stat(spec.origin)
    code = SourceFileLoader(name, spec.origin).get_code(name)
    after = os.stat(spec.origin)
    if code is None or (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        return None
    is_package = spec.submodule_search_locations is not None
    return code, (spec.origin, is_package, spec.cached, int(before.st_mtime), before.st_size)


def _patterns(names: Iterable[str]) -> dict[str, list[PatternEntry]]:
    """Regular expressions in modules and their classes. Those compiled later are left out: they may contain a user's secret."""
    known: dict[tuple[type, str | bytes, int], object] = getattr(re, "_cache", {})
    asked = {id(pattern): (text, flags) for (_, text, flags), pattern in known.items() if type(text) in (str, bytes)}
    found: dict[str, list[PatternEntry]] = {}
    for name in names:
        for value in _values(sys.modules[name]):
            text, flags = asked.pop(id(value), ("", 0))
            if text and (compiled := _compile(text, flags)) is not None:
                found.setdefault(name, []).append((text, flags, compiled))
    return found


def _values(module: ModuleType) -> list[object]:
    values = list(vars(module).values())
    return [*values, *(value for each in values if isinstance(each, type) for value in vars(each).values())]


def _compile(text: str | bytes, flags: int) -> Compiled | None:
    """What `re` does itself, except for its last step. None if this version of Python works differently."""
    try:
        parser, compiler, machine = (sys.modules[name] for name in ("re._parser", "re._compiler", "_sre"))
        parsed: Any = parser.parse(text, flags)
        state = parsed.state
        names: list[str | None] = [None] * state.groups
        for name, number in state.groupdict.items():
            names[number] = name
        code = [int(word) for word in compiler._code(parsed, flags)]  # named constants cannot be stored
        compiled: Compiled = (text, flags | state.flags, code, state.groups - 1, state.groupdict, tuple(names))
        return compiled if machine.compile(*compiled) == re.compile(text, flags) else None
    except (KeyError, AttributeError, TypeError, RuntimeError):
        return None


def _replace(place: str, data: bytes) -> None:
    """Replaces the file as a whole. After a crash of the machine half of it may be there; checksums detect that."""
    new = f"{place}.new"
    try:
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if abs(time.time() - os.stat(new, follow_symlinks=False).st_mtime) > _LEFT_SECONDS:  # or the clock was set back since
            os.unlink(new)
        return
    try:
        with open(file, "wb") as writing:
            writing.write(data)
            os.fchmod(file, 0o600 | os.stat(__file__).st_mode & 0o644)  # readable for those who may read our source
        os.replace(new, place)
    except BaseException:
        os.unlink(new)
        raise
