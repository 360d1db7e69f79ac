"""Logging in by a link: at once on this machine, by a button elsewhere, and never by a stranger's page."""

from pathlib import Path

from tests.page.browser import ELSEWHERE, browsing, in_browser, login_link
from tests.support.rest_client import RestClient

pytestmark = in_browser

HOSTS = {"understudy.serve.allow_host": [ELSEWHERE]}


async def test_a_link_that_is_opened_elsewhere_logs_in_when_the_person_presses_the_button(tmp_path: Path) -> None:
    async with browsing(tmp_path, config=HOSTS) as (server, chrome):
        link = await login_link(server)
        preview = await chrome.open_from_elsewhere(f"{link}#/new")  # runs scripts, as some previews do, and presses nothing
        await preview.button("Log in here").wait_for()
        assert "code=" not in preview.page.url
        assert [sent for sent in preview.requests if sent.startswith("POST")] == []
        await preview.page.close()
        person = await chrome.open_from_elsewhere(f"{link}#/new")
        await person.sees(f"logs your browser in at {ELSEWHERE}:{server.port}")
        await person.until("() => document.activeElement?.textContent === 'Log in here'")
        await person.page.keyboard.press("Enter")
        await person.page.get_by_label("What should be done?").wait_for()
        assert person.page.url == f"http://{ELSEWHERE}:{server.port}/#/new"
        again = await chrome.open_from_elsewhere(link)
        again.expects_failures = True
        await again.button("Log in here").click()
        await again.sees("this link was used already")
        await again.page.get_by_label("Token").wait_for()


async def test_whoever_comes_without_a_login_is_led_to_it_and_told_whom_to_ask(tmp_path: Path) -> None:
    async with browsing(tmp_path, config=HOSTS) as (server, chrome):
        for place in ("", "#/new", "#/c/11111111-2222-4333-8444-555555555555"):
            tab = await chrome.tab(place, expects_failures=True)
            await tab.page.wait_for_url(f"{chrome.origin}/login{place}")
            await tab.sees("in a terminal on this machine")
            await tab.page.close()
        stranger = await chrome.open_from_elsewhere(f"{chrome.origin}/")
        await stranger.sees("ask whoever runs this server")
        stranger.wrong = [told for told in stranger.wrong if "401" not in told]
        again = await chrome.tab("#/new", expects_failures=True)
        await again.page.get_by_label("Token").fill(server.token)
        await again.button("Log in").click()
        await again.page.get_by_label("What should be done?").wait_for()


async def test_a_stranger_s_page_can_neither_log_somebody_in_nor_use_up_a_link(tmp_path: Path) -> None:
    """It may know a link; it has a frame, a form and requests of its own, and the browser says of each where it comes from."""
    async with browsing(tmp_path, config=HOSTS) as (server, chrome):
        link = await login_link(server)
        code = link.partition("code=")[2]
        page = await chrome.context.new_page()
        await page.route("http://stranger.test/", lambda route: route.fulfill(content_type="text/html", body="<p>hello"))
        await page.goto("http://stranger.test/")
        for host in ("127.0.0.1", ELSEWHERE):
            place = f"http://{host}:{server.port}/login"
            await page.evaluate(TRY, {"place": place, "code": code})
            assert await page.evaluate("() => frames[frames.length - 1].length === 0")
        assert await chrome.context.cookies() == []
        client = RestClient(server.port)
        for origin in ("http://stranger.test", "null", f"http://{ELSEWHERE}.stranger.test", f"http://127.0.0.1:{server.port + 1}"):
            response = await client.request("POST", "/login", {"code": code}, {"Origin": origin})
            assert (response.status, "set-cookie" in response.headers) == (403, False), origin
        nowhere = await client.request("POST", "/login", {"code": code}, {"Sec-Fetch-Site": "cross-site"})
        assert nowhere.status == 403
        mine = await client.request("POST", "/login", {"code": code}, {"Origin": client.origin})
        assert mine.status == 204, "it is not used up"


async def test_whoever_logs_out_is_out_on_every_tab_and_the_cookie_is_worth_nothing(tmp_path: Path) -> None:
    async with browsing(tmp_path, [{"say": "Hello."}]) as (server, chrome):
        tab = await chrome.log_in()
        thread = await tab.start("Greet")
        other = await chrome.tab(f"#/c/{thread}")
        await other.sees("Hello.", other.timeline)
        (cookie,) = await chrome.context.cookies()
        tab.expects_failures = other.expects_failures = True
        await tab.button("Log out").click()
        await tab.page.get_by_label("Token").wait_for()
        assert await chrome.context.cookies() == []
        await other.sees("Signed out.", other.page.locator(".sidebar"))
        await other.sees("Signed out.", other.page.locator(".head"))  # a phone shows nothing else
        client = RestClient(server.port)
        old = await client.request("GET", "/v1/me", None, {"Cookie": f"{cookie['name']}={cookie['value']}"})  # type: ignore[typeddict-item]
        assert old.status == 401


TRY = """async ({ place, code }) => {
    const body = JSON.stringify({ code });
    for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"]) {
        for (const mode of ["cors", "no-cors"]) {
            const sent = { method: "POST", mode, credentials: "include", headers: { "Content-Type": type }, body };
            await fetch(place, sent).catch(() => {});
        }
    }
    const frame = document.createElement("iframe");
    frame.name = `frame${Math.random()}`;
    const loaded = () => new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
    frame.src = `${place}?code=${code}`;
    const first = loaded();
    document.body.append(frame);
    await first;
    const form = document.createElement("form");
    Object.assign(form, { method: "POST", action: place, enctype: "text/plain", target: frame.name });
    const field = document.createElement("input");
    Object.assign(field, { name: `{"code": "${code}", "x": "`, value: `"}` });
    form.append(field);
    document.body.append(form);
    const second = loaded();
    form.submit();
    await second;
}"""
