"""Questions on the page: what is asked is shown exactly; each answer does what it says; the first one counts."""

import asyncio
from pathlib import Path
from typing import Any

from tests.page.browser import Tab, browsing, in_browser
from tests.page.rest import Rest
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = in_browser

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
READING = {"approval_policy": "on-request", "sandbox_mode": "read-only"}


def touch(name: str, call_id: str = "call-1") -> dict[str, Any]:
    arguments = {"command": ["touch", name], "with_escalated_permissions": True, "justification": "it is needed"}
    return {"call": "shell", "id": call_id, "arguments": arguments}


async def ask(tab: Tab, folder: Path) -> str:
    thread = await tab.start("Make it", Folder=str(folder))
    await tab.question.wait_for()
    return thread


async def test_a_command_is_asked_about_with_its_reason_and_runs_once_approved(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[touch("made.txt")], {"say": "Done."}], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        await ask(tab, server.cwd)
        shown = await tab.question.inner_text()
        assert "touch made.txt" in shown
        assert str(server.cwd) in shown
        assert "it is needed" in shown
        assert "outside the sandbox" in shown
        assert not (server.cwd / "made.txt").exists()
        await tab.until("() => document.title.startsWith('(1) waiting')")
        await tab.by_role("heading", "Waiting for you").wait_for()
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)
        assert (server.cwd / "made.txt").exists()
        await tab.question.wait_for(state="detached")
        await tab.sees("approved by you", tab.timeline)
        await tab.sees("outside the sandbox", tab.page.locator(".of-command"))
        await tab.until("() => !document.title.includes('waiting')")


async def test_an_approval_for_the_session_spares_the_second_question(tmp_path: Path) -> None:
    answers = [[touch("made.txt")], [touch("made.txt", "call-2")], {"say": "Done."}]
    async with browsing(tmp_path, answers, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        await ask(tab, server.cwd)
        await tab.button("For the session").click()
        await tab.sees("Done.", tab.timeline)
        assert await tab.page.locator(".of-question").count() == 1


async def test_a_denial_takes_a_word_to_the_model(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[touch("made.txt")], {"say": "As you like."}], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        thread = await ask(tab, server.cwd)
        await tab.button("Deny …").click()
        await tab.page.get_by_label("A word to the model").fill("Use another name")
        await tab.button("Deny").click()
        await tab.sees("As you like.", tab.timeline)
        await tab.sees("Use another name", tab.page.locator(".of-question"))
        assert not (server.cwd / "made.txt").exists()
        events = (await Rest(server).get(f"/v1/conversations/{thread}/events"))["events"]
        decided = [event["msg"] for event in events if event["msg"]["type"] == "approval_decided"]
        assert [(each["decision"], each["message"]) for each in decided] == [("denied", "Use another name")]


async def test_stopping_at_a_question_ends_the_turn(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[touch("made.txt")]], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        thread = await ask(tab, server.cwd)
        await tab.button("Stop").click()
        await tab.question.wait_for(state="detached")
        await tab.sees("Stopped.", tab.timeline)
        assert (await Rest(server).until_idle(thread))["state"] == "interrupted"


async def test_a_patch_is_shown_as_its_diff_before_it_is_applied(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: new.txt\n+first\n+second\n*** End Patch\n"
    answers = [[{"call": "apply_patch", "arguments": {"input": patch}}], {"say": "Done."}]
    async with browsing(tmp_path, answers, config=READING) as (server, chrome):
        tab = await chrome.log_in()
        await ask(tab, server.cwd)
        assert await tab.question.locator("tr.added").count() == 2
        assert "new.txt" in await tab.question.inner_text()
        assert not (server.cwd / "new.txt").exists()
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)
        assert (server.cwd / "new.txt").read_text() == "first\nsecond\n"


async def test_two_tabs_see_the_same_and_who_is_second_is_told(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[touch("made.txt")], {"say": "Done."}], config=ASKING) as (server, chrome):
        first = await chrome.log_in()
        thread = await ask(first, server.cwd)
        second = await chrome.tab(f"#/c/{thread}")
        await second.question.wait_for()
        told = first.sees("The question was approved by you.")  # for some seconds
        await asyncio.gather(told, second.button("Approve").click())
        await first.question.wait_for(state="detached")
        for tab in (first, second):
            await tab.sees("Done.", tab.timeline)
        async with asyncio.timeout(WAIT_SECONDS):
            while await first.timeline.inner_text() != await second.timeline.inner_text():  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_an_answer_that_comes_second_is_refused_with_who_was_first(tmp_path: Path) -> None:
    """The tab does not hear of the first answer: its stream is held up."""
    async with browsing(tmp_path, [[touch("made.txt")], {"say": "Done."}], config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        thread = await ask(tab, server.cwd)
        tab.expects_failures = True
        await tab.page.context.set_offline(True)
        call = await tab.question.get_attribute("data-call")
        await Rest(server).post(f"/v1/conversations/{thread}/decisions", {"call_id": call, "decision": "denied"})
        await tab.page.context.set_offline(False)
        await tab.page.evaluate(
            """async ([url, call]) => {
                const { post } = await import("/page/app/net/api.js");
                window.told = await post(url, { call_id: call, decision: "approved" }).catch((error) => error.message);
            }""",
            [f"v1/conversations/{thread}/decisions", call],
        )
        assert "denied, by local" in await tab.page.evaluate("window.told")
        await tab.question.wait_for(state="detached")
        assert not (server.cwd / "made.txt").exists()


async def test_somebody_who_may_only_read_sees_the_question_and_cannot_answer(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[touch("made.txt")], {"say": "Done."}], config=ASKING) as (server, chrome):
        thread = (await Rest(server).post("/v1/conversations", {"prompt": "Make it", "folder": str(server.cwd)}))["id"]
        await Rest(server).until_asked(thread)
        tab = await chrome.log_in_with(await server.add_token("auditor", "--rights", "read", "--others", "read"))
        await tab.open(thread)
        await tab.question.wait_for()
        await tab.sees("You may watch this conversation, but not answer for it.")
        assert await tab.button("Approve").count() == 0
        assert await tab.page.get_by_label("Message", exact=True).count() == 0
        await tab.sees("Connected as auditor")
        assert await tab.page.locator(".user-message strong").inner_text() == "User", "it is not the reader who wrote it"
        for name in ("Fork from here", "Undo this turn", "Stop"):
            assert await tab.button(name).count() == 0, name
        assert await tab.page.get_by_role("link", name="New", exact=True).count() == 0
        await tab.page.keyboard.press("r")
        await tab.page.keyboard.press("n")
        await tab.page.keyboard.press("?")  # the first that does something
        await tab.page.get_by_role("dialog", name="Keys").wait_for()
        await tab.page.keyboard.press("Escape")
        assert tab.page.url.endswith(thread)
        await tab.button("More actions").click()
        assert await tab.page.locator(".menu > *").all_inner_texts() == ["Export as Markdown", "Export as JSON"]
        await tab.go("#/new")
        await tab.sees("You may watch conversations, but not start one.")


async def test_a_long_question_leads_to_its_answers_and_nothing_covers_them(tmp_path: Path) -> None:
    script = "\n".join(f"echo line {number}" for number in range(80))
    ask = {"call": "shell", "arguments": {"command": ["bash", "-lc", script], "with_escalated_permissions": True}}
    answers = [[{"say": "word " * 4000}, ask], {"say": "Done."}]
    async with browsing(tmp_path, answers, config=ASKING, width=360, height=740, has_touch=True, is_mobile=True) as (
        server,
        chrome,
    ):
        tab = await chrome.log_in()
        await tab.start("Ask", Folder=str(server.cwd))
        await tab.question.wait_for()
        while await tab.button("Read on ↓").count():
            before = await tab.page.evaluate("() => document.querySelector('.questions').scrollTop")
            await tab.button("Read on ↓").click()
            await tab.until("(before) => document.querySelector('.questions').scrollTop > before", before)
            await tab.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        await tab.page.evaluate("() => { document.querySelector('.timeline').scrollTop = 0; }")
        await tab.page.get_by_role("button", name="Newest").wait_for()
        for name in ("Approve", "For the session", "Deny …", "Stop"):
            assert await tab.button(name).evaluate(IN_SIGHT), name
        await tab.button("Deny …").click()
        await tab.until("() => document.activeElement?.closest('.deny') !== null")
        for name in ("Deny", "Back"):
            assert await tab.button(name).evaluate(IN_SIGHT), name
        await tab.page.keyboard.press("Escape")  # out of the denial, and not out of the conversation
        await tab.button("Approve").wait_for()
        assert await tab.page.evaluate("document.activeElement.className") == "question"
        await tab.page.keyboard.press("x")
        await tab.question.wait_for(state="detached")


IN_SIGHT = """(button) => {
    const { left, right, top, bottom } = button.getBoundingClientRect();
    return [[left + 6, top + 6], [right - 6, bottom - 6], [(left + right) / 2, (top + bottom) / 2]]
        .every(([x, y]) => button.contains(document.elementFromPoint(x, y)));
}"""
