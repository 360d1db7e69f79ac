"""The page of `export --format html`, opened from a file in a browser: nothing on it runs, and nothing is asked of any network."""

from __future__ import annotations

from pathlib import Path

from tests.page.browser import in_browser, shared
from tests.page.hostile_texts import MARKUP, TEXTS
from tests.servers.sharing.conversations import entries_of, everywhere
from understudy.servers.sharing.masking import Masking
from understudy.servers.sharing.page import page_lines
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = in_browser

ACTIVE = "script, iframe, frame, object, embed, link, base, svg, math, video, audio, form, a, area, template, input, button"
UNFOLD = "() => { for (const each of document.querySelectorAll('details')) each.open = true; }"
FOUND = f"""() => [
    window.hacked === undefined ? '' : 'it ran',
    ...[...document.querySelectorAll({ACTIVE!r})].map((each) => each.outerHTML.slice(0, 200)),
    ...[...document.querySelectorAll('*')].flatMap((each) => [...each.attributes].filter(
        ({{name, value}}) => /^on|^style$|^href$|^srcset$/i.test(name) || (name === 'src' && !value.startsWith('data:image/png;'))
    ).map(({{name}}) => `${{each.tagName}} ${{name}}`)),
    document.querySelectorAll('style').length === 1 ? '' : 'styles',
    document.querySelectorAll('meta').length === 5 ? '' : 'metas',
].filter((wrong) => wrong)"""


async def test_nothing_on_it_runs_and_nothing_is_fetched(tmp_path: Path) -> None:
    records = [record for number, text in enumerate(TEXTS) for record in everywhere(text, number)]
    conversation_id, entries = entries_of(records)
    file = tmp_path / "shared.html"
    file.write_text("".join(page_lines(conversation_id, entries, "ab" * 32, Masking({}))))
    wrong: list[str] = []
    context = await (await shared.browser()).new_context(viewport={"width": 900, "height": 1200})
    page = await context.new_page()
    page.set_default_timeout(WAIT_SECONDS * 1000)
    page.on("request", lambda request: wrong.append(request.url[:200]) if request.url[:5] not in ("file:", "data:") else None)
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("popup", lambda popup: wrong.append(popup.url))
    await page.goto(file.as_uri())
    await page.evaluate(UNFOLD)
    assert await page.evaluate(FOUND) == []
    assert page.url == file.as_uri()
    shown = await page.inner_text("main")
    for text in MARKUP:
        assert text.split("\n")[0][:40] in shown, text
    styled = "() => getComputedStyle(document.querySelector('pre')).whiteSpace"
    assert await page.evaluate(styled) == "pre-wrap"  # the style is the one that the policy allows
    assert await page.evaluate("() => [...document.images].every((image) => image.naturalWidth === 1)")
    assert wrong == []
    await context.close()
