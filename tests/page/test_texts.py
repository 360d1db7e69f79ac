"""The page's pure parts, in the browser that runs them: diffs, visible characters, streams cut anywhere."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.page.browser import Tab, browsing, in_browser

pytestmark = in_browser

MIXED = {
    "s\u0441p key host": "s\\u{441}p key host",
    "\u0440\u0430ypal.com": "\\u{440}\\u{430}ypal.com",
    "r\uff4d -rf": "r\\u{ff4d} -rf",
    "g\u03bf": "g\\u{3bf}",
    "\u217fake": "\\u{217f}ake",
    "\U0001d5cbm": "\\u{1d5cb}m",
    "\u0441\u0301at": "\\u{441}\u0301at",
    "отчёт_v2.txt": "отчёт_v2.txt",
    "cat Привет.md": "cat Привет.md",
    "Δx μm π λ-calculus αβγ": "Δx μm π λ-calculus αβγ",
    "naïve łódź Ελλάδα 日本語text": "naïve łódź Ελλάδα 日本語text",
}

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


async def test_a_letter_of_another_script_in_a_latin_word_is_written_where_a_text_has_to_be_exact(tab: Tab) -> None:
    body = "return given.map((text) => [m.shown(text), m.exact(text)]);"
    assert await run(tab, "text/visible.js", body, list(MIXED)) == [[text, shown] for text, shown in MIXED.items()]


async def test_colours_of_a_terminal_are_kept_as_names_and_nothing_else_is(tab: Tab) -> None:
    body = "return given.map((text) => m.colouredLines(text).map((runs) => runs.map(({ text, look }) => [text, look])));"
    lines = await run(
        tab,
        "text/colours.js",
        body,
        [
            "plain \x1b[1;31mred\x1b[0m end\n",
            "\x1b[32mgreen\nstill\x1b[39m not\n\n\n",
            "\x1b[30;40mink\x1b[8m seen\x1b[7m\x1b[97m too",
            "\x1b[38;5;9mred \x1b[38;5;200mink \x1b[38;2;0;255;0mink \x1b[38;5;4mblue",
            "\x1b[2Ja\x1b]0;title\x07b\rc\x1b[3;4md\x1b[23;24me\x1b[94",
            "\x1b[31;style=xm\x1b[;m<b>\u202e",
            "\x1b[4:3mcurly\x1b[4:0m not \x1b[38:5:1mred\x1b[38:2::1:2:3m ink\x1b[58;5;1m\x1b[58:2::1:3:4m\x1b[48:2::4:1:31m too",
        ],
    )
    assert lines == [
        [[["plain ", ""], ["red", "red bold"], [" end", ""]]],
        [[["green", "green"]], [["still", "green"], [" not", ""]]],
        [[["ink seen too", ""]]],
        [[["red ", "red"], ["ink ink ", ""], ["blue", "blue"]]],
        [[["ab", ""]], [["c", ""], ["d", "italic underlined"], ["e", ""]]],
        [[["tyle=xm<b>\\u{202e}", ""]]],
        [[["curly", "underlined"], [" not ", ""], ["red", "red"], [" ink too", ""]]],
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


async def test_a_question_that_is_asked_again_in_the_millisecond_of_its_decision_is_open(tab: Tab) -> None:
    body = """const questions = new m.Questions("x", () => {});
        const [first, second] = [1700000000.0001, 1700000000.0008].map((mark) => ({ call_id: "c", mark }));
        const ask = (question) => questions.take({ msg: { type: "exec_approval_request", question } });
        const at = "2023-11-14T22:13:20.000Z";
        const decide = (call_id) => questions.take({ msg: { type: "approval_decided", call_id, by: "x" }, at });
        const open = [];
        const look = () => open.push(questions.open.map(({ mark }) => mark));
        ask(first); look();
        decide("c"); look();
        questions.add([first]); look(); // by a row that is older than the decision
        ask(second); look();
        decide("another"); look();
        questions.add([first, second]); look();
        decide("c"); look();
        return open;"""
    first, second = 1700000000.0001, 1700000000.0008
    assert await run(tab, "state/questions.js", body) == [[first], [], [], [second], [second], [second], []]


async def test_text_that_grows_piece_by_piece_ends_as_if_it_had_come_at_once(tab: Tab) -> None:
    body = """const { markdown } = await import("/page/app/text/markdown.js");
        const grown = document.createElement("div"), whole = document.createElement("div");
        const growing = new m.GrowingMarkdown(grown);
        for (let end = 0; end <= given.length; end += 3) growing.show(given.slice(0, end));
        growing.show(given);
        while (growing._timer) await new Promise((go) => setTimeout(go, 5));
        whole.append(markdown(given));
        const lines = (element) => element.textContent.split("\\n").map((line) => line.trim()).filter(Boolean);
        return [lines(grown), lines(whole)];"""
    lists = "- one\n- two\n\n```py\nx = 1\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd."
    text = f"# Title\n\nA paragraph with **bold** and `code`.\n\n{lists}"
    grown, whole = await run(tab, "text/growing.js", body, text)
    assert grown == whole
    assert "Title" in grown


async def test_text_that_takes_long_to_look_through_is_shown_all_the_same(tab: Tab) -> None:
    body = """const grown = document.createElement("div"), growing = new m.GrowingMarkdown(grown);
        const real = performance.now.bind(performance);
        let late = 0;
        performance.now = () => real() + (late += 20); // as on a slow machine
        growing.show(given);
        for (let look = 0; growing._timer && look < 500; look += 1) await new Promise((go) => setTimeout(go, 5));
        delete performance.now;
        return grown.querySelectorAll("p").length;"""
    assert await run(tab, "text/growing.js", body, "\n\n".join(f"Paragraph {number}." for number in range(20))) == 20
