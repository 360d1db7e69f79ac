"""A question cannot be made to look like another one: every word of a command is shown, and nothing in it is unseen."""

from pathlib import Path
from typing import Any

from tests.page.browser import browsing, in_browser
from tests.page.rest import Rest

pytestmark = in_browser

ASKING = {"approval_policy": "on-request", "sandbox_mode": "read-only"}
COMMANDS: dict[tuple[str, ...], str] = {
    ("bash", "-lc", "ls"): "bash -lc ls",
    ("./bash", "-c", "ls"): "./bash -c ls",
    ("/tmp/evil/sh", "-c", "ls"): "/tmp/evil/sh -c ls",
    ("bash", "-xc", "ls"): "bash -xc ls",
    ("bash", "-c", "ls", "more"): "bash -c ls more",
    ("rm", "a\u202eb"): "rm 'a\\u{202e}b'",
    ("rm", "a\u2066b\u2069"): "rm 'a\\u{2066}b\\u{2069}'",
    ("rm", "-\u200brf"): "rm '-\\u{200b}rf'",
    ("rm", "a\u00a0b"): "rm 'a\\u{a0}b'",
    ("rm", "a\u3164b"): "rm 'a\\u{3164}b'",
    ("rm", "a\U000e0041b"): "rm 'a\\u{e0041}b'",
    ("rm", "a\ufe0fb"): "rm 'a\\u{fe0f}b'",
    ("rm", "a\u2028b"): "rm 'a\\u{2028}b'",
    ("rm", "a\tb"): "rm 'a\\u{9}b'",
    ("rm", "a\rls"): "rm 'a\\u{d}ls'",
    ("rm", "\x1b[8mhidden\x1b[0m"): "rm '\\u{1b}[8mhidden\\u{1b}[0m'",
    ("echo", "ok" + " " * 300 + "; rm -rf x"): "echo 'ok\\u{20}*300; rm -rf x'",
    ("bash", "-c", "echo ok" + "\n" * 200 + "rm -rf x"): "bash -c 'echo ok\\u{a}*200\nrm -rf x'",
    ("bash", "-c", "ls #" + " \t" * 40 + "\nrm x"): "bash -c 'ls #" + " \\u{9}" * 40 + "\nrm x'",
    ("rm", "it's"): "rm 'it'\\''s'",
    ("rm", ""): "rm ''",
}
SEEN = """() => {
    const box = document.querySelector(".question .exactly");
    const line = box.querySelector(".command-line");
    const size = line.getBoundingClientRect();
    const isWhole = line.scrollWidth <= line.clientWidth + 1 && line.scrollHeight <= line.clientHeight + 1;
    return [line.innerText, isWhole && size.right <= box.getBoundingClientRect().right + 1, getComputedStyle(line).direction];
}"""


async def test_a_command_is_shown_word_for_word_and_whole(tmp_path: Path) -> None:
    answers: list[Any] = [
        [{"call": "shell", "arguments": {"command": list(argv), "with_escalated_permissions": True}}] for argv in COMMANDS
    ]
    async with browsing(tmp_path, [*answers, {"say": "Done."}], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        made = await Rest(server).post("/v1/conversations", {"prompt": "ask me", "folder": str(server.cwd)})
        await tab.open(made["id"])
        for number, expected in enumerate(COMMANDS.values()):
            await tab.until("(count) => document.querySelectorAll('.of-question').length > count", number)
            await tab.question.wait_for()
            assert await tab.page.evaluate(SEEN) == [expected, True, "ltr"]
            await tab.page.locator(".question .answers button:not([disabled])").first.wait_for()
            await tab.button("Deny …").click()
            await tab.button("Deny").click()
            await tab.question.wait_for(state="detached") if number == len(COMMANDS) - 1 else None
        await tab.sees("Done.", tab.timeline)


async def test_a_patch_is_shown_to_its_last_letter_under_the_name_that_it_has(tmp_path: Path) -> None:
    long_line = "x" * 5000 + " the end"
    patch = f"*** Begin Patch\n*** Add File: a\u00a0b.txt\n+{long_line}\n+right \u202eto left\n*** End Patch\n"
    answers: list[Any] = [[{"call": "apply_patch", "arguments": {"input": patch}}], {"say": "Done."}]
    async with browsing(tmp_path, answers, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        made = await Rest(server).post("/v1/conversations", {"prompt": "ask me", "folder": str(server.cwd)})
        await tab.open(made["id"])
        await tab.question.wait_for()
        shown = await tab.question.inner_text()
        assert long_line in shown
        assert "a\\u{a0}b.txt" in shown
        assert "right \\u{202e}to left" in shown


async def test_a_folder_whose_name_has_line_breaks_is_shown_in_one_line(tmp_path: Path) -> None:
    ask = {"call": "shell", "arguments": {"command": ["date"], "with_escalated_permissions": True}}
    async with browsing(tmp_path, [[ask], {"say": "Done."}], config=ASKING) as (server, chrome):
        odd = server.cwd / "a\nin \u202ehome"
        odd.mkdir()
        tab = await chrome.log_in()
        made = await Rest(server).post("/v1/conversations", {"prompt": "ask me", "folder": str(odd)})
        await tab.open(made["id"])
        await tab.question.wait_for()
        assert (await tab.page.locator(".in-folder").inner_text()).endswith("a\\u{a}in \\u{202e}home")
