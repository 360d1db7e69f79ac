"""What the page says about a conversation is true and live: tokens and cost, the end of a question, colours, what was chosen."""

from pathlib import Path
from typing import Any

from PIL import Image

from tests.page.browser import browsing, in_browser
from tests.page.rest import Rest

pytestmark = in_browser

FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
PRICES = {'understudy.prices."scripted".input': 100, 'understudy.prices."scripted".output': 1000}
ASK = {"call": "shell", "arguments": {"command": ["date"], "with_escalated_permissions": True}}


async def test_tokens_and_cost_grow_with_every_turn_in_the_head_and_in_the_list(tmp_path: Path) -> None:
    answers = [
        [{"say": "One."}, {"usage": {"input": 2000, "output": 345}}],
        [{"say": "Two."}, {"usage": {"input": 3000, "output": 655}}],
    ]
    async with browsing(tmp_path, answers, config={**FREE, **PRICES}) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Count")
        await tab.sees("One.", tab.timeline)
        head = tab.page.locator(".head")
        await tab.sees("2.3k tokens", head)
        await tab.sees("$0.55", head)  # 2000 for 100 and 345 for 1000 dollars the million
        await tab.send("On")
        await tab.sees("Two.", tab.timeline)
        await tab.sees("6k tokens", head)
        await tab.sees("$1.50", head)
        row = await Rest(server).until_idle(thread)
        assert (row["tokens"], row["cost_usd"]) == (6000, 1.5)
        again = await chrome.tab(f"#/c/{thread}")
        await again.sees("$1.50", again.page.locator(".head"))


async def test_a_question_that_comes_up_live_says_when_it_ends_by_itself(tmp_path: Path) -> None:
    wait = {"command": ["bash", "-lc", "while [ ! -e go ]; do sleep 0.05; done"]}
    answers: list[Any] = [[{"call": "shell", "id": "wait", "arguments": wait}], [ASK], {"say": "Done."}]
    async with browsing(tmp_path, answers, config={**ASKING, "understudy.question_timeout": 3600}) as (server, chrome):
        tab = await chrome.log_in()
        await tab.start("Ask me", Folder=str(server.cwd))
        await tab.page.locator(".command.running").wait_for()
        tab.requests.clear()
        (server.cwd / "go").touch()
        await tab.sees("It is denied at", tab.question)
        assert [sent for sent in tab.requests if "/v1/conversations/" in sent] == [], "by the event alone"
        await tab.button("Approve").click()
        await tab.sees("Done.", tab.timeline)


async def test_output_has_its_colours_and_they_can_be_read(tmp_path: Path) -> None:
    paint = "printf '\\033[1;31mbad\\033[0m \\033[32mgood\\033[0m \\033[30;40mseen\\033[0m\\n'; exit 3"
    show = {"call": "shell", "arguments": {"command": ["bash", "-lc", paint]}}
    for scheme in ("light", "dark"):
        folder = tmp_path / scheme
        async with browsing(folder, [[show], {"say": "Done."}], config=FREE, color_scheme=scheme) as (server, chrome):
            tab = await chrome.log_in()
            await tab.start("Paint", Folder=str(server.cwd))
            await tab.sees("Done.", tab.timeline)
            output = tab.page.locator(".output pre")
            assert await output.inner_text() == "bad good seen"
            spans = await output.locator("span").evaluate_all("(spans) => spans.map((span) => [span.className, span.textContent])")
            assert spans == [["red bold", "bad"], ["green", "good"]]
            assert await tab.probe("faintText") == []


async def test_what_is_chosen_at_the_start_holds_and_a_turn_is_undone_at_its_message(tmp_path: Path) -> None:
    patches = [f"*** Begin Patch\n*** Add File: {name}\n+one\n*** End Patch\n" for name in ("first.txt", "second.txt")]
    steps = [[{"call": "apply_patch", "arguments": {"input": patch}}] for patch in patches]
    answers = [steps[0], {"say": "One."}, steps[1], {"say": "Two."}]
    async with browsing(tmp_path, answers, config=ASKING) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("First", Folder=str(server.cwd), Model="scripted", Ask_me="never", Commands_may="workspace-write")
        await tab.sees("One.", tab.timeline)
        row = await Rest(server).get(f"/v1/conversations/{thread}")
        assert (row["model"], row["approval_policy"], row["sandbox"]) == ("scripted", "never", "workspace-write")
        await tab.send("Second")
        await tab.sees("Two.", tab.timeline)
        await tab.page.locator(".user-message").first.hover()
        await tab.button("Undo this turn").first.click()
        await tab.button("Undo").click()
        await tab.page.locator(".items .note", has_text="first.txt").wait_for()
        assert not (server.cwd / "first.txt").exists()
        assert (server.cwd / "second.txt").exists()


async def test_a_picture_that_the_agent_looks_at_is_shown(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[{"call": "view_image", "arguments": {"path": "dot.png"}}], {"say": "Teal."}], config=FREE) as (
        server,
        chrome,
    ):
        Image.new("RGB", (40, 30), "teal").save(server.cwd / "dot.png")
        tab = await chrome.log_in()
        await tab.start("Look", Folder=str(server.cwd))
        await tab.sees("Teal.", tab.timeline)
        await tab.until("() => document.querySelector('.items img')?.naturalWidth === 40")
