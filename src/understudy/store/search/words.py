"""Splits texts into the words that are indexed, and parses what people type as a search.

We split words ourselves, so that index and search agree in every script: in lower case, without accents, and with each letter as a
word in scripts that put no blanks between words.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from understudy.errors import BadRequest

LONGEST_WORD = 64  # characters; a longer word is cut
LONGEST_QUESTION = 1000
MOST_WORDS = 32
SHORTEST_BEGINNING = 4  # letters before the `*` of `begin*`: fewer would match too many words

# Han, kana, hangul, Thai, Lao, Khmer, Burmese.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_PART = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')


class Term(msgspec.Struct, frozen=True):
    """Consecutive words; of the last one perhaps only its beginning."""

    words: tuple[str, ...]
    begins: bool = False


class Question(msgspec.Struct, frozen=True):
    """Matches a text with at least one term of each group, and none of those left out."""

    groups: tuple[tuple[Term, ...], ...]
    without: tuple[Term, ...] = ()


def words_of(text: str) -> list[str]:
    if text.isascii():
        return [word[:LONGEST_WORD] for word in _WORD.findall(text.lower())]
    return [plain for word in _WORD.findall(text.casefold()) for plain in _plain(word)]


@lru_cache(maxsize=4096)
def _plain(word: str) -> tuple[str, ...]:
    """Without accents. Decomposing a ligature, for example, may give several words."""
    if word.isascii():
        return (word[:LONGEST_WORD],)
    taken_apart = _ACCENTS.sub("", unicodedata.normalize("NFKD", word))
    return tuple(part[:LONGEST_WORD] for part in _WORD.findall(unicodedata.normalize("NFC", taken_apart).casefold()))


def read_question(typed: str) -> Question:
    """Parse a search: all words must occur. Understands `"words in order"`, `begin*`, `-without` and `this OR that`; anything else
    is taken as words. Raises `BadRequest` if there is nothing to search for, or too much.
    """
    if len(typed) > LONGEST_QUESTION:
        raise BadRequest(f"this is too long to search for: {len(typed)} characters, and {LONGEST_QUESTION} are the most")
    question = _read(typed)
    if not question.groups:  # only words to leave out, or an odd quotation mark
        question = Question(tuple((Term((word,)),) for word in dict.fromkeys(words_of(typed))))
    count = sum(len(term.words) for group in (*question.groups, question.without) for term in group)
    if count == 0:
        raise BadRequest("there is no word to search for: give at least one letter or digit")
    if count > MOST_WORDS:
        raise BadRequest(f"these are too many words to search for: {count}, and {MOST_WORDS} are the most")
    return question


def _read(typed: str) -> Question:
    groups: list[tuple[Term, ...]] = []
    without: list[Term] = []
    joins = False
    for part in _PART.finditer(typed):
        if part["word"] == "OR" and not part["no"]:
            joins = bool(groups)
            continue
        term = _term(part)
        if term is None:
            continue
        if part["no"]:
            without.append(term)
        elif joins:
            groups[-1] += (term,)
        else:
            groups.append((term,))
        joins = False
    return Question(tuple(groups), tuple(without))


def _term(part: re.Match[str]) -> Term | None:
    text = part["phrase"] if part["word"] is None else part["word"]
    words = tuple(words_of(text))
    if not words:
        return None
    begins = part["word"] is not None and text.endswith("*") and len(words[-1]) >= SHORTEST_BEGINNING
    return Term(words, begins)


def positive_terms(question: Question) -> Iterator[Term]:
    for group in question.groups:
        yield from group


def as_match(question: Question, marks: Sequence[str]) -> str:
    """In FTS5's syntax. In the index every word follows one of these marks; all words of one text follow the same mark."""
    return " OR ".join(f"({_marked(question, mark)})" for mark in marks)


def _marked(question: Question, mark: str) -> str:
    groups = " AND ".join(f"({' OR '.join(_phrase(term, mark) for term in group)})" for group in question.groups)
    without = "".join(f" NOT {_phrase(term, mark)}" for term in question.without)
    return f"({groups}){without}"


def _phrase(term: Term, mark: str) -> str:
    """Needs no escaping: words consist of letters and digits."""
    return f'"{" ".join(mark + word for word in term.words)}"' + (" *" if term.begins else "")
