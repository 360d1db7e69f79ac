"""Texts as the words that are indexed, and what people type as a question to the index.

The index is told words that were made here, so that it and the question agree in every script: in lower case, without accents, and
each letter of a script that puts no blanks between its words as a word of its own.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from understudy.errors import BadRequest

LONGEST_WORD = 64  # characters; of what is longer, the beginning
LONGEST_QUESTION = 1000
MOST_WORDS = 32
SHORTEST_BEGINNING = 4  # of `begin*`: fewer letters begin too many words

# Han, kana, hangul, Thai, Lao, Khmer, Burmese.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_PART = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')


class Term(msgspec.Struct, frozen=True):
    """Words that stand one after the other; of the last one perhaps only the beginning."""

    words: tuple[str, ...]
    begins: bool = False


class Question(msgspec.Struct, frozen=True):
    """All of the groups, of each any of its terms, and nothing that is left out."""

    groups: tuple[tuple[Term, ...], ...]
    without: tuple[Term, ...] = ()


def words_of(text: str) -> list[str]:
    if text.isascii():
        return [word[:LONGEST_WORD] for word in _WORD.findall(text.lower())]
    return [plain for word in _WORD.findall(text.casefold()) for plain in _plain(word)]


@lru_cache(maxsize=4096)
def _plain(word: str) -> tuple[str, ...]:
    """Without accents. What is taken apart by that, a ligature for one, may be several words."""
    if word.isascii():
        return (word[:LONGEST_WORD],)
    taken_apart = _ACCENTS.sub("", unicodedata.normalize("NFKD", word))
    return tuple(part[:LONGEST_WORD] for part in _WORD.findall(unicodedata.normalize("NFC", taken_apart).casefold()))


def read_question(typed: str) -> Question:
    """All words have to be there. `"words in order"`, `begin*`, `-without`, `this OR that`; what makes no sense as these is words.

    Raises `BadRequest` where there is nothing to search for, or too much.
    """
    if len(typed) > LONGEST_QUESTION:
        raise BadRequest(f"this is too long to search for: {len(typed)} characters, and {LONGEST_QUESTION} are the most")
    question = _read(typed)
    if not question.groups:  # nothing but what is to be left out, or an odd quotation mark
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
    """In FTS5's language: every word stands in the index behind one of these marks, all of a text behind the same."""
    return " OR ".join(f"({_marked(question, mark)})" for mark in marks)


def _marked(question: Question, mark: str) -> str:
    groups = " AND ".join(f"({' OR '.join(_phrase(term, mark) for term in group)})" for group in question.groups)
    without = "".join(f" NOT {_phrase(term, mark)}" for term in question.without)
    return f"({groups}){without}"


def _phrase(term: Term, mark: str) -> str:
    """No word has a quotation mark in it: it consists of letters and digits."""
    return f'"{" ".join(mark + word for word in term.words)}"' + (" *" if term.begins else "")
