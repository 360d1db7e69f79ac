"""Which files a search leaves out, according to `.gitignore`, `.ignore` and `.rgignore`.

Wildcards become regular expressions whose time grows only with the length of the path.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

MOST_ALTERNATIVES = 64
LONGEST = 4096


class BadPattern(ValueError):
    """The text tells the pattern's author why."""


@lru_cache(maxsize=4096)
def path_pattern(pattern: str) -> re.Pattern[str]:
    """Matches whole relative paths without a leading slash. A pattern without a slash, except at its end, matches at any depth."""
    if len(pattern) > LONGEST:
        raise BadPattern(f"it is longer than {LONGEST} characters")
    anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.split("/") if name]
    if not names:
        return _NOTHING
    return re.compile(_path(names if anchored else ["**", *names]), re.DOTALL)


def _path(names: list[str]) -> str:
    """Match the runs of names between `**`, each at the first place where it fits; the last one at the end of the path."""
    runs: list[list[str]] = [[]]
    for name in names:
        if name != "**":
            runs[-1].append(_name(name))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    first, *later = runs
    if not later:
        return "/".join(first) + r"\Z"
    text = "".join(name + "/" for name in first)
    for run in later[:-1]:
        text += "(?>(?:[^/]+/)*?" + "".join(name + "/" for name in run) + ")"
    last = later[-1]
    return text + (r"(?:[^/]+/)*" + "/".join(last) + r"\Z" if last else r".+\Z")


def _name(name: str) -> str:
    parts = [""]  # the texts between the stars
    for token in _tokens(name):
        if token == "*":
            if len(parts) == 1 or parts[-1]:
                parts.append("")
        else:
            parts[-1] += token
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1])
    return f"{parts[0]}{middle}[^/]*{parts[-1]}"


def _tokens(name: str) -> Iterator[str]:
    """Regular expressions for one character each, or `*` for any number of characters."""
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "\\" and at < len(name):
            yield re.escape(name[at])
            at += 1
        elif character == "*":
            yield "*"
        elif character == "?":
            yield "[^/]"
        elif character == "[" and (end := _class_end(name, at)) > 0:
            yield _class(name[at:end])
            at = end + 1
        else:
            yield re.escape(character)


def _class_end(name: str, start: int) -> int:
    """The end of the character class that begins here; 0: it has none, so the bracket is a plain character."""
    at = start + (name[start : start + 1] in ("!", "^"))
    at += name[at : at + 1] == "]"  # as the first character, it stands for itself
    while at < len(name):
        if name[at] == "\\":
            at += 1
        elif name[at] == "]":
            return at
        at += 1
    return 0


def _class(inner: str) -> str:
    negated = inner[0] in "!^"
    plain = re.sub(r"\\(.)", "\\1", inner[negated:], flags=re.DOTALL)
    ranges: list[str] = []
    at = 0
    while at < len(plain):
        low = high = plain[at]
        if plain[at + 1 : at + 2] == "-" and at + 2 < len(plain):
            high = plain[at + 2]
            at += 2
        at += 1
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if negated:
        return f"[^/{''.join(ranges)}]"
    return f"(?:(?!/)[{''.join(ranges)}])" if ranges else "(?!)"


def alternatives(pattern: str) -> list[str]:
    """Expand braces: `*.{c,h}` gives two patterns. Raises `BadPattern` if there are unreasonably many."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        found = _innermost_braces(one)
        if found is None:
            done.append(one)
        else:
            start, end = found
            waiting += [one[:start] + choice + one[end + 1 :] for choice in one[start + 1 : end].split(",")]
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise BadPattern(f"its braces make more than {MOST_ALTERNATIVES} patterns")
    return sorted(set(done))


def _innermost_braces(pattern: str) -> tuple[int, int] | None:
    start = -1
    at = 0
    while at < len(pattern):
        match pattern[at]:
            case "\\":
                at += 1
            case "{":
                start = at
            case "}" if start >= 0:
                return start, at
            case _:
                pass
        at += 1
    return None


_NOTHING = re.compile(r"(?!)")


class Glob:
    """A caller's choice of files below a folder, by relative path. A leading `!` leaves out what matches."""

    def __init__(self, glob: str | None) -> None:
        """Raises `BadPattern`."""
        self.excludes = bool(glob) and str(glob).startswith("!")
        plain = (glob or "").removeprefix("!")
        spelled = alternatives(plain + "**" if plain.endswith("/") else plain) if plain else []
        self._patterns = [path_pattern(_from_here(one)) for one in spelled]
        self.names_hidden = not self.excludes and any(name[:1] == "." for one in spelled for name in one.split("/") if name != ".")

    def fits(self, path: str) -> bool:
        if not self._patterns:
            return True
        return any(pattern.match(path) for pattern in self._patterns) != self.excludes


def _from_here(pattern: str) -> str:
    return "/" + pattern[2:] if pattern.startswith("./") else pattern


MOST_BYTES = 256 * 1024  # of one file of rules
FILES = (".rgignore", ".ignore", ".gitignore")  # the first file with a matching rule decides
EXCLUDE = ".git/info/exclude"

ReadFile = Callable[[str], bytes | None]  # reads a file in the folder, by its name

_PLAIN = re.compile(r"[^*?\[\\/]+")
_SUFFIX = re.compile(r"\*\.([^*?\[\\/.]+)")


class IgnoreRules:
    """The rules of one file. The last match decides; most rules are found by a name or an ending."""

    def __init__(self, text: str) -> None:
        self._names: dict[str, list[int]] = {}
        self._endings: dict[str, list[int]] = {}
        self._others: list[tuple[int, re.Pattern[str]]] = []
        self._rules: list[tuple[bool, bool]] = []  # leaves out (or takes back in); for folders only
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
        """Whether the rules leave out a path below their folder; None: no rule matches."""
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
    """Remove trailing blanks, except an escaped one. A regular expression would rescan blanks in the middle of the text."""
    kept = line.rstrip(" ")
    return f"{kept} " if kept.endswith("\\") and kept != line else kept


class Ignoring:
    """The rules for one folder: from its own files, and from the folders above."""

    def __init__(self, path: str, above: "Ignoring | None", names: frozenset[str], read: ReadFile, below: str = "") -> None:
        """`path`: of the folder, relative to the start of the walk; `names`: what is in it.

        `below`: for a folder above the start, the path from it to the start.
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
