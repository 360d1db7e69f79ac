"""Wildcards for paths as `.gitignore` has them, made into regular expressions whose time grows with the path alone.

`*`, `?` and `[a-z]` stay within one name, `**` crosses folders. Patterns come from models and repositories, so none of them may
be slow: what a wildcard skips is an atomic group, because a later wildcard makes an earlier one's choice irrelevant.
Lean: a process of its own searches files with this.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

MOST_ALTERNATIVES = 64
LONGEST = 4096


class BadPattern(ValueError):
    """With a reason for whoever wrote it."""


@lru_cache(maxsize=4096)
def path_pattern(pattern: str) -> re.Pattern[str]:
    """Matches whole relative paths without a leading slash. A pattern without a slash (but at its end) fits at any depth."""
    if len(pattern) > LONGEST:
        raise BadPattern(f"it is longer than {LONGEST} characters")
    anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.split("/") if name]
    if not names:
        return _NOTHING
    return re.compile(_path(names if anchored else ["**", *names]), re.DOTALL)


def _path(names: list[str]) -> str:
    """Runs of names between `**`, each found at the first place where it fits; the last one at the end of the path."""
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
    parts = [""]  # what stands between the stars
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
    """Regular expressions for one character each, or `*` for any number of them."""
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
    """Where the class that begins here ends; 0: nowhere, so the bracket is a plain character."""
    at = start + (name[start : start + 1] in ("!", "^"))
    at += name[at : at + 1] == "]"  # the first one stands for itself
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
    """The pattern without braces: `*.{c,h}` is two. Raises `BadPattern` for more than anyone could mean."""
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
    """What a caller wants of the files below a folder: paths relative to it. An `!` in front leaves out what fits."""

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
