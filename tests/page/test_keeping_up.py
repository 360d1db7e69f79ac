"""The page keeps up: with ten thousand records, with a fast stream, with a server that goes away and a network that does."""

from pathlib import Path
from typing import Any

from tests.page.browser import Tab, browsing, in_browser, login_link
from tests.page.rest import Rest
from understudy.testing import HOLD, ScriptedModel, deltas
from understudy.testing.home import provider_settings

pytestmark = in_browser

FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
MOST_ITEMS = 800
MOST_NODES = 12_000


def ten_thousand() -> list[Any]:
    """A hundred rounds of a hundred records."""
    plan = {"plan": [{"step": "go on", "status": "in_progress"}]}
    rounds = range(100)
    return [
        [
            *({"say": f"Message {number * 99 + step} of **many**."} for step in range(99)),
            {"call": "update_plan", "id": f"p{number}", "arguments": plan},
        ]
        for number in rounds
    ]


async def nodes(tab: Tab) -> tuple[int, int]:
    items, all_nodes = await tab.page.evaluate(
        "() => [document.querySelectorAll('.items > li').length, document.querySelectorAll('*').length]"
    )
    return items, all_nodes


async def first_item(tab: Tab) -> str:
    return await tab.page.evaluate("() => document.querySelector('.items > li').dataset.key")


async def test_ten_thousand_records_are_read_from_the_end_backwards_in_a_bounded_page(tmp_path: Path) -> None:
    answers = [*ten_thousand(), {"say": "The end."}, {"say": "Said later."}]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        rest = Rest(server)
        thread = (await rest.post("/v1/conversations", {"prompt": "The beginning", "folder": str(server.cwd)}))["id"]
        assert (await rest.until_idle(thread))["last_seq"] > 10_000
        tab = await chrome.log_in()
        await tab.open(thread)
        await tab.sees("The end.", tab.timeline)
        items, _ = await nodes(tab)
        assert items < 300
        for _ in range(8):  # upwards: more is read, and what is far below is dropped
            before = await first_item(tab)
            await tab.page.evaluate("() => { document.querySelector('.timeline').scrollTop = 0; }")
            await tab.until("(before) => document.querySelector('.items > li').dataset.key !== before", before)
            assert await tab.page.evaluate("() => document.querySelector('.timeline').scrollTop") > 0  # the reader stays in place
            items, all_nodes = await nodes(tab)
            assert items < MOST_ITEMS
            assert all_nodes < MOST_NODES
        await rest.post(f"/v1/conversations/{thread}/messages", {"text": "Go on"})
        await rest.until_idle(thread)
        assert "Said later." not in await tab.timeline.inner_text()  # nothing moves under the reader's eyes
        await tab.page.get_by_role("button", name="Newest").click()
        await tab.sees("Said later.", tab.timeline)
        await tab.page.keyboard.press("g")
        await tab.sees("The beginning", tab.timeline)
        assert (await nodes(tab))[0] < MOST_ITEMS


async def test_a_thousand_pieces_of_text_are_all_shown_and_the_end_stays_in_sight(tmp_path: Path) -> None:
    pieces = [f"word{number} " + ("\n\n" if number % 50 == 49 else "") for number in range(3000)]
    async with browsing(tmp_path, [{"say": [*pieces, "**The last.**"]}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Speak fast")
        await tab.sees("The last.", tab.page.locator(".items"))
        text = await tab.page.locator(".items .agent-message").inner_text()
        assert text.split() == [*(f"word{number}" for number in range(3000)), "The", "last."]
        await tab.until(
            "() => { const t = document.querySelector('.timeline'); return t.scrollHeight - t.scrollTop - t.clientHeight < 50; }"
        )


async def test_the_page_goes_on_by_itself_after_a_restart_of_the_server(tmp_path: Path) -> None:
    answers = [{"say": "Before."}, {"say": "After."}]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Talk")
        await tab.sees("Before.", tab.timeline)
        tab.expects_failures = True
        await server.kill()
        await tab.sees("Connection lost; trying again …")
        await server.start()
        await tab.sees("Connected", tab.page.locator(".sidebar"))
        await Rest(server).post(f"/v1/conversations/{thread}/messages", {"text": "From elsewhere"})
        await tab.sees("From elsewhere", tab.timeline)
        await tab.sees("After.", tab.timeline)
        assert (await tab.timeline.inner_text()).count("Before.") == 1
        assert (await tab.timeline.inner_text()).count("After.") == 1
        await tab.is_gone("Connection lost; trying again …")


async def test_a_question_that_was_open_when_the_server_was_killed_is_answered_after_its_restart(tmp_path: Path) -> None:
    ask = {"command": ["touch", "made.txt"], "with_escalated_permissions": True}
    async with browsing(tmp_path, [[{"call": "shell", "arguments": ask}], {"say": "Done."}], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        await tab.start("Make it", Folder=str(server.cwd))
        await tab.question.wait_for()
        tab.expects_failures = True
        await server.kill()
        await tab.sees("Connection lost; trying again …")
        await server.start()
        await tab.is_gone("Connection lost; trying again …")
        await tab.question.wait_for()
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)
        assert (server.cwd / "made.txt").exists()


async def test_nothing_is_lost_or_doubled_where_the_network_goes_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    pieces = [f"{number}." for number in range(400)]
    async with (
        ScriptedModel([deltas([*pieces[:200], HOLD, *pieces[200:]])]) as model,
        browsing(tmp_path, config={**provider_settings(model), **FREE}) as (server, chrome),
    ):
        tab = await chrome.log_in()
        thread = await tab.start("Count")
        await tab.sees("199.", tab.page.locator(".live"))
        tab.expects_failures = True
        await chrome.context.set_offline(True)
        await tab.page.evaluate("() => dispatchEvent(new Event('online'))")
        model.release()
        await Rest(server).until_idle(thread)
        await chrome.context.set_offline(False)
        await tab.sees("399.", tab.page.locator(".items"))
        text = "".join((await tab.page.locator(".items .agent-message").inner_text()).split())
        assert text == "".join(pieces)


async def test_a_tab_that_is_opened_in_the_middle_of_an_answer_has_all_of_it_once(tmp_path: Path) -> None:
    half = ["One. ", "Two. ", "Three. "]
    async with browsing(tmp_path, [[{"say": half, "unfinished": True}, {"hang": True}]], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Count")
        await tab.sees("Three.", tab.page.locator(".live"))
        late = await chrome.tab(f"#/c/{thread}")
        await late.sees("Three.", late.page.locator(".live"))
        assert (await late.page.locator(".live .prose").inner_text()).split() == ["One.", "Two.", "Three."]
        await late.button("Stop").click()
        await tab.sees("Stopped.", tab.timeline)
        await late.sees("Stopped.", late.timeline)


async def test_what_changes_just_after_a_part_of_the_page_was_rendered_is_shown(tmp_path: Path) -> None:
    """In that frame nothing watches yet: the effect that begins to comes after the frame."""
    script = """async () => {
        const { html, render } = await import("/page/app/preact.js");
        const { Observed, useObserved } = await import("/page/app/state/observed.js");
        const state = new Observed();
        state.text = "before";
        const Part = () => html`<p class="just-rendered">${useObserved(state).text}</p>`;
        render(html`<${Part} />`, document.body.appendChild(document.createElement("div")));
        state.text = "after";
        state.changed();
    }"""
    async with browsing(tmp_path) as (_, chrome):
        tab = await chrome.log_in()
        await tab.page.evaluate(script)
        await tab.sees("after", tab.page.locator(".just-rendered"))


async def test_a_login_that_has_ended_is_told_and_another_one_is_offered(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Talk")
        await tab.sees("Hello.", tab.timeline)
        tab.expects_failures = True
        await chrome.context.clear_cookies()
        await tab.page.reload()
        await tab.page.get_by_label("Token").fill("wrong")
        await tab.button("Log in").click()
        await tab.sees("understudy open")
        await tab.page.get_by_label("Token").fill(server.token)
        await tab.button("Log in").click()
        await tab.sees("Connected", tab.page.locator(".sidebar"))
        await tab.sees("Hello.", tab.timeline)
        assert tab.page.url == f"{chrome.origin}/#/c/{thread}"


async def test_a_link_that_logs_in_leads_to_its_conversation_once(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (server, chrome):
        thread = (await Rest(server).post("/v1/conversations", {"prompt": "Talk", "folder": str(server.cwd)}))["id"]
        link = f"{await login_link(server)}#/c/{thread}"
        tab = await chrome.tab(link.removeprefix(f"{chrome.origin}/"))
        await tab.sees("Hello.", tab.timeline)
        assert tab.page.url == f"{chrome.origin}/#/c/{thread}"
        tab.expects_failures = True  # it loses its cookie
        await chrome.context.clear_cookies()
        again = await chrome.tab(link.removeprefix(f"{chrome.origin}/"), expects_failures=True)
        await again.sees("this link was used already")
        assert "code=" not in again.page.url


async def test_a_conversation_that_cannot_be_opened_says_why_and_opens_as_soon_as_it_can(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (server, chrome):
        rest = Rest(server)
        thread = (await rest.post("/v1/conversations", {"prompt": "Greet", "folder": str(server.cwd)}))["id"]
        await rest.until_idle(thread)
        tab = await chrome.log_in()
        tab.expects_failures = True
        full = {"error": {"code": "unavailable", "message": "the disk is full"}}
        await tab.page.route("**/events?*", lambda route: route.fulfill(status=503, json=full))
        await tab.go(f"#/c/{thread}")
        await tab.sees("the disk is full", tab.page.get_by_role("main"))
        await tab.page.unroute("**/events?*")
        await tab.sees("Hello.", tab.timeline)
