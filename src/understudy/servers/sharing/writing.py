"""A conversation for people: in the requested format, and in Markdown."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from understudy.engine.log.facts import path_to
from understudy.engine.log.fold import State
from understudy.protocol.records import Entry
from understudy.servers.sharing.blocks import Block, Changed, Noted, Planned, Ran, Said, blocks_of, title_of
from understudy.servers.sharing.masking import Masked, Masking
from understudy.servers.sharing.page import page_lines
from understudy.servers.times import rfc3339
from understudy.store.log import Listed
from understudy.text import make_visible, strip_terminal_escapes


def text_lines(form: str, listed: Listed, entries: Sequence[Entry], env: Mapping[str, str]) -> Iterator[str]:
    """`html`, or Markdown. The entries are those that the list's row covers. `env`: variables whose secrets are masked."""
    masking = Masking(env)
    if form == "html":
        return page_lines(listed.conversation_id, entries, listed.digest.hex(), masking)
    return markdown_lines(listed.conversation_id, entries, masking)


_TICKS = re.compile("`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
Mask = Callable[[str], str]


def markdown_lines(conversation_id: str, entries: Sequence[Entry], masking: Masking) -> Iterator[str]:
    path = path_to(entries)
    summary = State.of(path).summary()
    mask = _mask(masking)
    yield f"# {make_visible(_text_of(masking.first_line(title_of(path))))}\n\n"
    yield f"- id: {conversation_id}\n- folder: `{make_visible(summary.cwd)}`\n- model: {make_visible(summary.model)}\n"
    yield f"- from {rfc3339(entries[0].at)} to {rfc3339(entries[-1].at)}\n"
    for block in blocks_of(path, summary.cwd):
        for part in _parts(block, mask):
            yield f"\n{part}\n"
    if rows := masking.rows():
        yield "\n## Masked secrets\n\n"
        yield "".join(f"- {row.number}: {make_visible(row.what)}, in {row.places} place{_s(row.places)}\n" for row in rows)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _mask(masking: Masking) -> Mask:
    def masked(text: str) -> str:
        return _text_of(masking.pieces(text))

    return masked


def _text_of(pieces: Sequence[str | Masked]) -> str:
    return "".join([f"[redacted {piece.number}]" if isinstance(piece, Masked) else piece for piece in pieces])


def _parts(block: Block, mask: Mask) -> Iterator[str]:
    match block:
        case Said(who=who, text=text, images=images):
            yield f"## {who}"
            yield _plain(mask(text)) + "".join("\n\n*an image*" for _ in images)
        case Ran(line=line, output=output, outcome=outcome, is_command=is_command):
            yield _fenced(_plain(mask(f"$ {line}" if is_command else line)), "sh" if is_command else "")
            yield _fenced(_plain(mask(output)), "") + (f"\n\n{outcome}" if outcome else "")
        case Changed(path=path, diff=diff, what=what):
            yield f"**{make_visible(mask(path))}**" + (f" {make_visible(what)}" if what else "")
            yield _fenced(_plain(mask(diff)), "diff")
        case Planned(steps=steps):
            yield "\n".join(f"- [{'x' if is_done else ' '}] {make_visible(mask(step))}" for step, is_done in steps)
        case Noted(text=text):
            yield _fenced(_plain(mask(text)), "")


def _plain(text: str) -> str:
    """The text without characters that would control a terminal."""
    return _CONTROL.sub("\ufffd", strip_terminal_escapes(text))


def _fenced(text: str, language: str) -> str:
    """A fence that is longer than any in the text, so that the text cannot close it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"
