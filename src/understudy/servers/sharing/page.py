"""A conversation as one page: no script, nothing that is fetched, and diffs and outputs that fold.

Others' words become text only through `_Writer.text`. The page's policy forbids the browser everything except the page's own style,
identified by its digest, and the images in it.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from understudy.engine.log.facts import path_to
from understudy.engine.log.fold import State
from understudy.protocol.records import Entry
from understudy.servers.sharing.blocks import Block, Changed, Noted, Planned, Ran, Said, blocks_of, title_of
from understudy.servers.sharing.masking import Masked, Masking
from understudy.servers.times import rfc3339
from understudy.text import make_visible, strip_terminal_escapes

FORM = 1  # version of the form; increases with every change of a page's look
MASKED_SECTION = '<section id="masked">'
OPEN_LINES = 12  # lines of an output or a diff that are initially unfolded
_KEPT = re.compile(r"(\t|(?<! ) {24,200}(?! ))")
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_FENCE = re.compile(r"(?m)^```[^\n`]*\n(.*?)^```[ \t]*$", re.DOTALL)
_SIGNS = {"+": "added", "-": "removed", "@": "hunk"}


def page_lines(conversation_id: str, entries: Sequence[Entry], head: str, masking: Masking) -> Iterator[str]:
    """`head`: the digest of the last entry. The entries begin with the first one."""
    path = path_to(entries)
    summary = State.of(path).summary()
    writer = _Writer(masking)
    title = writer.text_of(masking.first_line(title_of(path)))
    yield "<!doctype html>\n"
    about = f'data-page="{FORM}" data-conversation="{conversation_id}" data-records="{len(entries)}" data-head="{head}"'
    yield f'<html lang="en" {about}>\n'
    yield f"<head>\n{_head(re.sub('<[^>]*>', '', title))}</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
    facts = summary.model, summary.cwd, f"{rfc3339(entries[0].at)} to {rfc3339(entries[-1].at)}"
    yield f"<p>{' · '.join(writer.text(fact) for fact in facts if fact)}</p>\n</header>\n<main>\n"
    for block in blocks_of(path, summary.cwd):
        yield writer.block(block)
    yield "</main>\n"
    yield from _masked(masking)
    yield f"<footer>\n<p>Conversation {conversation_id}, {len(entries)} records, head <code>{head}</code>. "
    yield "<code>understudy verify --page FILE</code> compares this page with the store.</p>\n</footer>\n</body>\n</html>\n"


def _head(title: str) -> str:
    style = files("understudy.servers.sharing").joinpath("page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n"
    )


def _masked(masking: Masking) -> Iterator[str]:
    rows = masking.rows()
    yield f"{MASKED_SECTION}\n<h2>Masked secrets</h2>\n"
    if not rows:
        yield "<p>None were found.</p>\n"
    else:
        items = [
            f'<li value="{row.number}">{_visible(row.what)}, in {row.places} place{"" if row.places == 1 else "s"}</li>\n'
            for row in rows
        ]
        yield f"<ol>\n{''.join(items)}</ol>\n"
    yield "</section>\n"


class _Writer:
    def __init__(self, masking: Masking) -> None:
        self._masking = masking

    def text(self, text: str) -> str:
        """Escape the text so that nothing in it is active or invisible."""
        return self.text_of(self._masking.pieces(text))

    @staticmethod
    def text_of(pieces: Sequence[str | Masked]) -> str:
        return "".join([_mark(piece) if isinstance(piece, Masked) else _visible(piece) for piece in pieces])

    def block(self, block: Block) -> str:
        match block:
            case Said(who=who, text=text, images=images):
                shown = "".join(map(_image, images))
                return f'<article class="{who.lower()}">\n<h2>{who}</h2>\n{self._prose(text)}{shown}</article>\n'
            case Ran() as ran:
                return self._ran(ran)
            case Changed(path=path, diff=diff, what=what):
                lines = diff.split("\n")
                added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
                head = f'{self.text(path)} <span class="more">{self.text(what)} +{added} −{removed}</span>'
                return self._folded("file", head, self._diff(diff), len(lines))
            case Planned(steps=steps):
                items = "".join(f"<li>{'☑' if is_done else '☐'} {self.text(step)}</li>\n" for step, is_done in steps)
                return f'<ul class="plan">\n{items}</ul>\n'
            case Noted(text=text):
                return f'<pre class="note">{self.text(text)}</pre>\n'

    def _ran(self, ran: Ran) -> str:
        outcome = f' <span class="more">{self.text(ran.outcome)}</span>' if ran.outcome else ""
        head = f"<code>{'$ ' if ran.is_command else ''}{self.text(ran.line)}</code>{outcome}"
        output = strip_terminal_escapes(ran.output).rstrip("\n")
        if not output:
            return f'<p class="ran">{head}</p>\n'
        return self._folded("ran", head, self.text(output), output.count("\n") + 1)

    @staticmethod
    def _folded(kind: str, head: str, body: str, lines: int) -> str:
        is_open = " open" if lines <= OPEN_LINES else ""
        return f'<details class="{kind}"{is_open}>\n<summary>{head}</summary>\n<pre>{body}</pre>\n</details>\n'

    def _prose(self, text: str) -> str:
        """The text as it was written, with fenced code set apart."""
        parts: list[str] = []
        end = 0
        for fenced in _FENCE.finditer(text):
            parts += [self._paragraph(text[end : fenced.start()]), f"<pre>{self.text(fenced[1].rstrip(chr(10)))}</pre>\n"]
            end = fenced.end()
        return "".join([*parts, self._paragraph(text[end:])])

    def _paragraph(self, text: str) -> str:
        text = text.strip("\n")
        return f'<div class="prose">{self.text(text)}</div>\n' if text.strip() else ""

    def _diff(self, diff: str) -> str:
        lines = self.text(diff).split("\n")  # the sign at the beginning of a line is never escaped
        return "\n".join(f'<span class="{_SIGNS[line[0]]}">{line}</span>' if line[:1] in _SIGNS else line for line in lines)


def _mark(masked: Masked) -> str:
    return f"<mark>[redacted {masked.number}]</mark>"


def _visible(text: str) -> str:
    """Tabs, line breaks and columns stay as they are: on this page they cannot push text out of sight."""
    parts = _KEPT.split(text.replace("\r\n", "\n"))
    return "".join([part if number % 2 else escape(make_visible(part, keep_newlines=True)) for number, part in enumerate(parts)])


def _image(url: str) -> str:
    """Embed an image from the log. An image elsewhere is not fetched."""
    if _IMAGE.fullmatch(url):
        return f'<img alt="an image" src="{url}">\n'
    return '<p class="more">an image that is not in the log</p>\n'
