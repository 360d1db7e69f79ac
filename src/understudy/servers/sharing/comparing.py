"""Checks whether a page shows what the log has: writes the page again and compares, except for what was masked."""

import re
from collections.abc import Sequence

import msgspec

from understudy.errors import BadRequest
from understudy.protocol.records import Entry
from understudy.servers.sharing.masking import Unmasked
from understudy.servers.sharing.page import FORM, MASKED_SECTION, page_lines

_FIRST = re.compile(
    r"<!doctype html>\n"
    r'<html lang="en" data-page="(\d{1,9})" data-conversation="([0-9a-f-]{36})"'
    r' data-records="(\d{1,18})" data-head="([0-9a-f]{64})">\n'
)
BEGINNING = 40  # characters after a mask, by which its place is found again if the mask was changed
_MARK = re.compile(r"<mark>\[redacted \d+\]</mark>")
_LINE_OF_DIFF = re.compile(r'</span>|<span class="(?:added|removed|hunk)">')
_IN_TITLE = re.compile(r"<title>[^<]*</title>")  # there are no marks in the title
_UNMARKED = re.compile(r"\[redacted \d+\]")


class PageFacts(msgspec.Struct, frozen=True):
    """What a page says about its own content."""

    form: int
    conversation_id: str
    records: int
    head: str


def facts_of(page: str) -> PageFacts:
    """Raises `BadRequest` if the text is not one of our pages."""
    found = _FIRST.match(page)
    if found is None:
        raise BadRequest("this is no page that `understudy export --format html` has written, or its first lines were changed")
    facts = PageFacts(int(found[1]), found[2], int(found[3]), found[4])
    if facts.form != FORM:
        raise BadRequest(f"the page has form {facts.form}, and this understudy compares form {FORM}: use the one that wrote it")
    return facts


def masked_places(page: str) -> int:
    return len(_MARK.findall(page))


def first_difference(page: str, facts: PageFacts, entries: Sequence[Entry]) -> int | None:
    """The first line of the page that differs from the log; None if none does."""
    written = "".join(page_lines(facts.conversation_id, entries, facts.head, Unmasked()))
    shown, _, after = page.partition(MASKED_SECTION)
    expected, _, end = written.partition(MASKED_SECTION)
    marked = _IN_TITLE.sub(lambda title: _UNMARKED.sub("<mark>[redacted 0]</mark>", title[0]), shown, count=1)
    wrong = _misfit(_MARK.split(marked), expected)
    if wrong is not None:
        return wrong
    list_, _, rest = after.partition("</section>\n")
    if not _is_list(list_):
        return 1 + shown.count("\n")
    expected_rest = end.partition("</section>\n")[2]
    return None if rest == expected_rest else 1 + page.count("\n", 0, len(page) - len(rest) + _same(rest, expected_rest))


def _misfit(pieces: list[str], expected: str) -> int | None:
    """The line of the first piece that does not follow the previous one. Only masked text may be between two pieces."""
    at, line = 0, 1
    for number, piece in enumerate(pieces):
        least = at + 1 if number else 0  # nothing that was masked is empty
        is_last = number == len(pieces) - 1
        found = max(least, len(expected) - len(piece)) if is_last and number else expected.find(piece, least)
        follows = found == 0 if number == 0 else found >= least and _is_text(expected[at:found])
        if not follows or not expected.startswith(piece, found) or (is_last and found + len(piece) != len(expected)):
            begins = expected.find(piece[:BEGINNING], least) if number else 0
            return line if begins < 0 else line + piece.count("\n", 0, _same(piece, expected[begins:]))
        at = found + len(piece)
        line += piece.count("\n")
    return None


def _is_text(masked: str) -> bool:
    """Whether it is only text, or lines of a diff: a key has several lines."""
    return "<" not in _LINE_OF_DIFF.sub("", masked)


def _same(one: str, other: str) -> int:
    """How many characters at the beginning are the same."""
    return next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_LIST = re.compile(r"\n<h2>Masked secrets</h2>\n(?:<p>None were found\.</p>\n|<ol>\n(?:<li value=\"\d+\">[^<\n]*</li>\n)+</ol>\n)")


def _is_list(text: str) -> bool:
    return _LIST.fullmatch(text) is not None
