"""Two tabs always agree, and a tab that has slept catches up: whatever was done meanwhile, and wherever."""

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.page.browser import Tab, browsing, in_browser
from tests.page.rest import Rest
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = in_browser

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
ASK = {"command": ["date"], "with_escalated_permissions": True}
SHOWS = """() => ({
    items: [...document.querySelectorAll(".items > li")].map((item) => item.innerText.replace(/\\s+/g, " ")),
    live: document.querySelector(".live")?.innerText ?? "",
    questions: document.querySelectorAll("article.question").length,
    head: document.querySelector(".head h1").innerText,
    state: document.querySelector(".head .state").innerText,
    rows: [...document.querySelectorAll(".rows .row-title")].map((title) => title.innerText),
    title: document.title,
})"""


async def assert_agree(one: Tab, other: Tab, thread: str, server: Any) -> None:
    await Rest(server).until_idle(thread)
    for tab in (one, other):
        await tab.sees("idle", tab.page.locator(".head"))
        await tab.question.wait_for(state="detached")
    async with asyncio.timeout(WAIT_SECONDS):
        while await one.page.evaluate(SHOWS) != await other.page.evaluate(SHOWS):  # noqa: ASYNC110  # the list comes later
            await asyncio.sleep(0.05)


async def test_whatever_is_done_in_one_of_two_tabs_both_show_the_same(tmp_path: Path) -> None:
    chance = random.Random(16)
    turn: list[Any] = [[{"say": "May I?"}, {"call": "shell", "arguments": ASK}], {"say": "Said."}]
    async with browsing(tmp_path, turn * 5, config=ASKING) as (server, chrome):
        tabs = [await chrome.log_in()]
        thread = await tabs[0].start("Begin", Folder=str(server.cwd))
        tabs.append(await chrome.tab(f"#/c/{thread}"))
        for tab in tabs:
            tab.expects_failures = True  # the second of two answers is refused
        for number, answer in enumerate(["Approve", "both", "Deny", "elsewhere", "Stop"]):
            one, other = chance.sample(tabs, 2)
            for tab in tabs:
                await tab.page.locator(".question .answers button:not([disabled])").first.wait_for()
            if answer == "elsewhere":
                call = (await Rest(server).until_asked(thread))["call_id"]
                await Rest(server).post(f"/v1/conversations/{thread}/decisions", {"call_id": call, "decision": "approved"})
            elif answer == "Deny":
                await one.button("Deny …").click()
                await one.page.get_by_label("A word to the model").fill("not now")
                await one.button("Deny").click()
            else:
                await one.button("Approve" if answer == "both" else answer).first.click()
                if answer == "both":
                    await other.page.evaluate("() => document.querySelector('.question .primary')?.click()")
            await assert_agree(one, other, thread, server)
            if number < 4:
                await other.send(f"Message {number}")
                await one.sees(f"Message {number}", one.timeline)


async def test_a_tab_that_was_frozen_while_the_server_was_started_again_catches_up_by_itself(tmp_path: Path) -> None:
    answers = [{"say": "Before."}, {"say": "While it slept."}, {"say": "After."}]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Talk")
        await tab.sees("Before.", tab.timeline)
        tab.expects_failures = True
        session: Any = await chrome.context.new_cdp_session(tab.page)
        await session.send("Page.setWebLifecycleState", {"state": "frozen"})  # as a laptop that is closed does it
        await server.kill()
        await server.start()
        rest = Rest(server)
        await rest.post(f"/v1/conversations/{thread}/messages", {"text": "Are you there?"})
        await rest.until_idle(thread)
        await session.send("Page.setWebLifecycleState", {"state": "active"})
        await tab.sees("While it slept.", tab.timeline)
        await tab.send("I am back")
        await tab.sees("After.", tab.timeline)
        text = await tab.timeline.inner_text()
        assert [text.count(word) for word in ("Before.", "While it slept.", "After.")] == [1, 1, 1]
