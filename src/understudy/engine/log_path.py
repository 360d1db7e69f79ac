"""The way through a log that was forked: the records from the first one to a given one."""

from collections.abc import Sequence

from understudy.errors import Damaged
from understudy.protocol.records import Entry


def path_to(entries: Sequence[Entry], head: int | None = None) -> Sequence[Entry]:
    """The records from the first one to `head` (the newest when not given), along their parents."""
    if not entries:
        return entries
    head = entries[-1].seq if head is None else head
    if all(entry.parent == entry.seq - 1 for entry in entries):  # never forked: the log is the path
        return entries if head == entries[-1].seq else [entry for entry in entries if entry.seq <= head]
    by_seq = {entry.seq: entry for entry in entries}
    path: list[Entry] = []
    while head:
        entry = by_seq.get(head)
        if entry is None:
            raise Damaged(f"conversation store: record {head} is missing, though others follow it: the log is damaged")
        path.append(entry)
        head = entry.parent
    path.reverse()
    return path
