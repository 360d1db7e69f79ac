"""What a screen reader is given: by the browser's own tree of accessible things, and by the rules of axe."""

from pathlib import Path
from typing import Any

import pytest

from tests.page.browser import Tab, browsing, in_browser
from tests.page.test_access import ASKING, RICH, to_question
from tests.support.environments import node_with

pytestmark = in_browser

USABLE = {"button", "link", "textbox", "searchbox", "combobox", "menuitem", "checkbox"}
RUN_AXE = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`);
}"""


async def read_out(tab: Tab, session: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Role, name and properties of everything that is not left out."""
    nodes = (await session.send("Accessibility.getFullAXTree"))["nodes"]
    return [
        (
            node.get("role", {}).get("value", ""),
            node.get("name", {}).get("value", "").strip(),
            {each["name"]: each["value"].get("value") for each in node.get("properties", ())},
        )
        for node in nodes
        if not node.get("ignored")
    ]


async def test_roles_names_and_news_are_in_the_browser_s_own_tree(tmp_path: Path) -> None:
    async with browsing(tmp_path, RICH, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        session: Any = await chrome.context.new_cdp_session(tab.page)
        await to_question(tab, server.cwd)
        await tab.by_role("heading", "Waiting for you").wait_for()  # the list comes a moment later
        tree = await read_out(tab, session)
        assert [role for role, name, _ in tree if role in USABLE and not name] == []
        found = {(role, name) for role, name, _ in tree}
        for expected in (
            ("navigation", "Conversations"),
            ("heading", "Show everything"),
            ("heading", "Waiting for you"),
            ("heading", "Run this command?"),
            ("region", "Messages"),
            ("region", "Questions for you"),
            ("article", "Command"),
            ("article", "Patch"),
            ("article", "Message of You"),
            ("button", "Approve"),
            ("button", "Deny …"),
            ("textbox", "Message"),
            ("button", "More actions"),
        ):
            assert expected in found, expected
        live = {name: properties["live"] for role, name, properties in tree if role == "log"}
        assert live == {"News of this conversation": "polite"}
        await tab.button("More actions").click()
        tree = await read_out(tab, session)
        expanded = [properties.get("expanded") for role, name, properties in tree if (role, name) == ("button", "More actions")]
        assert expanded == [True]
        await tab.page.keyboard.press("Escape")
        await tab.button("Deny …").click()
        assert ("textbox", "A word to the model (optional)") in {(role, name) for role, name, _ in await read_out(tab, session)}


async def test_an_answer_is_read_out_though_the_turn_ends_with_it(tmp_path: Path) -> None:
    """Each of the two is an addition to the log, which a screen reader reads; a text in the place of another may never be heard."""
    answers = [{"say": "Seven."}, {"say": "Eight."}, [{"say": "Nine."}, {"fail": "out of order"}]]
    async with browsing(tmp_path, answers) as (_, chrome):
        tab = await chrome.log_in()
        news = tab.page.locator('[role="log"] > p')
        await tab.start("Begin")
        for answer, message in (("Seven.", "On"), ("Eight.", "and on")):
            await tab.sees(answer, tab.timeline)
            await news.filter(has_text=answer).wait_for(state="attached")
            await tab.sees("idle", tab.page.locator(".head"))
            await tab.send(message)
        for told in ("Nine.", "out of order", "The turn failed."):
            await news.filter(has_text=told).wait_for(state="attached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_on_any_screen(tmp_path: Path, scheme: str) -> None:
    axe = (node_with("axe-core@4.14.0") / "node_modules" / "axe-core" / "axe.min.js").read_text()
    looks: dict[str, Any] = {
        "color_scheme": scheme,
        "reduced_motion": "reduce",
        "bypass_csp": True,
    }  # axe itself is no part of the page
    async with browsing(tmp_path, RICH, config=ASKING, **looks) as (server, chrome):
        tab = await chrome.log_in()

        async def check(screen: str) -> None:
            await tab.page.evaluate(axe)
            assert await tab.page.evaluate(RUN_AXE) == [], screen

        await check("list")
        await tab.go("#/new")
        await tab.page.get_by_label("What should be done?").wait_for()
        await check("new")
        await tab.go("#/")
        thread = await to_question(tab, server.cwd)
        await tab.until("() => !document.querySelector('.question .primary').disabled")
        await check("question")
        await tab.button("Deny …").click()
        await check("deny")
        await tab.button("Back").click()
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)
        await tab.button("More actions").click()
        await check("menu")
        await tab.page.keyboard.press("Escape")
        await tab.page.locator(".menu").wait_for(state="detached")
        await tab.page.keyboard.press("?")
        await tab.page.get_by_role("dialog", name="Keys").wait_for()
        await check("keys")
        await tab.page.keyboard.press("Escape")
        await tab.go(f"#/c/{thread}/changes")
        await tab.page.locator(".changes .diff-file").first.wait_for()
        await check("changes")
        tab.expects_failures = True
        await chrome.context.clear_cookies()
        await tab.page.goto(f"{chrome.origin}/login")
        await tab.page.get_by_label("Token").wait_for()
        await check("login")
