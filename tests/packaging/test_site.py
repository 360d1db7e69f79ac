"""`make site`: every link of the site leads somewhere, it asks nothing of a network, and its search finds, at two widths."""

import filecmp
import runpy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import async_playwright

from tests.page.browser import CHROMIUM, FLAGS, START_MS
from tests.support.environments import ROOT
from understudy.testing.waiting import WAIT_SECONDS

SITE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "documentation_site.py"))


class Read(HTMLParser):
    """The links, what is loaded, and the places of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: list[str] = []
        self.inline: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("img", "script", "link"):
            self.loaded.append(given.get("src") or given.get("href") or "")
        if "id" in given:
            self.places.append(given["id"])
        self.inline += [name for name in given if name == "style" or name.startswith("on")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    SITE["write"](folder)
    return folder


def test_every_link_leads_to_a_place_of_the_site(site: Path) -> None:
    pages = {page.name: Read(page) for page in site.glob("*.html")}
    assert len(pages) >= len(list((ROOT / "docs").glob("*.md")))
    wrong: list[str] = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            target = parts.path or name
            if parts.scheme == "https":
                continue
            if parts.scheme or not (site / target).exists() or (parts.fragment and parts.fragment not in pages[target].places):
                wrong.append(f"{name}: {link}")
    assert wrong == []


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_run_in_place(site: Path) -> None:
    for page in site.glob("*.html"):
        read = Read(page)
        assert [each for each in read.loaded if not (site / each).is_file()] == []
        assert read.inline == []
        assert "default-src 'none'" in page.read_text()
        assert len(read.places) == len(set(read.places)), page.name


def test_every_page_is_in_the_navigation_of_every_page(site: Path) -> None:
    names = {page.name for page in site.glob("*.html")}
    for page in site.glob("*.html"):
        assert names <= set(Read(page).links)


def test_the_same_pages_make_the_same_bytes(site: Path, tmp_path: Path) -> None:
    SITE["write"](tmp_path / "again")
    compared = filecmp.dircmp(site, tmp_path / "again")
    assert (compared.left_only, compared.right_only, compared.diff_files) == ([], [], [])


def test_a_link_that_leads_nowhere_stops_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# The pages\n\n[gone](gone.md)\n")
    monkeypatch.setitem(SITE["read"].__globals__, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"docs/README.md: gone.md is not in the site"):
        SITE["read"]("docs/README.md", {"docs/README.md": "The pages"})


@pytest.mark.slow
@pytest.mark.xdist_group("chromium")
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (apt-get install chromium, or UNDERSTUDY_CHROMIUM)")
@pytest.mark.parametrize("width", [1280, 390])
async def test_somebody_finds_a_page_by_the_search(site: Path, width: int) -> None:
    wrong: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=START_MS)
        page = await browser.new_page(viewport={"width": width, "height": 800})
        page.set_default_timeout(WAIT_SECONDS * 1000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
        await page.goto((site / "index.html").as_uri())
        assert await page.get_by_role("navigation").get_by_role("link", name="Providers one by one").is_visible() == (width > 800)
        await page.keyboard.press("/")
        await page.keyboard.type("nginx caddy")
        await page.get_by_role("region", name="What was found").get_by_role("link").first.wait_for()
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", level=1, name="Behind nginx or Caddy").wait_for()
        for each in sorted(site.glob("*.html")):
            await page.goto(each.as_uri())
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), each.name
        await browser.close()
    assert wrong == []
