"""The modules that a start needs, compiled, in one file: this cuts the time to the first result to 0.82.

Contains compiled regular expressions, too, because compiling them took a quarter of all calls up to the first result.

Python looks for each module in several folders and opens it; here one read loads a whole group. The bundle is stored beside the
compiled files of this package and trusted like them. It stays equally fresh: a module is taken from it only while its source has
the same time and size. Without a valid bundle, modules are imported as usual; `bundle_writing.py` makes a new one.
"""

import marshal
import os
import stat
import sys
from binascii import crc32
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

ALREADY_LOADED = frozenset(sys.modules)  # modules loaded before any bundle could be used
FIRST_PATH = tuple(sys.path)
EXTENSION = -1  # instead of a group: a module in machine code, of which only the path is known
MAGIC = b"understudy bundle 4\n"
_HEAD = 12  # bytes: the table's length and checksum

Group = tuple[int, int, int]  # its start, length and checksum
Entry = tuple[str, bool, str, int, int, int]  # file, whether it is a package, compiled file, time and size of the file, group
Compiled = tuple["Any", ...]  # what Python's compiler of regular expressions passes to `_sre.compile`
PatternEntry = tuple[str | bytes, int, Compiled]  # the expression and its flags
Table = tuple[tuple[str, ...], tuple[tuple[str, int], ...], tuple[Group, ...], dict[str, Entry]]


class Bundle:
    """Finds modules like Python's `PathFinder`, before it: skips built-in modules, because another finder would cost eight
    calls."""

    def __init__(self, file: int, start: int, table: Table) -> None:
        self._file = file
        self._start = start
        self._path = list(table[0][1:])
        self._groups = table[2]
        self._entries = table[3]
        self._codes: dict[str, CodeType] = {}
        self._patterns: list[PatternEntry] = []  # of the groups that were read; None once `re` has them

    def find_spec(self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None) -> ModuleSpec | None:
        entry = self._entries.get(name)
        if entry is None or sys.path != self._path:  # the path changed: commands may write to a folder
            return None
        source, is_package, compiled, time, size, group = entry
        try:
            found = os.stat(source)
        except OSError:
            return None
        if int(found.st_mtime) != time or found.st_size != size:
            return None
        loader = ExtensionFileLoader(name, source) if group == EXTENSION else _Loader(name, source, self)
        spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location = True
        if group != EXTENSION:
            spec.cached = compiled
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(source))
        return spec

    def take_code(self, name: str) -> "CodeType | None":
        """The code of a module. Each can be taken only once."""
        if name not in self._codes and name in self._entries:
            self._read_group(self._entries[name][5])
        if self._patterns:
            self._know_patterns()
        self._entries.pop(name, None)
        return self._codes.pop(name, None)

    def _read_group(self, number: int) -> None:
        at, length, checksum = self._groups[number]
        try:
            data = os.pread(self._file, length, self._start + at)
        except OSError:
            return
        if crc32(data) == checksum:
            codes, patterns = marshal.loads(data)
            self._codes |= codes
            self._patterns += patterns
        else:
            _remove_damaged()

    def _know_patterns(self) -> None:
        """Put them into `re`'s cache, as if this process had compiled them."""
        known: dict[object, object] | None = getattr(sys.modules.get("re"), "_cache", None)
        machine = sys.modules.get("_sre")
        if known is None or machine is None:
            return
        patterns, self._patterns = self._patterns, []
        for pattern, flags, compiled in patterns:
            try:
                known[type(pattern), pattern, flags] = machine.compile(*compiled)
            except (TypeError, RuntimeError):  # they are for another version of `re`
                return


class _Loader(SourceFileLoader):
    """Python's own, except for the code."""

    def __init__(self, name: str, source: str, bundle: Bundle) -> None:
        self.name, self.path = name, source
        self._bundle = bundle

    def exec_module(self, module: "ModuleType") -> None:
        code = self._bundle.take_code(self.name)
        if code is None:
            super().exec_module(module)
        else:
            exec(code, module.__dict__)

    def get_code(self, fullname: str) -> "CodeType | None":
        code = self._bundle.take_code(fullname)
        return super().get_code(fullname) if code is None else code


def use_bundle() -> bool:
    """Load modules from the bundle from here on. False if there is no valid bundle."""
    place = bundle_place()
    if place is None:
        return False
    try:
        file = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    bundle = _open(file) if file > 2 else None  # a standard stream is closed: the server says so, and must not take this for it
    if bundle is None:
        os.close(file)
        return False
    own = BuiltinImporter if BuiltinImporter in sys.meta_path else PathFinder
    sys.meta_path.insert(sys.meta_path.index(own), bundle)
    return True


def _remove_damaged() -> None:
    """This process then uses the ordinary compiled files, and the next server makes a new bundle."""
    try:
        os.unlink(bundle_place() or "")
    except OSError:
        return


def bundle_place() -> str | None:
    """None if there can be no bundle."""
    compiled: str | None = globals().get("__cached__")
    if compiled is None or PathFinder not in sys.meta_path:
        return None
    environment = crc32(sys.prefix.encode("utf-8", "surrogateescape"))  # several environments may share this package
    return os.path.join(os.path.dirname(compiled), f"start.{sys.implementation.cache_tag}.{environment:08x}.bundle")


def interpreter_key() -> tuple[str, ...]:
    """Changes with the interpreter and with the search path, so that other bundles do not match."""
    return (f"{sys.version} {sys.flags.optimize}", *sys.path)


def folder_time(folder: str) -> int:
    """Changes when a file is added or removed, because a name may then mean another module."""
    try:
        return int(os.stat(folder).st_mtime)
    except OSError:
        return -1


def _open(file: int) -> Bundle | None:
    try:
        found = os.fstat(file)
        start = os.pread(file, len(MAGIC) + _HEAD, 0)
        length = int.from_bytes(start[-_HEAD:-4], "little")
        if not (_is_ours(found) and start.startswith(MAGIC) and length < found.st_size):
            return None
        head = os.pread(file, length, len(start))
        if crc32(head) != int.from_bytes(start[-4:], "little"):
            return None
        table: Table = marshal.loads(head)
        fits = table[0] == interpreter_key() and all(folder_time(folder) == time for folder, time in table[1])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return Bundle(file, len(start) + length, table) if fits else None


def _is_ours(found: os.stat_result) -> bool:
    """Whether only someone who could also change our source can have written it."""
    owners = (0, os.geteuid(), os.stat(__file__).st_uid)
    return stat.S_ISREG(found.st_mode) and found.st_uid in owners and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
