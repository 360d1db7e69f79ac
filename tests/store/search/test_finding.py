"""What a search finds, in which order, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.store.records import open_log
from tests.store.search.said import DAY, agent, found, printed, say, say_more, search, user
from tests.support.postgres import the_server
from understudy.errors import BadRequest
from understudy.protocol.records import CommandStarted, PatchStarted, ToolCallBegan
from understudy.protocol.records.files import AddFile
from understudy.store.log import Store
from understudy.store.search.asked import write_cursor
from understudy.store.search.texts import MOST_CHARACTERS
from understudy.store.search.words import words_of


@pytest.fixture(params=["sqlite", "postgres"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "sqlite":
        log: Store = open_log(tmp_path)
    else:
        url = the_server().new_tables()
        from understudy.store.postgres.log import PostgresLog  # needs the driver

        log = PostgresLog(tmp_path, url, asyncio.get_running_loop())
    yield log
    log.close()


async def test_what_was_said_and_run_is_found_the_newest_first(log: Store) -> None:
    await say(log, [user("the parser fails"), agent("I mended the parser"), printed("parser: ok")], at=2 * DAY)
    await say(log, [user("an older word on the Parser")], at=DAY)
    hits = (await search(log, "PARSER")).hits
    assert [(hit.role, hit.snippet) for hit in hits] == [
        ("command", "parser: ok"),
        ("assistant", "I mended the parser"),
        ("user", "the parser fails"),
        ("user", "an older word on the Parser"),
    ]
    assert [hit.seq for hit in hits] == [4, 3, 2, 2]
    assert hits[0].at == 2 * DAY + 4


async def test_commands_patches_and_tools_are_found(log: Store) -> None:
    await say(
        log,
        [
            CommandStarted("1", ("grep", "-r", "needle one"), "/w", True),
            PatchStarted("2", {"/w/haystack.py": AddFile("x = 'needle two'\n")}, True),
            ToolCallBegan("3", "issues", "open_issue", {"title": "needle three"}),
        ],
    )
    assert await found(log, "needle two") == ["/w/haystack.py x = 'needle two'"]
    assert await found(log, "haystack") == ["/w/haystack.py x = 'needle two'"]
    assert [hit.role for hit in (await search(log, "needle")).hits] == ["tool", "patch", "command"]


async def test_what_was_committed_just_now_is_found(log: Store) -> None:
    conversation = await say(log, [user("first")])
    assert await found(log, "second") == []
    await say_more(log, conversation, 2, user("second"))
    assert await found(log, "second") == ["second"]


SAID = ("red apple pie", "green apple", "green pear cake", "apple-pie_order", "Äpfel und Straße", "日本語のテキスト", "12 apples")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("apple", [0, 1, 3]),
        ("apple green", [1]),
        ('"apple pie"', [0, 3]),
        ("apple_pie", [0, 3]),
        ("apple -green", [0, 3]),
        ("apple -pie", [1]),
        ('apple -"pie order"', [0, 1]),
        ("pear OR red", [0, 2]),
        ("green pear OR apple", [1, 2]),
        ("appl*", [0, 1, 3, 6]),
        ("app*", []),  # too few letters: the word `app`
        ("apfel", [4]),
        ("ÄPFEL", [4]),
        ("strasse", [4]),
        ("STRASSE", [4]),
        ("本語", [5]),
        ("語本", []),
        ("テキスト", [5]),
        ('"apple', [0, 1, 3]),  # from here on: what makes no sense is words
        ('apple" AND', []),
        ("NEAR(apple green)", []),
        ("green:apple", [1]),
        ("everyones : apple", []),
        ("^apple + green", [1]),
        ("-apple", [0, 1, 3]),
        ("apple OR", [0, 1, 3]),
        ("OR apple", [0, 1, 3]),
        ("green\0apple", [1]),
        ("' ; DROP TABLE words; -- apple", []),
        ("{a b}: apple", []),
        ("(apple (green", [1]),
        ("green*apple", [1]),
        ("\ud800apple", [0, 1, 3]),
    ],
)
async def test_words_and_signs(log: Store, typed: str, expected: list[int]) -> None:
    await say(log, [user(text) for text in SAID])
    assert await found(log, typed) == [SAID[index] for index in reversed(expected)]


@pytest.mark.parametrize("typed", ["", "  ", '"', "-", "*", '""', "!?", "\0", "OR -", "\u200b"])
async def test_where_there_is_no_word_that_is_said(log: Store, typed: str) -> None:
    if typed == "OR -":  # the word
        assert await found(log, typed) == []
        return
    with pytest.raises(BadRequest, match="no word"):
        await search(log, typed)


async def test_too_much_is_refused_before_any_work(log: Store, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="too long"):
        await search(log, "x" * 1_000_000)
    with pytest.raises(BadRequest, match="too many words"):
        await search(log, " ".join("abcdefg" * 10))
    assert not (tmp_path / "search.db").exists()


async def test_pages_go_on_where_the_one_before_ended(log: Store) -> None:
    await say(log, [user(f"page {number}") for number in range(5)], at=0.0)
    await say(log, [user("page 5")], at=0.0)  # of the same time
    texts: list[str] = []
    cursor: str | None = None
    while True:
        page = await search(log, "page", limit=2, cursor=cursor)
        texts += [hit.snippet for hit in page.hits]
        cursor = page.next
        if cursor is None:
            break
    assert sorted(texts) == [f"page {number}" for number in range(6)]
    assert [text for text in texts if text != "page 5"] == [f"page {number}" for number in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "WyJhIl0", "Wy0xXQ", "W10", "WzFlOTld", "é", "\0", "W" * 100_000])
async def test_a_cursor_that_was_made_up_is_refused(log: Store, cursor: str) -> None:
    with pytest.raises(BadRequest, match="invalid cursor"):
        await search(log, "word", cursor=cursor)


async def test_any_place_can_be_gone_on_from(log: Store) -> None:
    await say(log, [user("word")])
    assert await found(log, "word", cursor=write_cursor((1 << 63) - 1)) == ["word"]
    assert await found(log, "word", cursor=write_cursor(0)) == []


async def test_only_of_a_role_a_folder_a_time(log: Store) -> None:
    await say(log, [user("word one"), agent("word two")], folder="/home/u/project", at=DAY)
    await say(log, [user("word three")], folder="/home/u/project/sub", at=2 * DAY)
    await say(log, [user("word four")], folder="/home/u/project2", at=3 * DAY)
    assert await found(log, "word", role="user") == ["word four", "word three", "word one"]
    assert await found(log, "word", folder="/home/u/project") == ["word three", "word two", "word one"]
    assert await found(log, "word", folder="/home/u/project/") == ["word three", "word two", "word one"]
    assert await found(log, "word", folder="/home/u/project/sub") == ["word three"]
    assert len(await found(log, "word", folder="/")) == 4
    assert await found(log, "word", folder="home/u") == []
    assert await found(log, "word", since=2 * DAY) == ["word four", "word three"]
    assert await found(log, "word", since=-5.0) == await found(log, "word")
    assert await found(log, "word", since=1e300) == []
    assert await found(log, "word", role="user", folder="/home/u/project", since=2 * DAY) == ["word three"]


async def test_a_folder_is_the_one_that_it_was_said_in(log: Store) -> None:
    from understudy.protocol.items import InputText, Message
    from understudy.protocol.records import Overrides, UserMessage

    moved = UserMessage("m", Message("user", (InputText("word there"),)), Overrides(cwd="/there"))
    conversation = await say(log, [user("word here")], folder="/here")
    assert await found(log, "word") == ["word here"]
    await say_more(log, conversation, 2, moved)
    await say_more(log, conversation, 3, agent("word there, too"))
    assert await found(log, "word", folder="/here") == ["word here"]
    assert sorted(await found(log, "word", folder="/there")) == ["word there", "word there, too"]


async def test_an_owner_finds_their_own(log: Store) -> None:
    await say(log, [user("secret of ann")], owner="ann")
    await say(log, [user("secret of bob")], owner="bob")
    await say(log, [user("secret of the machine")])
    assert await found(log, "secret", owner="ann") == ["secret of ann"]
    assert await found(log, "secret", owner="ann", role="user", folder="/w") == ["secret of ann"]
    assert await found(log, "secret", owner="local") == ["secret of the machine"]
    assert await found(log, "secret", owner="carol") == []
    assert await found(log, "ann OR bob", owner="ann") == ["secret of ann"]
    assert await found(log, "secret -bob", owner="bob") == []
    assert len(await found(log, "secret")) == 3


async def test_others_leave_no_trace_in_a_cursor(log: Store) -> None:
    await say(log, [user("word of ann")], owner="ann", at=2 * DAY)
    for number in range(5):
        await say(log, [user(f"word {number}")], at=DAY + number)
        await say(log, [user(f"word {number} of bob")], owner="bob", at=3 * DAY + number)
    assert (await search(log, "word", owner="ann", limit=1)).next is None
    assert (await search(log, "word", owner="local", limit=5)).next is None


async def test_of_a_long_text_the_beginning_and_the_end_are_found(log: Store) -> None:
    await say(log, [printed("first " + "x " * MOST_CHARACTERS + "middle " + "y " * MOST_CHARACTERS + "last")])
    assert len(await found(log, "first")) == 1
    assert await found(log, "middle") == []
    (snippet,) = await found(log, "last")
    assert snippet.endswith("y last")
    assert len(snippet) < 250


async def test_a_snippet_is_around_the_words_and_masked_whole(log: Store) -> None:
    from understudy.store.search.asked import Wanted

    await say(log, [user("x " * 500 + "here is\n\nthe needle " + "y " * 500)])
    (snippet,) = await found(log, "needle")
    assert "here is the needle y" in snippet
    assert snippet.startswith("…")
    assert snippet.endswith("…")
    found_ = await log.search.find(Wanted(words="needle"), lambda text: text.replace("needle", "[gone]"))
    assert "needle" not in found_.hits[0].snippet


ODD = "ab \t\n\"*-()^:{}+.,'\\OR NEAR AND NOT é日本ß\u0301\u202e\0🙂ﬁ٣०Ⅷ_%"


@pytest.mark.slow
async def test_any_signs_can_be_said_and_asked_for(log: Store) -> None:
    random = Random(3)
    texts = ["".join(random.choices(ODD, k=40)) for _ in range(60)]
    await say(log, [user(text) for text in texts])
    for text in texts:
        words = " ".join(f'"{word}"' for word in words_of(text)[:20])
        assert (await search(log, words, limit=100)).hits, (text, words)
    for _ in range(300):
        typed = "".join(random.choices(ODD + "\ud800", k=random.randint(1, 30)))
        owner, folder = random.choice([None, "local", 'a" OR "b', "\ud800"]), random.choice([None, "/w", "", "\ud800", "\0"])
        with suppress(BadRequest):  # where there is no word in it
            await search(log, typed, owner=owner, folder=folder)


async def test_very_many_hits_are_read_in_pages(log: Store) -> None:
    await say(log, [user("again") for _ in range(2000)], at=0.0)
    page = await search(log, "again", limit=100)
    assert len(page.hits) == 100
    assert page.next is not None
