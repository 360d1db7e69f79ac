"""The page as an app: what the browser wants of it before it can be installed, and notifications on a phone."""

import asyncio
import json
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from tests.page.browser import CHROMIUM, FLAGS, START_MS, Chrome, Tab, browsing, in_browser
from tests.support.http_server import HttpServer
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = in_browser

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
ASK = {"call": "shell", "arguments": {"command": ["date"], "with_escalated_permissions": True}}
LIKE_A_PHONE = """() => {
    window.Notification = class { static permission = "granted"; constructor() { throw new TypeError("Illegal constructor"); } };
    document.hasFocus = () => false;
}"""
SHOWN = """async () => {
    const worker = await navigator.serviceWorker.getRegistration();
    const shown = await worker?.getNotifications() ?? [];
    return shown.map((each) => [each.title, each.body, each.data]);
}"""


async def test_the_browser_finds_nothing_in_the_way_of_installing_it(tmp_path: Path) -> None:
    """In a profile as people have it: a private window can install nothing, and the browser looks no further there."""
    async with HttpServer(tmp_path) as server, async_playwright() as driver:
        context = await driver.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=list(FLAGS), timeout=START_MS
        )
        try:
            tab = await Chrome(context, server).log_in()
            session: Any = await context.new_cdp_session(tab.page)
            found: dict[str, Any] = await session.send("Page.getAppManifest")
            assert found["errors"] == []
            assert json.loads(found["data"])["display"] == "standalone"
            assert (await session.send("Page.getInstallabilityErrors"))["installabilityErrors"] == []
            assert await tab.page.evaluate("async () => (await navigator.serviceWorker.getRegistrations()).length") == 0
            tab.check()
        finally:
            await context.close()


async def test_a_phone_is_notified_by_a_worker_that_keeps_nothing(tmp_path: Path) -> None:
    async with browsing(tmp_path, [[ASK], {"say": "Done."}], config=ASKING, permissions=["notifications"]) as (server, chrome):
        tab = await chrome.log_in()
        await tab.page.evaluate(LIKE_A_PHONE)
        other = await chrome.tab()
        thread = await other.start("Ask me", Folder=str(server.cwd))
        await other.question.wait_for()
        async with asyncio.timeout(WAIT_SECONDS):
            while not (shown := await tab.page.evaluate(SHOWN)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert shown == [["Understudy waits for you", "Ask me", f"#/c/{thread}"]]
        assert await tab.page.evaluate("async () => (await caches.keys()).length") == 0
        requests = len(tab.requests)
        await tab.page.reload()
        await tab.rows.first.wait_for()
        assert len(tab.requests) > requests + 10, "the page comes from the server, not from a worker"
        await other.button("Approve").click()
        await other.sees("Done.", other.timeline)


SUBSCRIBES = """
    PushManager.prototype.subscribe = async function ({ userVisibleOnly, applicationServerKey }) {
        const point = new Uint8Array(await crypto.subtle.exportKey("raw", (await crypto.subtle.generateKey(
            { name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"])).publicKey));
        const text = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
        const keys = { p256dh: text(point), auth: text(crypto.getRandomValues(new Uint8Array(16))) };
        return { toJSON: () => ({ endpoint: `https://fcm.googleapis.com/${userVisibleOnly}/${applicationServerKey}`, keys }) };
    };
"""


async def test_a_question_is_told_by_a_message_of_the_push_service(tmp_path: Path) -> None:
    """There is no such service here: what the browser would give is made up, and what the service would deliver is handed over."""
    config = {"understudy.push.subject": "mailto:me@example.org"}
    async with HttpServer(tmp_path, config=config) as server, async_playwright() as driver:
        context = await driver.chromium.launch_persistent_context(  # a private window is told nothing
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=list(FLAGS), timeout=START_MS, permissions=["notifications"]
        )
        try:
            await context.add_init_script(SUBSCRIBES)
            await subscribe_and_be_told(await Chrome(context, server).log_in(), server)
        finally:
            await context.close()


async def subscribe_and_be_told(tab: Tab, server: HttpServer) -> None:
    session: Any = await tab.page.context.new_cdp_session(tab.page)
    found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note(event: Any) -> None:
        for each in event["registrations"]:
            if not found.done():
                found.set_result(each["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", note)
    await session.send("ServiceWorker.enable")
    await tab.page.reload()
    file = server.home.path / "understudy" / "push.json"
    async with asyncio.timeout(WAIT_SECONDS):
        while not file.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    [kept] = json.loads(file.read_text())["browsers"]
    key = await tab.page.evaluate("async () => (await (await fetch('push')).json()).key")
    assert kept["subscription"]["endpoint"] == f"https://fcm.googleapis.com/true/{key}"
    conversation = "01234567-89ab-4cde-8f01-23456789abcd"
    message = json.dumps({"conversation": conversation, "call": "c1"})
    registration = await asyncio.wait_for(found, WAIT_SECONDS)
    await tab.page.goto("about:blank")  # no page is looked at
    origin = f"http://127.0.0.1:{server.port}/"
    await session.send("ServiceWorker.deliverPushMessage", {"origin": origin, "registrationId": registration, "data": message})
    await tab.page.goto(origin)
    async with asyncio.timeout(WAIT_SECONDS):
        while not (shown := await tab.page.evaluate(SHOWN)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert shown == [["Understudy waits for you", "A conversation asks for your decision", f"#/c/{conversation}"]]
