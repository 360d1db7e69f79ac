"""What a person does with a conversation besides talking: rename, fork, undo, compact, export, archive, delete, find."""

import asyncio
from pathlib import Path

from playwright.async_api import Route

from tests.page.browser import browsing, in_browser
from tests.page.rest import Rest
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = in_browser

FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
SHOWN = """(titles) =>
    JSON.stringify([...document.querySelectorAll(".row-title")].map((title) => title.innerText)) === JSON.stringify(titles)"""
ADD = "*** Begin Patch\n*** Add File: {}\n+one\n+two\n*** End Patch\n"


def add(name: str) -> dict[str, object]:
    return {"call": "apply_patch", "arguments": {"input": ADD.format(name)}}


async def test_a_conversation_is_renamed_on_every_tab(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("First name")
        await tab.sees("Hello.", tab.timeline)
        other = await chrome.tab(f"#/c/{thread}")
        await other.by_role("heading", "First name").wait_for()
        await tab.act("Rename")
        await tab.page.get_by_label("Title").fill("Second name")
        await tab.button("Save").click()
        for each in (tab, other):
            await each.by_role("heading", "Second name").wait_for()
            await each.sees("Second name", each.rows.first)


async def test_a_fork_from_a_message_has_what_was_said_up_to_it(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "One."}, {"say": "Two."}, {"say": "Three."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        first = await tab.start("Count")
        await tab.sees("One.", tab.timeline)
        await tab.send("On")
        await tab.sees("Two.", tab.timeline)
        await tab.page.locator(".user-message").first.hover()
        await tab.button("Fork from here").first.click()
        await tab.until("(first) => !location.hash.includes(first)", first)
        await tab.is_gone("Two.")  # the place changes a moment before what is shown
        await tab.sees("One.", tab.timeline)
        assert "Two." not in await tab.timeline.inner_text()
        await tab.until("() => document.querySelectorAll('.rows a.row').length === 2")


async def test_the_last_turn_is_undone_after_a_confirmation(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[add("made.txt")], {"say": "Done."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        await tab.start("Make it", Folder=str(server.cwd))
        await tab.sees("Done.", tab.timeline)
        assert (server.cwd / "made.txt").exists()
        await tab.act("Undo the last turn")
        await tab.button("Cancel").click()
        assert (server.cwd / "made.txt").exists()
        await tab.act("Undo the last turn")
        await tab.button("Undo").click()
        await tab.page.locator(".items .note", has_text="made.txt").wait_for()
        assert not (server.cwd / "made.txt").exists()


async def test_a_conversation_is_summed_up_for_the_model(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}, {"say": "A summary."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Talk")
        await tab.sees("Hello.", tab.timeline)
        await tab.act("Compact")
        await tab.sees("The conversation so far was summed up for the model.", tab.timeline)


async def test_changes_are_shown_of_a_turn_and_of_all_in_one_column_and_in_two(tmp_path: Path) -> None:
    change = "*** Begin Patch\n*** Update File: old.txt\n@@\n-one\n+two\n*** Add File: second.txt\n+new\n*** End Patch\n"
    answers = [[add("first.txt")], {"say": "One."}, [{"call": "apply_patch", "arguments": {"input": change}}], {"say": "Two."}]
    async with browsing(tmp_path, answers, config=FREE) as (server, chrome):
        (server.cwd / "old.txt").write_text("one\n")
        tab = await chrome.log_in()
        await tab.start("First", Folder=str(server.cwd))
        await tab.sees("One.", tab.timeline)
        await tab.send("Second")
        await tab.sees("Two.", tab.timeline)
        await tab.button("Changes of this turn").last.click()
        await tab.until("() => document.querySelectorAll('.changes .diff-file').length === 2")
        files = tab.page.locator(".changes .diff-file .path")
        assert await files.all_inner_texts() == ["old.txt", "second.txt"]
        await tab.page.get_by_label("Changes of", exact=True).select_option("The whole conversation")
        await tab.until("() => document.querySelectorAll('.changes .diff-file').length === 3")
        assert await files.all_inner_texts() == ["first.txt", "old.txt", "second.txt"]
        await tab.button("Side by side").click()
        assert await tab.page.locator("table.diff.split tr").all_inner_texts() == ["1\tone\t1\ttwo"]
        assert await tab.page.locator("table.diff.unified tr.added").count() == 3  # what is new has the whole width
        await tab.button("Unified").click()
        assert await tab.page.locator("table.diff.unified tr.added").count() == 4


async def test_a_conversation_is_exported_as_a_file(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "To be kept."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Say it")
        await tab.sees("To be kept.", tab.timeline)
        for name, ending in (("Export as Markdown", ".md"), ("Export as JSON", ".jsonl")):
            async with tab.page.expect_download() as waiting:
                await tab.act(name)
            download = await waiting.value
            assert download.suggested_filename.endswith(ending)
            assert "To be kept." in Path(await download.path()).read_text()


async def test_archived_conversations_leave_the_list_and_come_back(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        await tab.start("Put away")
        await tab.sees("Hello.", tab.timeline)
        await tab.act("Archive")
        await tab.rows.first.wait_for(state="detached")
        await tab.page.get_by_label("Filter by state").select_option("archived")
        await tab.rows.first.click()
        await tab.act("Take out of the archive")
        await tab.page.get_by_label("Filter by state").select_option("Any state")
        await tab.sees("Put away", tab.rows.first)


async def test_deleting_asks_first_and_then_is_for_good_on_every_tab(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Away with it")
        await tab.sees("Hello.", tab.timeline)
        other = await chrome.tab(f"#/c/{thread}")
        tab.expects_failures = other.expects_failures = True  # what is deleted is not found
        await other.sees("Hello.", other.timeline)
        await tab.act("Delete …")
        await tab.page.get_by_role("dialog").wait_for()
        await tab.page.keyboard.press("Escape")
        await tab.page.get_by_role("dialog").wait_for(state="detached")
        assert await tab.rows.count() == 1
        await tab.act("Delete …")
        await tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await tab.rows.first.wait_for(state="detached")
        await other.sees("This conversation was deleted")
        await other.rows.first.wait_for(state="detached")


async def test_what_waits_is_counted_whatever_the_list_is_filtered_by(tmp_path: Path) -> None:
    ask = {"call": "shell", "arguments": {"command": ["date"], "with_escalated_permissions": True}}
    config = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    async with browsing(tmp_path, [[ask], {"say": "Done."}], config=config) as (server, chrome):
        rest = Rest(server)
        first = (await rest.post("/v1/conversations", {"prompt": "One", "folder": str(server.cwd)}))["id"]
        await rest.until_asked(first)
        tab = await chrome.log_in()
        await tab.until("() => document.title.startsWith('(1) waiting')")
        search = tab.page.get_by_label("Search conversations")
        await search.fill("nothing is called this")
        await tab.sees("No conversation fits.")
        assert (await tab.page.title()).startswith("(1) waiting")
        second = (await rest.post("/v1/conversations", {"prompt": "Two", "folder": str(server.cwd)}))["id"]
        await rest.until_asked(second)
        await tab.until("() => document.title.startsWith('(2) waiting')")
        await search.fill("")
        await tab.page.get_by_label("Filter by state").select_option("idle")
        await tab.sees("No conversation fits.")
        tab.expects_failures = True
        await server.kill()
        await server.start()
        await tab.sees("Connected")
        await rest.post(
            f"/v1/conversations/{first}/decisions", {"call_id": (await rest.until_asked(first))["call_id"], "decision": "denied"}
        )
        await tab.until("() => document.title.startsWith('(1) waiting')")
        await search.press("Escape")
        await tab.page.keyboard.press("w")
        await tab.page.wait_for_url(f"**/#/c/{second}")


async def test_a_folder_as_a_filter_has_the_folders_below_it(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Done."}], config=FREE) as (server, chrome):
        (server.cwd / "below").mkdir()
        (server.cwd.parent / f"{server.cwd.name}-other").mkdir()
        for name in (server.cwd, server.cwd / "below", server.cwd.parent / f"{server.cwd.name}-other"):
            await Rest(server).post("/v1/conversations", {"prompt": f"In {name.name}", "folder": str(name)})
        tab = await chrome.log_in()
        await tab.until("() => document.querySelectorAll('.rows a.row').length === 3")
        await tab.page.get_by_label("Filter by folder").select_option(str(server.cwd))
        await tab.until(SHOWN, ["In below", f"In {server.cwd.name}"])


async def test_the_list_is_searched_and_filtered_and_what_waits_comes_first(tmp_path: Path) -> None:
    ask = {"call": "shell", "arguments": {"command": ["date"], "with_escalated_permissions": True}}
    config = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    async with browsing(tmp_path, [[ask], {"say": "Done."}], config=config) as (server, chrome):
        (server.cwd / "below").mkdir()
        rest = Rest(server)
        tab = await chrome.log_in()
        waiting = await rest.post("/v1/conversations", {"prompt": "Ask me", "folder": str(server.cwd)})
        for prompt, folder in (("Apples", server.cwd), ("Pears", server.cwd / "below")):
            row = await rest.post("/v1/conversations", {"prompt": prompt, "folder": str(folder)})
            await tab.sees(prompt, tab.page.locator(".rows"))
            call = (await rest.until_asked(row["id"]))["call_id"]
            await rest.post(f"/v1/conversations/{row['id']}/decisions", {"call_id": call, "decision": "denied"})
            await rest.until_idle(row["id"])
        await rest.until_asked(waiting["id"])
        section = tab.page.get_by_role("region", name="Waiting for you")
        await tab.until(SHOWN, ["Ask me", "Pears", "Apples"])
        await tab.until("() => document.querySelectorAll('.rows a.is-waiting').length === 1")
        assert await section.locator("a.row").get_attribute("data-id") == waiting["id"]
        await tab.page.get_by_label("Search conversations").fill("pear")
        await tab.until(SHOWN, ["Pears"])
        await tab.page.get_by_label("Search conversations").fill("")
        await tab.until("() => document.querySelectorAll('.rows a.row').length === 3")
        await tab.page.get_by_label("Filter by folder").select_option(str(server.cwd / "below"))
        await tab.until("() => document.querySelectorAll('.rows a.row').length === 1")
        await tab.page.get_by_label("Filter by folder").select_option("")
        await tab.page.get_by_label("Filter by state").select_option("waiting for you")
        await tab.until(SHOWN, ["Ask me"])


async def test_what_happens_while_the_list_is_on_its_way_is_in_it(tmp_path: Path) -> None:
    """The first answer of the reloaded page is old when it arrives."""
    arrives, arrived = asyncio.Event(), asyncio.Event()
    asked: list[Route] = []

    async def answer(route: Route) -> None:
        asked.append(route)
        first = len(asked) == 1
        response = await route.fetch()
        if first:
            await asyncio.wait_for(arrives.wait(), WAIT_SECONDS)
        await route.fulfill(response=response)
        if first:
            arrived.set()

    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (server, chrome):
        tab = await chrome.log_in()
        await tab.page.route("**/v1/conversations?*", answer)
        await tab.page.reload()
        await tab.sees("Connected", tab.page.locator(".sidebar"))
        await Rest(server).post("/v1/conversations", {"prompt": "Meanwhile", "folder": str(server.cwd)})
        await tab.sees("Meanwhile", tab.page.locator(".rows"))
        arrives.set()
        await asyncio.wait_for(arrived.wait(), WAIT_SECONDS)
        await Rest(server).post("/v1/conversations", {"prompt": "Later", "folder": str(server.cwd)})
        await tab.sees("Later", tab.page.locator(".rows"))
        assert await tab.rows.count() == 2


async def test_who_watches_is_shown(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}], config=FREE) as (_, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Look")
        await tab.sees("Hello.", tab.timeline)
        await chrome.tab(f"#/c/{thread}")
        await tab.sees("watching", tab.page.locator(".head"))
