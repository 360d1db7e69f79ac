"""The search field finds conversations by what was said and run in them, and shows it as text."""

from __future__ import annotations

from pathlib import Path

from tests.page.browser import browsing, in_browser
from tests.page.hostile_texts import MARKUP
from tests.page.rest import Rest

pytestmark = in_browser

HOSTILE = " ".join(("marmalade", *MARKUP[:4]))


async def test_what_was_said_is_found_and_opened(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": HOSTILE}, {"say": "Nothing."}], config={"approval_policy": "never"}) as (server, chrome):
        rest = Rest(server)
        conversation = (await rest.post("/v1/conversations", {"prompt": "First words", "folder": str(server.cwd)}))["id"]
        await rest.until_idle(conversation)
        tab = await chrome.log_in()
        field = tab.page.get_by_label("Search conversations")
        await field.fill("marmalade")
        hit = tab.page.get_by_test_id("found").locator("a.hit")
        await hit.first.wait_for()
        assert await hit.count() == 1
        assert "<script>window.hacked=1</script>" in await hit.inner_text()
        assert await tab.probe("activeParts") == []
        await hit.click()
        await tab.page.wait_for_url(f"**/#/c/{conversation}")
        await field.fill("nothing-of-it")
        await tab.sees("Nothing found.", tab.page.get_by_test_id("found"))
        await field.fill("!!!")
        await tab.page.get_by_test_id("found").wait_for(state="detached")
        await field.fill("")
        await tab.page.get_by_test_id("found").wait_for(state="detached")
