"""Wildcards over words and over paths, matched in time that grows with the input only once per wildcard.

Rules are the user's, but what they are matched against is the model's: no pattern may be made slow by the text.
"""

from collections.abc import Callable, Sequence
from posixpath import relpath
from typing import TypeVar

from understudy.policy.readable import is_inside

Item = TypeVar("Item")

ANY_WORDS = "**"


def matches_word(pattern: str, word: str) -> bool:
    """`*` stands for any text within the word, `?` for one character."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == word
    return _matches(pattern, word, "*", lambda wanted, found: wanted in ("?", found))


def matches_words(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Each item stands for one word; `**` for any number of words."""
    return _matches(pattern, words, ANY_WORDS, matches_word)


def matches_path(pattern: str, path: str, project: tuple[str, ...]) -> bool:
    """Whether an absolute path, or a folder it lies in, fits.

    A pattern with a leading `/` is matched against the whole path, one with another slash against the path from the project's
    root, one without a slash against each name below that root.
    """
    if pattern.startswith("/"):
        return matches_words((*_parts(pattern), ANY_WORDS), _parts(path))
    anchored = "/" in pattern.rstrip("/")
    parts = _parts(pattern) if anchored else (ANY_WORDS, *_parts(pattern))
    return any(
        matches_words((*parts, ANY_WORDS), _parts(relpath(path, root))) for root in project if is_inside(path, (root,))
    )  # fmt: skip


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _matches(pattern: Sequence[Item], found: Sequence[Item], star: Item, one: Callable[[Item, Item], bool]) -> bool:
    """Greedy with one place to go back to: a later star makes an earlier one's choice irrelevant."""
    p = f = 0
    last_star, resume = -1, 0
    while f < len(found):
        if p < len(pattern) and pattern[p] == star:
            last_star, resume = p, f
            p += 1
        elif p < len(pattern) and one(pattern[p], found[f]):
            p, f = p + 1, f + 1
        elif last_star >= 0:
            resume += 1
            p, f = last_star + 1, resume
        else:
            return False
    return all(item == star for item in pattern[p:])
