"""The words that every match of a regular expression contains, so that a faster search can look for them first. Pure."""

import re

_FEWEST = 3  # characters of a word that is worth a search
_CLASSES = frozenset("dDwWsSbBAZ")  # escapes that match more than one character, or none
_OPTIONAL = "?*{"
_REPEATED = re.compile(r"\{\d*,?\d*\}")
_GROUPS = (":", "=", "!", "<=", "<!", "P<", "P=", ">", "#")  # after `(?`; anything else there changes the meaning of the rest


def needed_words(pattern: str) -> tuple[str, ...]:
    """One word per alternative: every matching line contains at least one of them. Empty if that is not known.

    The pattern must be valid for Python.
    """
    try:
        words = [max(runs, key=len, default="") for runs in _alternatives(pattern)]
    except _Unclear:
        return ()
    return tuple(words) if all(len(word) >= _FEWEST for word in words) else ()


class _Unclear(Exception):
    """A part that we do not analyse."""


def _alternatives(pattern: str) -> list[list[str]]:
    """For each alternative, the runs of characters that must occur literally."""
    found: list[list[str]] = [[]]
    run = ""

    def end_run() -> None:
        nonlocal run
        found[-1].append(run)
        run = ""

    at = 0
    while at < len(pattern):
        character = pattern[at]
        literal = ""
        match character:
            case "|":
                end_run()
                found.append([])
                at += 1
            case "(":
                at = _after_group(pattern, at)
            case "[":
                at = _after_class(pattern, at)
            case "\\":
                literal = _escaped(pattern, at)
                at += 2
            case "{":
                repeated = _REPEATED.match(pattern, at)
                at = repeated.end() if repeated else at + 1
            case "." | "^" | "$" | "*" | "+" | "?" | "}" | "]" | ")":
                at += 1
            case _:
                if character in "\r\n\ufffd":
                    raise _Unclear
                literal = character
                at += 1
        follows = pattern[at : at + 1]
        if literal and not (follows and follows in _OPTIONAL):
            run += literal
        if not literal or (follows and follows in _OPTIONAL + "+"):
            end_run()
    end_run()
    return found


def _escaped(pattern: str, at: int) -> str:
    """The character that an escape matches, or "" if it matches several."""
    escaped = pattern[at + 1 : at + 2]
    if escaped in _CLASSES:
        return ""
    if not escaped or escaped.isalnum() or escaped in "\r\n\ufffd":
        raise _Unclear  # `\n`, `\x41`, `\1`
    return escaped


def _after_class(pattern: str, at: int) -> int:
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    if pattern[at : at + 1] == "]":
        at += 1
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
        elif pattern[at] == "]":
            return at + 1
        else:
            at += 1
    raise _Unclear


def _after_group(pattern: str, at: int) -> int:
    """Index after the matching parenthesis; the contents are skipped."""
    if pattern[at + 1 : at + 2] == "?" and not pattern.startswith(_GROUPS, at + 2):
        raise _Unclear  # flags that apply to the whole pattern
    depth = 0
    while at < len(pattern):
        match pattern[at]:
            case "\\":
                at += 2
                continue
            case "[":
                at = _after_class(pattern, at)
                continue
            case "(":
                if pattern[at + 1 : at + 2] == "?" and not pattern.startswith(_GROUPS, at + 2):
                    raise _Unclear
                depth += 1
            case ")":
                depth -= 1
                if depth == 0:
                    return at + 1
            case _:
                pass
        at += 1
    raise _Unclear
