"""The page that is shared: what is on it, what is masked, and whether it is what the log has."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest

from tests.page.hostile_texts import TEXTS
from tests.servers.sharing.conversations import entries_of, everywhere
from understudy.errors import BadRequest
from understudy.protocol.items import InputText, Message, OutputText
from understudy.protocol.records import CommandEnded, CommandStarted, Entry, ItemReceived, Record, UserMessage
from understudy.servers.sharing.comparing import facts_of, first_difference, masked_places
from understudy.servers.sharing.masking import Masking
from understudy.servers.sharing.page import page_lines
from understudy.servers.sharing.writing import markdown_lines

HEAD = "ab" * 32
TOKEN = "ghp_" + "a1" * 18
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nabcd\n-----END RSA PRIVATE KEY-----"
ENV = {"DB_PASSWORD": "hunter<22>", "PATH": "/usr/bin"}
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "main", "article", "div", "pre", "code", "span"),
    *("details", "summary", "ul", "ol", "li", "mark", "img", "section", "footer"),
}
ATTRIBUTES = {
    *("lang", "data-page", "data-conversation", "data-records", "data-head", "charset", "http-equiv", "content", "name"),
    *("class", "open", "alt", "src", "value", "id"),
}


def page_of(records: Sequence[Record], env: dict[str, str] | None = None) -> tuple[str, tuple[Entry, ...]]:
    conversation_id, entries = entries_of(records)
    return "".join(page_lines(conversation_id, entries, HEAD, Masking(env or {}))), entries


def said(text: str) -> list[Record]:
    return [UserMessage("m", Message("user", (InputText(text),))), ItemReceived(Message("assistant", (OutputText(text),)))]


class Parts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.sources: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.sources |= {(value or "")[:22] for name, value in attrs if name == "src"}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parts_of(page: str) -> Parts:
    parts = Parts()
    parts.feed(page)
    return parts


def test_no_text_becomes_more_than_text() -> None:
    page, _ = page_of([record for number, text in enumerate(TEXTS[:60]) for record in everywhere(text, number)])
    parts = parts_of(page)
    assert parts.tags <= TAGS
    assert parts.attributes <= ATTRIBUTES
    assert parts.sources == {"data:image/png;base64,"}
    assert re.findall(r"<meta http-equiv=.*", page) == re.findall(r"<meta http-equiv=.*default-src 'none'; .*", page)
    shown = "".join(parts.text)
    assert "<script>window.hacked=1</script>" in shown
    assert "\u202e" not in page


def test_columns_and_tabs_stay_as_they_are() -> None:
    line = f"....{' ' * 72}[100%]\n\tindented{' ' * 300}far away"
    page, _ = page_of([CommandStarted("c", ("pytest",), "/w", True), CommandEnded("c", line, "", 0, 0.1)])
    assert f"....{' ' * 72}[100%]\n\tindented\\u{{20}}*300far away" in page


def test_a_secret_is_masked_wherever_it_stands_and_listed() -> None:
    for secret in (TOKEN, ENV["DB_PASSWORD"]):
        page, _ = page_of(everywhere(f"before {secret} after"), ENV)
        assert secret not in page
        assert secret.replace("<", "&lt;").replace(">", "&gt;") not in page
        assert masked_places(page) > 10
    conversation_id, entries = entries_of([*said(f"{TOKEN} {TOKEN}"), *said(ENV["DB_PASSWORD"])])
    page = "".join(page_lines(conversation_id, entries, HEAD, Masking(ENV)))
    listed = page.partition('<section id="masked">')[2]
    assert '<li value="1">a token or password of a well-known form, in 6 places</li>' in listed  # in the title, too
    assert '<li value="2">the value of DB_PASSWORD, in 2 places</li>' in listed
    text = "".join(markdown_lines(conversation_id, entries, Masking(ENV)))
    assert TOKEN not in text
    assert ENV["DB_PASSWORD"] not in text
    assert "- 2: the value of DB_PASSWORD, in 2 places" in text
    assert "None were found." in page_of(said("nothing"))[0]


ASSIGNED = [
    "DB_PASSWORD=correct-horse",
    "export AWS_SECRET_ACCESS_KEY='wJalrXUtnFEMI/K7MDENG'",
    '{"API_KEY": "abcd1234efgh"}',
    json.dumps({"text": json.dumps({"MY_TOKEN": "abcd1234efgh"})}),
    "STRIPE_SECRET: q1w2e3r4t5\nPATH=/usr/bin",
]
NOT_ASSIGNED = [
    "MAX_TOKENS=100000000",
    "SSH_KEY=/home/ann/.ssh/id",
    "API_KEY=$OTHER_KEY_HERE",
    "KEY=short",
    "password = get_password()",
]


@pytest.mark.parametrize("text", ASSIGNED)
def test_a_value_that_is_named_like_a_secret_in_a_text_is_masked(text: str) -> None:
    page, entries = page_of(everywhere(text), {})
    assert masked_places(page) > 10
    assert not {"correct-horse", "wJalrXUtnFEMI", "abcd1234efgh", "q1w2e3r4t5"} & set(re.split(r"[^A-Za-z0-9-]+", page))
    assert "the value of " in page
    assert first_difference(page, facts_of(page), entries) is None


@pytest.mark.parametrize("text", NOT_ASSIGNED)
def test_what_is_no_secret_stays(text: str) -> None:
    assert "None were found." in page_of(said(text))[0]


@pytest.mark.parametrize("text", ["plain", f"a {TOKEN} b", f"{TOKEN}{ENV['DB_PASSWORD']}", KEY, *TEXTS[:110:7]])
def test_a_page_is_what_the_log_has(text: str) -> None:
    page, entries = page_of(everywhere(text), ENV)
    facts = facts_of(page)
    assert (facts.records, facts.head) == (len(entries), HEAD)
    assert first_difference(page, facts, entries) is None


CHANGES = [
    ("says yes", "says no"),
    ("<summary><code>$ rm", "<summary><code>$ ls"),
    ("says yes", "says <mark>[redacted 9]</mark>no"),
    ("says yes", "says <mark>[redacted 9]</mark>yes"),
    ("<main>\n", "<main>\n<article>added</article>\n"),
    ("</main>", "</main><script>1</script>"),
    ("</body>", "<p>added</p></body>"),
    ("None were found.", "None were found.<script>1</script>"),
    ("default-src 'none'", "default-src *"),
    ("</style>", "body{display:none}</style>"),
    ("<details", "<details hidden"),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_page_that_was_changed_is_found_out(before: str, after: str) -> None:
    records = [*said("she says yes"), CommandStarted("c", ("rm", "x"), "/w", True), CommandEnded("c", "gone", "", 0, 0.1)]
    page, entries = page_of(records)
    assert before in page
    changed = page.replace(before, after, 1)
    line = first_difference(changed, facts_of(changed), entries)
    assert line is not None
    lines = zip(changed.splitlines(), page.splitlines(), strict=False)
    first = next(number for number, (one, other) in enumerate(lines, start=1) if one != other)
    assert abs(line - first) <= 2  # what is in the list of secrets is found where that begins


@pytest.mark.parametrize("page", ["", "<html>", "<!doctype html>\n<html>", "\0" * 100])
def test_what_is_no_page_of_ours_is_refused(page: str) -> None:
    with pytest.raises(BadRequest, match="no page"):
        facts_of(page)


def test_a_page_of_another_form_is_refused() -> None:
    page, _ = page_of(said("x"))
    with pytest.raises(BadRequest, match="form 999"):
        facts_of(page.replace('data-page="1"', 'data-page="999"'))
