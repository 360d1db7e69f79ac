"""Hostile texts wherever the page shows what others wrote: nothing of them is active, and nothing is fetched for them."""

import asyncio
from pathlib import Path
from typing import Any

from tests.page.browser import Tab, browsing, in_browser
from tests.page.hostile_texts import EVIL, HIDDEN_LETTERS, MARKUP, NAMES, TERMINAL, TEXTS
from tests.page.rest import Rest
from tests.support.http_server import HttpServer
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = in_browser

FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
ASKING = {"approval_policy": "on-request", "sandbox_mode": "read-only"}


async def assert_inert(tab: Tab) -> None:
    assert await tab.probe("activeParts") == []
    assert await tab.probe("unseenLetters") == []
    tab.check()


async def unfold_all(tab: Tab) -> None:
    await tab.page.keyboard.press("o")
    await tab.page.evaluate(
        """() => { for (const button of document.querySelectorAll('.fold[aria-expanded="false"]')) button.click(); }"""
    )


async def create(server: HttpServer, prompt: str) -> str:
    return (await Rest(server).post("/v1/conversations", {"prompt": prompt, "folder": str(server.cwd)}))["id"]


async def test_there_are_enough_of_them() -> None:
    assert len(set(TEXTS)) >= 100


async def test_messages_of_models_and_people_are_inert_while_they_grow_and_afterwards(tmp_path: Path) -> None:
    answers = [{"say": [text[: len(text) // 2], text[len(text) // 2 :]]} for text in TEXTS]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        rest = Rest(server)
        thread = await create(server, TEXTS[0])
        await rest.until_idle(thread)
        tab = await chrome.log_in()
        await tab.open(thread)
        for text in TEXTS[1:]:
            await rest.post(f"/v1/conversations/{thread}/messages", {"text": text})
            await rest.until_idle(thread)
        await tab.until("(count) => document.querySelectorAll('.user-message').length >= count", len(TEXTS))
        await tab.until("(count) => document.querySelectorAll('.items .agent-message').length >= count", len(TEXTS) - 2)
        await assert_inert(tab)
        shown = await tab.timeline.inner_text()
        for text in MARKUP:  # it is shown as what it is
            assert text.replace("\n", " ").replace("\t", " ")[:12] in shown.replace("\n", " "), text
        again = await chrome.tab(f"#/c/{thread}")  # from the log
        await again.until("() => document.querySelectorAll('.items .agent-message').length > 20")
        await assert_inert(again)


async def test_titles_and_folders_in_the_list_are_inert(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Done."}], config=FREE) as (server, chrome):
        rest = Rest(server)
        tab = await chrome.log_in()
        for text in TEXTS:
            await rest.post("/v1/conversations", {"prompt": text, "folder": str(server.cwd)})
        odd = server.cwd / "<img src=x onerror=window.hacked=1>\u202e"
        odd.mkdir()
        await rest.post("/v1/conversations", {"prompt": "in an odd folder", "folder": str(odd)})
        async with asyncio.timeout(WAIT_SECONDS):
            while (await rest.get("/v1/conversations?state=working"))["conversations"]:  # noqa: ASYNC110  # so that no row moves
                await asyncio.sleep(0.05)
        await tab.page.reload()
        await tab.until("() => document.querySelectorAll('.rows a.row').length >= 60")
        while await tab.rows.count() <= len(TEXTS):
            shown = await tab.rows.count()
            await tab.button("Show more").click()
            await tab.until("(count) => document.querySelectorAll('.rows a.row').length > count", shown)
        await assert_inert(tab)
        await tab.rows.first.click()
        await tab.page.locator(".head").wait_for()
        await assert_inert(tab)


async def test_what_the_page_itself_asks_and_tells_shows_hidden_letters_of_others(tmp_path: Path) -> None:
    """A title turns nothing around that stands behind it, and a refusal that quotes a text shows what is in it."""
    async with browsing(tmp_path, [{"say": "Done."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        await tab.open(await create(server, "keep \u202eme\u2066"))
        await tab.act("Delete …")
        await tab.sees("Delete “keep \\u{202e}me\\u{2066}” for good?", tab.page.get_by_role("dialog"))
        await assert_inert(tab)
        await tab.page.keyboard.press("Escape")
        await tab.page.evaluate("""async () => (await import("/page/app/state/notices.js")).tell("no \u202eway", "bad")""")
        await tab.sees("no \\u{202e}way", tab.page.locator(".notices"))


async def test_output_of_commands_and_their_words_are_inert(tmp_path: Path) -> None:
    noise = tmp_path / "work" / "noise.txt"
    noise.parent.mkdir()
    noise.write_text("\n".join(TEXTS))
    steps: list[Any] = [{"call": "shell", "arguments": {"command": ["cat", noise.name]}}]
    words = [["echo", text.replace("\x00", "")] for text in TEXTS[:40]]
    steps += [{"call": "shell", "arguments": {"command": argv}, "id": f"call-{number}"} for number, argv in enumerate(words)]
    plan = [{"step": text, "status": "pending"} for text in TEXTS]
    steps.append({"call": "update_plan", "id": "plan", "arguments": {"explanation": TEXTS[0], "plan": plan}})
    async with browsing(tmp_path, [steps, {"say": "Done."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        thread = await create(server, "make noise")
        await tab.open(thread)
        await tab.sees("Done.", tab.timeline)
        await unfold_all(tab)
        await tab.until("() => document.querySelectorAll('.output pre').length > 20")
        await assert_inert(tab)
        shown = await tab.timeline.inner_text()
        assert "red and plain" in shown
        for hidden in ("black on black", "white on white", "vanished", "reversed", "indexed", "curly"):
            assert hidden in shown
        assert await tab.probe("faintText") == []  # colours never hide a word
        assert "rm -rf everything" in shown  # nothing is painted over
        assert "\\u{202e}" in shown


async def test_names_and_lines_of_changed_files_are_inert_in_patches_diffs_and_questions(tmp_path: Path) -> None:
    body = "\n".join("+" + line for text in TEXTS for line in text.replace("\x00", "").split("\n"))
    files = "\n".join(f"*** Add File: {name}\n+{name}" for name in NAMES[:50])
    patch = f"*** Begin Patch\n{files}\n*** Add File: all.txt\n{body}\n*** End Patch\n"
    answers = [[{"call": "apply_patch", "arguments": {"input": patch}}], {"say": "Done."}]
    async with browsing(tmp_path, answers, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        thread = await create(server, "change files")
        await tab.open(thread)
        await tab.question.wait_for()
        await assert_inert(tab)
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)
        await unfold_all(tab)
        await assert_inert(tab)
        await tab.go(f"#/c/{thread}/changes")
        await tab.page.locator(".diff-file").first.wait_for()
        for layout in ("Unified", "Side by side"):
            await tab.button(layout).click()
            await unfold_all(tab)
            await assert_inert(tab)


async def test_questions_show_commands_and_reasons_inertly_and_exactly(tmp_path: Path) -> None:
    chosen = [*MARKUP[:6], *TERMINAL[:4], *HIDDEN_LETTERS[:5]]
    answers: list[Any] = [
        [{"call": "shell", "arguments": {"command": ["echo", text], "with_escalated_permissions": True, "justification": text}}]
        for text in chosen
    ]
    async with browsing(tmp_path, [*answers, {"say": "Done."}], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        thread = await create(server, "ask me")
        await tab.open(thread)
        for number, text in enumerate(chosen):
            await tab.until("(count) => document.querySelectorAll('.of-question').length > count", number)
            await tab.question.wait_for()
            await tab.page.locator(".question summary").click()
            await assert_inert(tab)
            if "\u202e" in text:
                assert "\\u{202e}" in await tab.page.locator(".question .command-line").inner_text()
            await tab.button("Deny …").click()
            await tab.page.get_by_label("A word to the model").fill(text)
            await tab.button("Deny").click()
        await tab.sees("Done.", tab.timeline)
        await assert_inert(tab)


async def test_links_of_models_lead_only_to_the_web_and_say_where(tmp_path: Path) -> None:
    text = (
        f"[https://bank.example]({EVIL}/phish) and [good](https://good.example/a) and https://plain.example/b and [x](javascript:1)"
    )
    async with browsing(tmp_path, [{"say": text}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        await tab.open(await create(server, "links"))
        await tab.sees("good", tab.timeline)
        links = tab.page.locator(".items .prose a")
        hrefs = await links.evaluate_all("(links) => links.map((link) => [link.getAttribute('href'), link.rel, link.target])")
        safe = ["noopener noreferrer", "_blank"]
        assert hrefs == [[f"{EVIL}/phish", *safe], ["https://good.example/a", *safe], ["https://plain.example/b", *safe]]
        assert f"({EVIL}/phish)" in await tab.timeline.inner_text()
        await assert_inert(tab)
