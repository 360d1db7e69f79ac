"""Writes the pages of docs/ as a static site, into dist/site or a folder that is named: with search, without a network.

Markdown is read by markdown-it-py, which rich has brought along. What the pages look like is in packaging/site. The navigation is
the table of docs/README.md, in its order. The same pages make the same bytes.
"""

import html
import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
LOOKS = ROOT / "packaging" / "site"
BESIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")  # pages of the checkout that others lead to
BEGIN = "docs/README.md"  # which becomes the first page
COPIED = ("docs/pictures", "docs/performance", "docs/config.toml")
SHOWN_AS_CODE = ("fence", "code_block")

_markdown = MarkdownIt("commonmark", {"html": True}).enable("table")


@dataclass(frozen=True)
class Part:
    """What stands under one heading, for the search."""

    anchor: str
    heading: str
    text: str


@dataclass(frozen=True)
class Page:
    source: str  # below the checkout
    name: str  # below the site
    title: str
    body: str
    parts: tuple[Part, ...]


def anchor_of(heading: str) -> str:
    """As the forges make it, so that links hold in both."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def name_of(source: str) -> str:
    if source == BEGIN:
        return "index.html"
    path = Path(source)
    return f"{path.stem.lower() if path.parent == Path() else path.stem}.html"


def sources() -> list[str]:
    """In the order of the index; what it does not name comes last."""
    linked = re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / BEGIN).read_text())
    found = dict.fromkeys([BEGIN, *(f"docs/{name}" for name in linked), *(f"docs/{path.name}" for path in pages_of_docs())])
    return [*found, *BESIDE]


def pages_of_docs() -> list[Path]:
    return sorted((ROOT / "docs").glob("*.md"))


def titles() -> dict[str, str]:
    """Of all pages, by their sources."""
    return {source: (ROOT / source).read_text().partition("\n")[0].removeprefix("# ") for source in sources()}


def read(source: str, known: Mapping[str, str]) -> Page:
    tokens = _markdown.parse((ROOT / source).read_text())
    _lead(tokens, source, known)
    parts = _parts(tokens)
    for token, part in zip((each for each in tokens if each.type == "heading_open"), parts, strict=True):
        token.attrSet("id", part.anchor)
    for token in tokens:
        if token.type == "html_block" and token.content.lstrip().startswith("<!--"):
            token.content = ""  # remarks for tests and generators
    body = _markdown.renderer.render(tokens, _markdown.options, {})
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Page(source, name_of(source), parts[0].heading, body, parts)


def _parts(tokens: list[Token]) -> tuple[Part, ...]:
    """Each heading with the text below it."""
    found: list[tuple[str, list[str]]] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "inline" and before is not None and before.type == "heading_open":
            found.append((_plain(token), []))
        elif found and token.type in ("inline", *SHOWN_AS_CODE):
            found[-1][1].append(_plain(token))
    anchors = [anchor_of(heading) for heading, _ in found]
    before = (anchors[:number].count(anchor) for number, anchor in enumerate(anchors))
    places = [f"{anchor}-{count}" if count else anchor for anchor, count in zip(anchors, before, strict=True)]
    return tuple(
        Part(place, heading, " ".join(" ".join(texts).split())) for place, (heading, texts) in zip(places, found, strict=True)
    )


def _plain(token: Token) -> str:
    if not token.children:
        return token.content
    return "".join(" " if each.type in ("softbreak", "html_inline") else each.content for each in token.children)


def _lead(tokens: list[Token], source: str, known: Mapping[str, str]) -> None:
    """Links to pages lead to their places in the site, and are called by title where they were called by file."""
    inside = [child for each in tokens for child in each.children or ()]
    for token, text in zip(inside, [*inside[1:], None], strict=True):
        name = {"link_open": "href", "image": "src"}.get(token.type)
        if name is None:
            continue
        target = str(token.attrs[name])
        if "://" in target:
            token.attrSet("rel", "noreferrer")
            continue
        path, mark, anchor = target.partition("#")
        place = (ROOT / source).parent.joinpath(path).resolve().relative_to(ROOT).as_posix() if path else source
        if place not in known and not place.startswith(COPIED):
            if source in BESIDE and (ROOT / place).exists():
                del token.attrs[name]  # a file of the checkout, which a reader of the site need not have
                continue
            raise SystemExit(f"{source}: {target} is not in the site")
        token.attrSet(name, (name_of(place) if place in known else place.removeprefix("docs/")) + mark + anchor)
        if text is not None and text.content.removeprefix("docs/") == Path(place).name and place in known:
            text.content = known[place].replace("`", "")


def rendered(page: Page, pages: list[Page]) -> str:
    links = "\n".join(
        f'<li><a href="{each.name}"{" aria-current=page" if each is page else ""}>{html.escape(each.title)}</a></li>'
        for each in pages
    )
    frame = (LOOKS / "page.html").read_text()
    filled = {"title": html.escape(page.title), "links": links, "body": page.body}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], frame)


def write(folder: Path) -> list[Page]:
    known = titles()
    pages = [read(source, known) for source in known]
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages:
        (folder / page.name).write_text(rendered(page, pages))
    rows = [[page.name, page.title, part.anchor, part.heading, part.text] for page in pages for part in page.parts]
    (folder / "search-index.js").write_text(f"const PARTS = {json.dumps(rows, ensure_ascii=False, separators=(',', ':'))};\n")
    for name in ("style.css", "search.js"):
        shutil.copyfile(LOOKS / name, folder / name)
    for place in COPIED:
        target = folder / Path(place).relative_to("docs")
        if (ROOT / place).is_dir():
            shutil.copytree(ROOT / place, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(ROOT / place, target)
    return pages


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "site"
    print(f"{len(write(folder))} pages in {folder}; open {folder / 'index.html'}")


if __name__ == "__main__":
    main()
