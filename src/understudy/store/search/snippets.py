"""The part of a text where something was found, as one line."""

import re

from understudy.store.search.words import Question, positive_terms, words_of

BEFORE = 60  # characters
LONGEST = 240
AROUND = 4096  # characters on either side that are searched for secrets: half a secret would not be recognized


def surroundings_of(text: str, question: Question) -> str:
    at = _find(text, question)
    return text[max(0, at - AROUND) : at + AROUND]


def snippet_of(text: str, question: Question) -> str:
    start = max(0, _find(text, question) - BEFORE)
    end = start + LONGEST
    piece = " ".join(text[start : end + LONGEST].split())[:LONGEST]  # blanks tell the reader nothing
    return f"{'…' if start else ''}{piece}{'…' if len(text) > end else ''}"


def _find(text: str, question: Question) -> int:
    """Where the first of the words is; 0 if the text spells it differently."""
    for term in positive_terms(question):
        spelled = r"[\W_]*".join(re.escape(word) for word in term.words)
        begins = r"(?<![^\W_])" if term.words[0].isascii() else ""
        found = re.search(begins + spelled, text, re.IGNORECASE)
        if found is not None:
            return found.start()
        first = next((place for place in re.finditer(r"[^\W\d_]+", text[:8192]) if term.words[0] in words_of(place[0])), None)
        if first is not None:
            return first.start()
    return 0
