"""A question answered at once by the page, an MCP client, an editor and a terminal: one answer counts, and the page shows which.

`python -m tests.page.test_answer_race 200` plays as many rounds as one likes.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.page.browser import Chrome, Tab, in_browser, shared
from tests.support.answer_race import race
from tests.support.http_server import HttpServer

pytestmark = in_browser

PRESS = """(name) => {
    const found = [...document.querySelectorAll("article.question button")].find((button) => button.textContent === name);
    found?.click();
}"""
LAST = 20  # rounds whose outcome the page shows at once


class PageDoor:
    def __init__(self, tab: Tab) -> None:
        self._tab = tab

    async def ready(self, number: int, decision: str) -> None:
        card = self._tab.question.filter(has_text=f"echo {number} ")
        await card.wait_for()
        await card.get_by_role("button", name="Approve", disabled=False).wait_for()
        if decision == "denied":
            await self._tab.button("Deny …").click()

    async def answer(self, decision: str) -> None:
        """By a press of the button, if the question is still there: another answer may have taken it away."""
        await self._tab.page.evaluate(PRESS, "Approve" if decision == "approved" else "Deny")

    async def check(self, counting: list[str]) -> None:
        await self._tab.question.wait_for(state="detached")
        await self._tab.sees("done", self._tab.timeline)
        shown = await self._tab.page.locator(".of-question").all_inner_texts()
        last = min(LAST, len(counting))
        assert [next(word for word in ("approved", "denied") if word in text) for text in shown[-last:]] == counting[-last:]


@asynccontextmanager
async def by_page(server: HttpServer, thread: str) -> AsyncGenerator[PageDoor]:
    context = await (await shared.browser()).new_context()
    try:
        tab = await Chrome(context, server).log_in()
        tab.expects_failures = True  # an answer that comes second is refused
        await tab.open(thread)
        yield PageDoor(tab)
        tab.check()
    finally:
        await context.close()


async def test_of_four_answers_at_once_one_counts_and_the_page_shows_which(tmp_path: Path) -> None:
    await race(tmp_path, 20, random.Random(3), by_page)


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await race(Path(folder), rounds, random.Random(), by_page)
    await shared.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
