"""A conversation for people, in the form that somebody asks for."""

from collections.abc import Iterator, Mapping, Sequence

from understudy.protocol.records import Entry
from understudy.servers.sharing.markdown import markdown_lines
from understudy.servers.sharing.masking import Masking
from understudy.servers.sharing.page import page_lines
from understudy.store.log import Listed


def text_lines(form: str, listed: Listed, entries: Sequence[Entry], env: Mapping[str, str]) -> Iterator[str]:
    """`html`, or Markdown. The entries are those that the row of the list tells of. `env`: whose secrets are masked."""
    masking = Masking(env)
    if form == "html":
        return page_lines(listed.conversation_id, entries, listed.digest.hex(), masking)
    return markdown_lines(listed.conversation_id, entries, masking)
