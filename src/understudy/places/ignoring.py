"""Which files a search leaves out: what `.gitignore`, `.ignore` and `.rgignore` name, by the rules of git and ripgrep.

`.gitignore` and `.git/info/exclude` count inside a repository only, and the user's global file does not: it lies in their home.
Lean: a process of its own searches files with this.
"""

import re
from collections.abc import Callable

from understudy.places.patterns import BadPattern, path_pattern

MOST_BYTES = 256 * 1024  # of one file of rules
FILES = (".rgignore", ".ignore", ".gitignore")  # the first one with an opinion counts
EXCLUDE = ".git/info/exclude"

ReadFile = Callable[[str], bytes | None]  # a file below the folder, by its name

_PLAIN = re.compile(r"[^*?\[\\/]+")
_SUFFIX = re.compile(r"\*\.([^*?\[\\/.]+)")


class IgnoreRules:
    """Of one file. The last rule that fits decides; most are found by a name or by an ending."""

    def __init__(self, text: str) -> None:
        self._names: dict[str, list[int]] = {}
        self._endings: dict[str, list[int]] = {}
        self._others: list[tuple[int, re.Pattern[str]]] = []
        self._rules: list[tuple[bool, bool]] = []  # leaves out (rather than takes back in), and holds for folders only
        for line in text.split("\n"):
            self._add(line)
        self._others.reverse()

    def _add(self, line: str) -> None:
        line = _without_blanks(line.removesuffix("\r"))
        if not line or line.startswith("#"):
            return
        leaves_out = not line.startswith("!")
        pattern = line if leaves_out else line[1:]
        folders_only = pattern.endswith("/")
        index = len(self._rules)
        plain = pattern.rstrip("/") if folders_only else pattern
        if _PLAIN.fullmatch(plain):
            self._names.setdefault(plain, []).append(index)
        elif ending := _SUFFIX.fullmatch(plain):
            self._endings.setdefault(ending[1], []).append(index)
        else:
            try:
                self._others.append((index, path_pattern(plain)))
            except BadPattern:
                return
        self._rules.append((leaves_out, folders_only))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def leave_out(self, path: str, name: str, is_folder: bool) -> bool | None:
        """What they say of a path below their folder; None: nothing."""
        known = [*self._names.get(name, ()), *self._endings.get(name.rpartition(".")[2] if "." in name else "/", ())]
        best = max((index for index in known if is_folder or not self._rules[index][1]), default=-1)
        for index, pattern in self._others:
            if index < best:
                break
            if (is_folder or not self._rules[index][1]) and pattern.match(path):
                best = index
                break
        return None if best < 0 else self._rules[best][0]


def _without_blanks(line: str) -> str:
    """Those at its end, up to one that is escaped. Not by a pattern: it would go through blanks before other text once for each."""
    kept = line.rstrip(" ")
    return f"{kept} " if kept.endswith("\\") and kept != line else kept


class Ignoring:
    """What holds in one folder: its own files of rules, and those of the folders above."""

    def __init__(self, path: str, above: "Ignoring | None", names: frozenset[str], read: ReadFile, below: str = "") -> None:
        """`path`: of the folder, relative to where the walk began; `names`: what is in it.

        `below`: of a folder above the start, the way from it to the start.
        """
        self._above = above
        self._offset = len(path) + 1 if path else 0
        self._below = below
        begins_repository = ".git" in names
        self._in_repository = begins_repository or (above is not None and above._in_repository)
        wanted = [name for name in FILES if name in names and (name != ".gitignore" or self._in_repository)]
        self._own = {name: rules for name in wanted if (rules := _read_rules(read, name))}
        self._exclude = (_read_rules(read, EXCLUDE) or None) if begins_repository else None
        self._ends_repository = begins_repository

    def leaves_out(self, path: str, name: str, is_folder: bool) -> bool:
        for kind in FILES:
            said = self._by(kind, path, name, is_folder)
            if said is not None:
                return said
        return self._excluded(path, name, is_folder)

    def _by(self, kind: str, path: str, name: str, is_folder: bool) -> bool | None:
        each: Ignoring | None = self
        while each is not None:
            rules = each._own.get(kind)
            if rules is not None and (said := rules.leave_out(each._below + path[each._offset :], name, is_folder)) is not None:
                return said
            if kind == ".gitignore" and each._ends_repository:
                return None
            each = each._above
        return None

    def _excluded(self, path: str, name: str, is_folder: bool) -> bool:
        each: Ignoring | None = self
        while each is not None and not each._ends_repository:
            each = each._above
        if each is None or each._exclude is None:
            return False
        return bool(each._exclude.leave_out(each._below + path[each._offset :], name, is_folder))


def _read_rules(read: ReadFile, name: str) -> IgnoreRules:
    text = (read(name) or b"").removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return IgnoreRules(text)
