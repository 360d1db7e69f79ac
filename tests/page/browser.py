"""A headless Chromium before a real server, and a watch on everything that must not happen in it.

The browser is the one of the machine (`chromium`, `google-chrome`), not one that playwright downloads. Where there is none, the
tests that need it are skipped; `UNDERSTUDY_CHROMIUM` names one that is elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, Playwright, Request, async_playwright

from tests.support.http_server import HttpServer
from understudy.testing.waiting import WAIT_SECONDS

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ELSEWHERE = "understudy.test"  # a name that leads to the server, as if it were on another machine
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
)
START_MS = max(30.0, WAIT_SECONDS) * 1000  # that the browser has to begin
_LINK = re.compile(r"http\S+/login\?code=[A-Z2-7]+\S*")
_PROBES = Path(__file__).with_name("probes.js").read_text()
_LISTEN = """addEventListener("securitypolicyviolation", (event) => {
    console.error(`VIOLATION ${event.effectiveDirective} ${event.blockedURI}`);
});"""


def find_chromium() -> str | None:
    named = os.environ.get("UNDERSTUDY_CHROMIUM")
    return named or next((found for name in _NAMES if (found := shutil.which(name))), None)


CHROMIUM = find_chromium()
in_browser = [
    pytest.mark.asyncio(loop_scope="session"),  # the browser's, which outlives a test
    pytest.mark.slow,
    pytest.mark.xdist_group("chromium"),  # one browser at a time
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (apt-get install chromium, or UNDERSTUDY_CHROMIUM)"),
]


class Tab:
    """A tab of the browser that is at the page. `wrong` collects what must not happen: errors, violations, foreign requests."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self._origin = origin
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.expects_failures = False  # while the server is away, requests fail
        page.set_default_timeout(WAIT_SECONDS * 1000)
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("popup", lambda popup: self.wrong.append(f"popup: {popup.url}"))

    def _console(self, kind: str, text: str) -> None:
        if "Cross-Origin-Opener-Policy header has been ignored" in text:
            return  # a remark about plain HTTP from another machine
        if kind in ("error", "warning") and not (self.expects_failures and "Failed to load resource" in text):
            self.wrong.append(f"console: {text}")

    def _request(self, request: Request) -> None:
        self.requests.append(f"{request.method} {request.url}")
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self._origin and parts.scheme not in ("data", "blob"):
            self.wrong.append(f"request: {request.url}")

    # -- where things are

    def by_role(self, role: Any, name: str, *, exact: bool = True) -> Locator:
        return self.page.get_by_role(role, name=name, exact=exact)

    def button(self, name: str) -> Locator:
        return self.by_role("button", name)

    @property
    def rows(self) -> Locator:
        return self.page.locator(".rows a.row")

    @property
    def timeline(self) -> Locator:
        return self.page.get_by_test_id("timeline")

    @property
    def question(self) -> Locator:
        return self.page.locator("article.question")

    # -- what people do

    async def go(self, fragment: str) -> None:
        await self.page.evaluate("(fragment) => { location.hash = fragment; }", fragment)

    async def open(self, conversation_id: str) -> None:
        await self.go(f"#/c/{conversation_id}")
        await self.page.locator(".conversation .head").wait_for()

    async def start(self, prompt: str, **choices: str) -> str:
        """A new conversation by the form. Its id."""
        await self.page.get_by_role("link", name="New", exact=True).click()
        await self.page.get_by_label("What should be done?").fill(prompt)
        for label, value in choices.items():
            named = self.page.locator("span", has_text=re.compile(f"^{label.replace('_', ' ')}$"))
            field = self.page.locator(".new-form .field", has=named).locator("input, select")
            if await field.evaluate("(field) => field.tagName") == "SELECT":
                await field.select_option(value)
            else:
                await field.fill(value)
        await self.button("Start").click()
        await self.page.wait_for_url("**/#/c/*")
        return self.page.url.rpartition("/")[2]

    async def send(self, text: str, button: str = "Send") -> None:
        await self.page.get_by_label("Message", exact=True).fill(text)
        await self.button(button).click()

    async def act(self, name: str) -> None:
        """One of the actions under the three dots."""
        await self.button("More actions").click()
        await self.page.locator(".menu").get_by_text(name, exact=True).click()

    async def sees(self, text: str, within: Locator | None = None) -> None:
        await (within or self.page.locator("body")).get_by_text(text).first.wait_for()

    async def is_gone(self, text: str) -> None:
        await self.page.get_by_text(text).first.wait_for(state="detached")

    async def until(self, expression: str, argument: Any = None) -> None:
        """Until a JavaScript expression holds."""
        await self.page.wait_for_function(expression, arg=argument)

    async def probe(self, name: str) -> list[str]:
        """What one of the functions of probes.js finds."""
        return await self.page.evaluate(f"() => {{ {_PROBES} return {name}(); }}")

    def check(self) -> None:
        assert self.wrong == [], self.wrong


class Chrome:
    """The browser, with a profile of its own."""

    def __init__(self, context: BrowserContext, server: HttpServer) -> None:
        self.context = context
        self._server = server
        self.tabs: list[Tab] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    async def tab(self, place: str = "", *, expects_failures: bool = False) -> Tab:
        """Another tab of somebody who is logged in."""
        tab = Tab(await self.context.new_page(), self.origin)
        tab.expects_failures = expects_failures
        self.tabs.append(tab)
        await tab.page.goto(f"{self.origin}/{place}")
        return tab

    async def log_in(self) -> Tab:
        """By the link that the server prints."""
        tab = Tab(await self.context.new_page(), self.origin)
        self.tabs.append(tab)
        await tab.page.goto(await login_link(self._server))
        await tab.page.locator(".sidebar").wait_for()
        return tab

    async def open_from_elsewhere(self, link: str) -> Tab:
        """A link to the server under a name that is not this machine's own."""
        tab = Tab(await self.context.new_page(), f"http://{ELSEWHERE}:{self._server.port}")
        self.tabs.append(tab)
        await tab.page.goto(link.replace("127.0.0.1", ELSEWHERE))
        return tab

    async def log_in_with(self, token: str) -> Tab:
        tab = await self.tab("login")
        await tab.page.get_by_label("Token").fill(token)
        await tab.button("Log in").click()
        await tab.page.locator(".sidebar").wait_for()
        return tab


async def login_link(server: HttpServer) -> str:
    """The last one that it has printed."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (found := _LINK.findall(server.stderr)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found[-1]


class _Shared:
    """One browser for all tests of the process: its start takes longer than most of them. Each test has a profile of its own."""

    def __init__(self) -> None:
        self._browser: Browser | None = None
        self._driver: Playwright | None = None

    async def browser(self) -> Browser:
        if self._browser is None or not self._browser.is_connected():
            self._driver = await async_playwright().start()
            self._browser = await self._driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=START_MS)
        return self._browser

    async def close(self) -> None:
        if self._browser is not None:
            await self._browser.close()
        if self._driver is not None:
            await self._driver.stop()


shared = _Shared()


@asynccontextmanager
async def browsing(
    tmp_path: Path,
    answers: Sequence[Any] = (),
    *,
    config: Mapping[str, Any] | None = None,
    width: int = 1200,
    height: int = 800,
    **context: Any,
) -> AsyncGenerator[tuple[HttpServer, Chrome]]:
    """A server whose model plays `answers`, and a browser. Everything that went wrong in any tab fails the test."""
    tmp_path.mkdir(exist_ok=True)
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(list(answers)))
    settings = {"model_provider": "scripted", "understudy.scripted_model": str(script), **(config or {})}
    async with HttpServer(tmp_path, config=settings) as server:
        made = await (await shared.browser()).new_context(viewport={"width": width, "height": height}, **context)
        await made.add_init_script(_LISTEN)
        chrome = Chrome(made, server)
        try:
            yield server, chrome
        except Exception as error:
            for tab in chrome.tabs:
                error.add_note(f"{tab.page.url} shows:\n{(await tab.page.inner_text('body'))[-3000:]}\nwrong: {tab.wrong}")
            raise
        else:
            for tab in chrome.tabs:
                tab.check()
        finally:
            await made.close()
