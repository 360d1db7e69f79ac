"""For everybody: by keyboard alone, by screen reader, on a phone, in the dark, and noticed while elsewhere."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Route

from tests.page.browser import Tab, browsing, in_browser

pytestmark = in_browser

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
LONG = "a-very-long-name-that-has-no-place-to-break-" * 6
WIDE = f"# {LONG}\n\n| a | b |\n|---|---|\n| {LONG} | {LONG} |\n\n```\n{LONG}{LONG}\n```\n\nhttps://example.com/{LONG}"
ADD = f"*** Begin Patch\n*** Add File: {LONG[:90]}.txt\n+{LONG}\n*** End Patch\n"
ASK = {"command": ["touch", LONG], "with_escalated_permissions": True, "justification": LONG}
RICH: list[Any] = [
    [
        {"say": WIDE},
        {"call": "shell", "id": "one", "arguments": {"command": ["echo", LONG]}},
        {"call": "apply_patch", "id": "two", "arguments": {"input": ADD}},
    ],
    [{"call": "shell", "id": "three", "arguments": ASK}],
    {"say": "Done."},
]


async def to_question(tab: Tab, folder: Path) -> str:
    thread = await tab.start("Show everything", Folder=str(folder))
    await tab.question.wait_for()
    return thread


async def test_everything_is_reached_by_keyboard_alone(tmp_path: Path) -> None:
    answers = [*RICH, {"say": "By keyboard."}]
    async with browsing(tmp_path, answers, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        keys = tab.page.keyboard
        await keys.press("?")
        await tab.page.get_by_role("dialog", name="Keys").wait_for()
        await keys.press("Escape")
        await tab.page.get_by_role("dialog").wait_for(state="detached")
        await keys.press("n")
        await tab.until("() => document.activeElement?.tagName === 'TEXTAREA'")
        await keys.type("Do it")
        await keys.press("Tab")
        await keys.type(str(server.cwd))
        await keys.press("Enter")
        await tab.question.wait_for()
        await keys.press("q")
        await tab.until("() => document.activeElement?.className === 'question'")
        await tab.until("() => !document.querySelector('.question .primary').disabled")
        await keys.press("d")
        await tab.until("() => document.activeElement?.closest('.deny') !== null")
        await keys.type("No, thank you")
        await keys.press("Enter")
        await tab.sees("Done.", tab.timeline)
        await tab.sees("No, thank you", tab.timeline)
        await tab.until("() => document.activeElement?.className === 'timeline'")  # and not at the beginning of the page
        await keys.press("c")
        await keys.type("On")
        await keys.press("Enter")
        await tab.sees("By keyboard.", tab.timeline)
        await tab.until("() => document.querySelector('#message').value === ''")  # when it was sent the field has the focus again
        await keys.press("Escape")  # out of the field
        await keys.press("v")
        await tab.page.locator(".changes .diff-file").first.wait_for()
        await keys.press("u")
        await tab.page.locator("table.diff.unified").first.wait_for()
        await keys.press("v")
        await keys.press("r")
        await tab.page.get_by_role("dialog", name="Rename").wait_for()
        await keys.press("Control+A")
        await keys.type("Renamed by keyboard")
        await keys.press("Enter")
        await tab.by_role("heading", "Renamed by keyboard").wait_for()
        await keys.press("m")
        await tab.until("() => document.activeElement?.closest('.menu') !== null")
        await keys.press("ArrowDown")
        await tab.until("() => document.activeElement?.innerText === 'Fork'")
        await keys.press("Escape")
        await tab.page.locator(".menu").wait_for(state="detached")
        await keys.press("Escape")  # to the list
        await tab.until("() => location.hash === '#/'")
        await keys.press("j")
        await tab.until("() => document.activeElement?.classList.contains('row')")
        await keys.press("Enter")
        await tab.page.locator(".head").wait_for()
        await keys.press("/")
        await tab.until("() => document.activeElement?.id === 'search'")


async def test_all_controls_have_names_and_the_page_has_landmarks(tmp_path: Path) -> None:
    async with browsing(tmp_path, RICH, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        await tab.go("#/new")
        await tab.page.get_by_label("What should be done?").wait_for()
        assert await tab.probe("namelessControls") == []
        thread = await to_question(tab, server.cwd)
        assert await tab.probe("namelessControls") == []
        for role, name in (("navigation", "Conversations"), ("main", ""), ("region", "Messages"), ("region", "Questions for you")):
            assert await tab.page.get_by_role(role, **({"name": name} if name else {})).count() == 1, (role, name)  # type: ignore[arg-type]
        assert await tab.page.locator("h1").count() == 1
        await tab.page.locator('[role="log"]', has_text="A question waits for you").wait_for()
        await tab.button("More actions").click()
        assert await tab.probe("namelessControls") == []
        await tab.go(f"#/c/{thread}/changes")
        await tab.page.locator(".changes .diff-file").first.wait_for()
        assert await tab.probe("namelessControls") == []


async def test_a_phone_of_360_pixels_shows_everything_without_scrolling_sideways(tmp_path: Path) -> None:
    async with browsing(tmp_path, RICH, config=ASKING, width=360, height=740, has_touch=True, is_mobile=True) as (server, chrome):
        tab = await chrome.log_in()
        assert await tab.probe("tooWide") == []
        main = tab.page.get_by_role("main")
        assert await main.count() == 1
        assert await main.get_by_role("navigation", name="Conversations").count() == 1
        await tab.go("#/new")
        await tab.page.get_by_label("What should be done?").wait_for()
        assert await tab.probe("tooWide") == []
        await tab.go("#/")
        thread = await to_question(tab, server.cwd)
        assert await tab.probe("tooWide") == []
        assert await main.count() == 1
        assert await tab.page.get_by_role("navigation", name="Conversations").count() == 0
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)
        assert await tab.probe("tooWide") == []
        await tab.go(f"#/c/{thread}/changes")
        await tab.page.locator(".changes .diff-file").first.wait_for()
        for layout in ("Unified", "Side by side"):
            await tab.button(layout).click()
            assert await tab.probe("tooWide") == []
        await tab.page.get_by_role("link", name="Back to the list").click()
        await tab.rows.first.wait_for()
        assert await tab.probe("tooWide") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read_in_light_and_in_dark(tmp_path: Path, scheme: str) -> None:
    async with browsing(tmp_path, RICH, config=ASKING, color_scheme=scheme, reduced_motion="reduce") as (server, chrome):
        tab = await chrome.log_in()
        await to_question(tab, server.cwd)
        await tab.until("() => !document.querySelector('.question .primary').disabled")
        assert await tab.probe("faintText") == []
        paper = await tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(22, 24, 27)") == (scheme == "dark")


async def test_a_question_is_noticed_from_another_tab_by_title_and_notification(tmp_path: Path) -> None:
    ask = {"call": "shell", "arguments": {"command": ["date"], "with_escalated_permissions": True}}
    async with browsing(tmp_path, [[ask], {"say": "Done."}], config=ASKING, permissions=["notifications"]) as (server, chrome):
        tab = await chrome.log_in()
        await tab.page.evaluate(
            """() => { window.shown = []; window.Notification = class { static permission = "granted";
                constructor(title, options) { window.shown.push(`${title}: ${options.body}`); } };
                document.hasFocus = () => false; }"""
        )
        other = await chrome.tab()
        await other.start("Ask me", Folder=str(server.cwd))
        await other.question.wait_for()
        await tab.until("() => document.title.startsWith('(1) waiting')")
        await tab.until("() => window.shown.length > 0")
        assert await tab.page.evaluate("window.shown") == ["Understudy waits for you: Ask me"]
        await other.button("Approve").click()
        await tab.until("() => document.title === 'Understudy'")


async def test_notices_and_the_list_of_keys_leave_on_a_phone_what_is_needed_in_sight(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Done."}], config=FREE, width=360, height=740) as (server, chrome):
        tab = await chrome.log_in()
        await tab.start("Begin", Folder=str(server.cwd))
        await tab.sees("Done.", tab.timeline)
        for _ in range(2):
            await tab.act("Archive")
            await tab.sees("Archived.", tab.page.locator(".notices"))
            await tab.act("Take out of the archive")
        for controls in (".views a, .head .back, .composer button", ".menu > *"):
            if controls.startswith(".menu"):
                await tab.button("More actions").click()
            for control in await tab.page.locator(controls).all():
                assert await control.evaluate(UNCOVERED), await control.inner_text()
        await tab.page.keyboard.press("Escape")
        await tab.page.keyboard.press("?")
        keys = tab.page.get_by_role("dialog", name="Keys")
        for part in (keys.get_by_role("heading", name="Everywhere"), keys.get_by_role("button", name="Close")):
            assert await part.evaluate(UNCOVERED)


async def test_what_is_typed_while_a_message_is_on_its_way_is_kept(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "One."}, {"say": "Two."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        await tab.start("Begin", Folder=str(server.cwd))
        await tab.sees("One.", tab.timeline)
        held: list[Route] = []
        await tab.page.route("**/messages", lambda route: held.append(route))
        field = tab.page.get_by_label("Message", exact=True)
        await field.fill("First")
        async with tab.page.expect_request("**/messages"):
            await field.press("Enter")
        await field.press_sequentially(" second")
        await held[0].continue_()
        await tab.sees("Two.", tab.timeline)
        await tab.until("() => document.querySelector('#message').value === 'second'")
        assert await tab.page.locator(".user-message .words").last.inner_text() == "First"


UNCOVERED = """(element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    const found = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return element.contains(found);
}"""
