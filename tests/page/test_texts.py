"""The page's pure parts, in the browser that runs them: diffs, visible characters, streams cut anywhere."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.page.browser import Tab, browsing, in_browser

pytestmark = in_browser

DIFF = """diff --git a/old name.py b/new name.py
similarity index 90%
rename from old name.py
rename to new name.py
--- a/old name.py
+++ b/new name.py
@@ -1,3 +1,3 @@ def f():
 same
--- removed that looks like a header
+++ added that looks like a header
 end
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-last
\\ No newline at end of file
"""


@pytest_asyncio.fixture(loop_scope="session")
async def tab(tmp_path: Path) -> AsyncGenerator[Tab]:
    async with browsing(tmp_path) as (_, chrome):
        yield await chrome.log_in()


async def run(tab: Tab, module: str, body: str, argument: Any = None) -> Any:
    """What a function body gives that has the module as `m` and the argument as `given`."""
    return await tab.page.evaluate(f"async (given) => {{ const m = await import('/page/app/{module}'); {body} }}", argument)


async def test_a_diff_is_read_file_by_file_though_its_lines_look_like_headers(tab: Tab) -> None:
    files = await run(tab, "text/diff.js", "return m.parseDiff(given);", DIFF)
    facts = [(file["path"], file["from"], file["change"], file["added"], file["removed"]) for file in files]
    assert facts == [("new name.py", "old name.py", "move", 1, 1), ("gone.txt", None, "delete", 0, 1)]
    rows = [(row["kind"], row["old"], row["new"], row["text"]) for row in files[0]["hunks"][0]["rows"]]
    assert rows == [
        ("same", 1, 1, "same"),
        ("removed", 2, None, "-- removed that looks like a header"),
        ("added", None, 2, "++ added that looks like a header"),
        ("same", 3, 3, "end"),
    ]
    assert files[1]["hunks"][0]["rows"][1]["kind"] == "note"


async def test_what_is_no_diff_is_shown_as_lines_and_loses_nothing(tab: Tab) -> None:
    files = await run(tab, "text/diff.js", "return m.parseDiff(given);", "just\nsome text\n@@ nonsense @@\n")
    assert [row["text"] for file in files for hunk in file["hunks"] for row in hunk["rows"]] == [
        "just",
        "some text",
        "@@ nonsense @@",
    ]


async def test_what_was_removed_stands_beside_what_was_added(tab: Tab) -> None:
    body = """const row = (kind) => ({ kind, text: kind });
        const pairs = m.sideBySide(given.map(row));
        return pairs.map(({ left, right }) => [left?.kind ?? null, right?.kind ?? null]);"""
    kinds = ["same", "removed", "removed", "added", "same", "added"]
    assert await run(tab, "text/diff.js", body, kinds) == [
        ["same", "same"],
        ["removed", "added"],
        ["removed", None],
        ["same", "same"],
        [None, "added"],
    ]


async def test_characters_that_cannot_be_seen_are_written_and_emoji_stay(tab: Tab) -> None:
    body = "return given.map((text) => [m.shown(text), m.exact(text)]);"
    family, warning = "👩\u200d💻", "⚠\ufe0f"
    shown = await run(
        tab, "text/visible.js", body, ["a\u202eb", f"{family} {warning}", "x\u200by", "tab\there", "a" + " " * 30 + "b"]
    )
    assert [each[0] for each in shown] == [
        "a\\u{202e}b",
        f"{family} {warning}",
        "x\\u{200b}y",
        "tab\there",
        "a" + " " * 30 + "b",
    ]
    assert [each[1] for each in shown] == [
        "a\\u{202e}b",
        "👩\\u{200d}💻 ⚠\\u{fe0f}",
        "x\\u{200b}y",
        "tab\\u{9}here",
        "a\\u{20}*30b",
    ]


async def test_a_stream_is_read_the_same_wherever_it_is_cut(tab: Tab) -> None:
    text = ': hello\r\n\r\nid: 1\r\ndata: {"a": 1}\r\n\r\nevent: row\ndata: x\ndata: y\n\nid\rdata:z\r\r'
    body = """const text = given;
        const seen = new Set();
        for (let cut = 0; cut <= text.length; cut += 1) {
            const reader = new m.EventReader();
            seen.add(JSON.stringify([...reader.feed(text.slice(0, cut)), ...reader.feed(text.slice(cut)), ...reader.feed("\\n")]));
        }
        return [...seen].map(JSON.parse);"""
    assert await run(tab, "net/sse.js", body, text) == [
        [
            {"id": "1", "event": "message", "data": '{"a": 1}'},
            {"id": None, "event": "row", "data": "x\ny"},
            {"id": "", "event": "message", "data": "z"},
        ]
    ]


async def test_text_that_grows_piece_by_piece_ends_as_if_it_had_come_at_once(tab: Tab) -> None:
    body = """const { markdown } = await import("/page/app/text/markdown.js");
        const grown = document.createElement("div"), whole = document.createElement("div");
        const growing = new m.GrowingMarkdown(grown);
        for (let end = 0; end <= given.length; end += 3) growing.show(given.slice(0, end));
        growing.show(given);
        growing._parse();
        whole.append(markdown(given));
        const lines = (element) => element.textContent.split("\\n").map((line) => line.trim()).filter(Boolean);
        return [lines(grown), lines(whole)];"""
    lists = "- one\n- two\n\n```py\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd."
    text = f"# Title\n\nA paragraph with **bold** and `code`.\n\n{lists}"
    grown, whole = await run(tab, "text/growing.js", body, text)
    assert grown == whole
    assert "Title" in grown
