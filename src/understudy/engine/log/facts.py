"""Parts of the fold: the path through a forked log, commands that outlive their turns, turns that changed files, callers' choices,
and the title.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from understudy.errors import BadRequest, Damaged
from understudy.protocol.encodable import is_unicode
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import CommandEnded, CommandStarted, Entry, Overrides, PatchEnded, UndoEnded, UndoStarted
from understudy.store.log import RunningCommand


def path_to(entries: Sequence[Entry], head: int | None = None) -> Sequence[Entry]:
    """The records from the first one to `head` (by default the newest), along their parents."""
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


# easily distinguished from other numbers; the same in every conversation, so that a recorded one can be replayed
FIRST_SESSION = 1001
MOST_UNTOLD = 32
LINE_LENGTH = 200  # characters shown of a running command, in lists

SESSION_ENDED = "Session {number} (`{line}`) does not run any more: {why}."


class SessionFacts(msgspec.Struct):
    running: dict[int, tuple[str, CommandStarted]] = {}  # by number, each with its turn
    untold: dict[int, CommandEnded] = {}  # the last of those that ended while no call waited for them
    last: int = FIRST_SESSION - 1  # the last number given out

    def begin(self, number: int, turn: str, started: CommandStarted) -> None:
        self.running[number] = turn, started
        self.last = max(self.last, number)

    def end(self, record: CommandEnded, started: CommandStarted) -> str | None:
        """What to tell the model about the end of a session, if anything."""
        number = started.session or 0
        self.running.pop(number, None)
        if record.untold:
            self.untold[number] = record
            for old in list(self.untold)[:-MOST_UNTOLD]:
                del self.untold[old]
        if not record.ended_by:
            return None
        line = " ".join(started.command[-1].split())[:LINE_LENGTH]
        return SESSION_ENDED.format(number=started.session, line=line, why=record.ended_by)

    def commands(self) -> tuple[RunningCommand, ...]:
        """The running commands, for lists."""
        lines = ((number, " ".join(begun.command[-1].split())) for number, (_, begun) in self.running.items())
        return tuple(RunningCommand(number, line[:LINE_LENGTH]) for number, line in lines)

    def copy(self) -> "SessionFacts":
        return SessionFacts(dict(self.running), dict(self.untold), self.last)


# -- undoing

OUTCOME_UNKNOWN = "the server stopped while this ran; whether it took effect is not known"

MOST_NAMED = 50  # files that the model is told of

NONE_CHANGED = "no turn of this conversation has changed files by a patch"
ALL_UNDONE = "every turn that changed files is undone"
NO_TURN = "turn {turn} has changed no files by a patch, or there is no such turn"
IS_AN_UNDO = "{turn} is an undo, and an undo cannot be undone"
IS_UNDONE = "turn {turn} is undone already"


class UndoFacts(msgspec.Struct):
    """Undos of the whole log, on any path: there is only one disk."""

    patched: dict[str, tuple[int, int]] = {}  # turns, with the first and last record of their patches
    undone: dict[str, None] = {}  # turns whose changes were all taken back
    numbers: dict[str, str] = {}  # the submission number of each undo, by its id
    begun: UndoStarted | None = None  # without an end
    last: UndoEnded | None = None

    def patch_began(self, turn: str, seq: int) -> None:
        self.patched.setdefault(turn, (seq, 0))

    def patch_ended(self, turn: str, seq: int, record: PatchEnded) -> None:
        first, last = self.patched.get(turn, (seq, 0))
        counts = record.success or record.files is not None or _is_unknown(record)
        self.patched[turn] = first, (seq if counts else last)
        if counts:
            self.undone.pop(turn, None)

    def begin(self, number: str, record: UndoStarted) -> None:
        self.begun = record
        self.numbers[record.undo_id] = number

    def end(self, number: str, record: UndoEnded) -> str | None:
        """What to tell the model about an undo, if anything."""
        acted = self.begun is not None and self.begun.undo_id == record.undo_id
        self.numbers.setdefault(record.undo_id, number)
        self.last = record
        if not acted:
            return None
        self.begun = None
        if record.complete:
            self.undone[record.undone] = None
        return _news(record)

    def choose(self, turn: str) -> str:
        """The turn to undo. Raises `BadRequest`."""
        changed = [each for each, (_, last) in self.patched.items() if last]
        if not turn:
            if not changed:
                raise BadRequest(NONE_CHANGED)
            if (found := next((each for each in reversed(changed) if each not in self.undone), None)) is None:
                raise BadRequest(ALL_UNDONE)
            return found
        if turn in self.numbers.values():
            raise BadRequest(IS_AN_UNDO.format(turn=turn))
        if turn not in changed:
            raise BadRequest(NO_TURN.format(turn=turn))
        if turn in self.undone:
            raise BadRequest(IS_UNDONE.format(turn=turn))
        return turn


def _is_unknown(record: PatchEnded) -> bool:
    return record.stderr == OUTCOME_UNKNOWN


def _news(record: UndoEnded) -> str | None:
    if record.unknown:
        return f"The user wanted to undo your changes of an earlier turn, and {record.problem}. Look at the files before you go on."
    if not record.taken_back and not record.left:
        return None
    taken = _listed("These files are again as they were before it", record.taken_back)
    left = _listed("These files of that turn were left as they are now", tuple(record.left))
    return f"The user has undone your patches of an earlier turn.{taken}{left}"


def _listed(what: str, paths: tuple[str, ...]) -> str:
    if not paths:
        return ""
    more = f"\n- and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"\n{what}:\n" + "\n".join(f"- {path}" for path in paths[:MOST_NAMED]) + more


def with_changes(before: Overrides, after: Overrides) -> Overrides:
    """The choices in force after somebody who chose `before` chooses again."""
    return merge(_unpinned(before, after), after)


def merge(before: Overrides, after: Overrides) -> Overrides:
    """Later choices override earlier ones; `config` is merged key by key."""
    chosen = msgspec.structs.asdict(before)
    for name, choice in msgspec.structs.asdict(after).items():
        if choice is not None:
            chosen[name] = choice
    chosen["config"] = {**(before.config or {}), **(after.config or {})} or None
    return Overrides(**chosen)


def _unpinned(before: Overrides, after: Overrides) -> Overrides:
    """A profile or `config` key chosen now takes precedence over the same setting written down by name at the start."""
    keys = set(after.config or {})
    everything = after.profile is not None
    fields = fields_of(before)
    for name, key in (("model", "model"), ("approval_policy", "approval_policy"), ("sandbox", "sandbox_mode")):
        if everything or key in keys:
            fields[name] = None
    return Overrides(**fields)


def fields_of(overrides: Overrides) -> dict[str, Any]:
    return {name: getattr(overrides, name) for name in Overrides.__struct_fields__}


TITLE_LENGTH = 80  # characters of a title made from the first message
LONGEST_TITLE = 200  # characters of a given title
NO_TITLE = "New conversation"


def title_from(message: Message) -> str:
    text = next((part.text for part in message.content if isinstance(part, InputText) and part.text.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def read_title(text: str) -> str:
    """A title that somebody gives, on one line. Raises `BadRequest`."""
    title = " ".join("".join(" " if ord(character) < 32 or ord(character) == 127 else character for character in text).split())
    if not title:
        raise BadRequest("the title is empty")
    if len(title) > LONGEST_TITLE:
        raise BadRequest(f"the title has {len(title)} characters: at most {LONGEST_TITLE} are allowed")
    if not is_unicode(title):
        raise BadRequest("the title is not text that can be written as UTF-8")
    return title
