"""Changes a file by exact text: replaces one passage by another. Pure.

Keeps the file's line ends: if all of its lines end with CR LF, so do those of both passages.
"""

import re

import msgspec

from understudy.errors import PatchError

MOST_PLACES = 5  # places that are named if a passage occurs too often
_NUMBERED = re.compile(r"\s*\d+\t")


class ReplaceOperation(msgspec.Struct, frozen=True):
    path: str
    old_text: str
    new_text: str
    replace_all: bool = False


def replaced_text(text: str, operation: ReplaceOperation, shown_path: str) -> str:
    """Raises `PatchError` if the passage is missing, or occurs more than once and only one should be replaced."""
    old, new = operation.old_text, operation.new_text
    if not old:
        if text:
            raise PatchError(f"{shown_path} is not empty: give in `old_text` what is to be replaced")
        return new
    if old == new:
        raise PatchError("`old_text` and `new_text` are the same")
    if _ends_with_return_only(text) or (old not in text and _with_returns(old) in text):
        old, new = _with_returns(old), _with_returns(new)
    count = text.count(old)
    if not count:
        raise PatchError(f"`old_text` is not in {shown_path}{_advice(text, old)}")
    if count > 1 and not operation.replace_all:
        raise PatchError(
            f"`old_text` is in {shown_path} {count} times ({_places(text, old)}): give more of the lines around it, or set"
            " `replace_all`"
        )
    return text.replace(old, new)


def _ends_with_return_only(text: str) -> bool:
    return "\r\n" in text and text.count("\n") == text.count("\r\n")


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, old: str) -> str:
    lines: list[str] = []
    at = text.find(old)
    while at >= 0 and len(lines) < MOST_PLACES:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ("lines " if len(lines) > 1 else "line ") + ", ".join(lines) + (", …" if at >= 0 else "")


def _advice(text: str, old: str) -> str:
    lines = old.split("\n")
    if all(_NUMBERED.match(line) for line in lines if line):
        return ": leave out the line numbers"
    if (at := _without_blanks(text).find(_without_blanks(old))) >= 0 and _without_blanks(old):
        return f": blanks or line breaks differ from the file, near line {_line_at(text, at)}; read it and copy the text exactly"
    return ": read the file again and copy the text exactly"


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _line_at(text: str, at: int) -> int:
    """The line of the non-blank character number `at`."""
    for number, line in enumerate(text.split("\n"), 1):
        at -= len(_without_blanks(line))
        if at < 0:
            return number
    return 1
