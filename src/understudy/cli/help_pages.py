"""`understudy help`: shows the pages of docs/ in the terminal. A topic is a page's name, or words to search for in all pages."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from understudy.config.home import page_path

MOST_FOUND = 12
INDEX = "README"


def show_topic(topic: str) -> int:
    """Returns 0, or 1 if no page matches."""
    pages = _pages()
    if not pages:
        print("understudy: the pages are not in this install; they are in docs/ of the checkout", file=sys.stderr)
        return 1
    named = {page.stem.lower(): page for page in pages}
    page = named.get(topic.lower().removesuffix(".md").replace(" ", "-"))
    if page is not None:
        _print(page.read_text(encoding="utf-8"))
        return 0
    found = _find(pages, topic)
    for place, line in found[:MOST_FOUND]:
        print(f"{place}: {line}")
    if len(found) > MOST_FOUND:
        print(f"… and {len(found) - MOST_FOUND} more; give more words")
    if found:
        print(f"\n`understudy help {found[0][0].partition('#')[0]}` shows the page.")
        return 0
    names = ", ".join(sorted(name for name in named if name != INDEX.lower()))
    print(f"understudy: no page has {topic!r}. There are: {names}", file=sys.stderr)
    return 1


def _pages() -> list[Path]:
    return sorted(Path(page_path("")).glob("*.md"))


def _find(pages: list[Path], topic: str) -> list[tuple[str, str]]:
    """Lines that contain all of the words, with their places; the best matches first."""
    phrase = " ".join(topic.casefold().split())
    found: list[tuple[int, str, str]] = []
    for page in pages:
        for anchor, line, is_heading in _lines(page):
            folded = line.casefold()
            if phrase and all(word in folded for word in phrase.split()):
                rank = (0 if is_heading else 4) + (0 if folded.startswith(phrase) else 1 if phrase in folded else 2)
                found.append((rank, f"{page.stem}{anchor}", line))
    return [(place, line) for _, place, line in sorted(found, key=lambda each: each[0])]


def _lines(page: Path) -> Iterator[tuple[str, str, bool]]:
    """Each line with its heading, and whether it is a heading itself."""
    anchor, in_code = "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        in_code ^= line.startswith("```")
        is_heading = line.startswith("#") and not in_code
        if is_heading:
            anchor = "#" + re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        yield anchor, line.strip("# |"), is_heading


def _print(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))
