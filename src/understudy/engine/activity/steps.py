"""What is shown of a conversation: items, the steps in which they come and go, and descriptions of calls that never began."""

import codecs
import re
from typing import Any, Literal, cast

import msgspec

from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall
from understudy.protocol.records.files import FileChange

MOST_GATHERED = 64 * 1024  # bytes of a command's output kept in their order of arrival, and characters kept of its end

# -- a command's output


class Output:
    """A command's output in the order in which it was printed. The record of the command's end keeps the two streams apart."""

    def __init__(self) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._chunks: list[bytes] = []
        self._size = 0
        self._tail = ""

    def feed(self, delta: r.OutputDelta) -> str:
        """Return the new text. An incomplete character waits for its remaining bytes."""
        self._size += len(delta.chunk)
        if self._size <= MOST_GATHERED:
            self._chunks.append(delta.chunk)
        decoder = self._decoders.get(delta.stream)
        if decoder is None:
            decoder = self._decoders[delta.stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(delta.chunk)
        self._tail += text
        if len(self._tail) > 2 * MOST_GATHERED:
            self._tail = self._tail[-MOST_GATHERED:]
        return text

    def so_far(self) -> str:
        """The beginning of the output."""
        return b"".join(self._chunks).decode("utf-8", "replace")

    def last(self) -> str:
        """The end of the output."""
        return self._tail

    def whole(self, ended: r.CommandEnded) -> str:
        """All output. The streams follow one another if the output was too long to gather or its beginning was missed."""
        apart = ended.stdout + ended.stderr
        together = self.so_far()
        return together if len(together) == len(apart) and self._size <= MOST_GATHERED else apart

    def whole_or_last(self, ended: r.CommandEnded) -> str:
        """Like `whole`, but of long output only the end."""
        apart = ended.stdout + ended.stderr
        return self._tail if len(self._tail) == len(apart) else apart


# -- items


class Item(msgspec.Struct, eq=False, kw_only=True):
    """Something that begins and ends once. Models reuse the ids of their calls; an item is never reused."""

    name: Any = None  # the front end's own name or object for it
    missed: bool = False  # it ends, but its beginning was not seen


class Text(Item, kw_only=True):
    """A message of the model. `said` is its text so far, since any earlier text was withdrawn."""

    said: list[str] = []


class Thought(Item, kw_only=True):
    """The model's reasoning, as far as it is shown."""


class Compaction(Item, kw_only=True):
    """A summary replaces the earlier history. `seq` is the record that began it."""

    seq: int


class Work(Item, kw_only=True):
    """The work that a call of the model causes."""

    call_id: str
    running: bool = False  # False: so far there was only a question about it
    declined: bool = False  # a person refused it


class Command(Work, kw_only=True):
    argv: tuple[str, ...] = ()
    cwd: str = ""
    session: int | None = None
    contained: bool | None = None
    output: Output = msgspec.field(default_factory=Output)


class Patch(Work, kw_only=True):
    changes: dict[str, FileChange] = {}


class ToolCall(Work, kw_only=True):
    server: str
    tool: str
    arguments: dict[str, Any] | None = None
    read_only: bool = False


class Image(Work, kw_only=True):
    path: str


class BudgetQuestion(Work, kw_only=True):
    """A question of a budget or a hook. The item ends with the answer."""

    about: str = ""  # what the hook holds back


class UserQuestion(Work, kw_only=True):
    """What the model wants to know. The item ends with the answer."""

    questions: tuple[r.InputQuestion, ...]


Shown = Text | Thought | Compaction | Command | Patch | ToolCall | Image | BudgetQuestion | UserQuestion

# -- steps


class Began(msgspec.Struct, frozen=True, eq=False):
    """The first step of an item: it runs, or somebody is asked whether it may run."""

    item: Shown


class Resumed(msgspec.Struct, frozen=True, eq=False):
    """An item runs whose question was answered; its `Began` came with the question."""

    item: Command | Patch | ToolCall | Image


class Grew(msgspec.Struct, frozen=True, eq=False):
    """More of a text, a thought or a command's output."""

    item: Text | Thought | Command
    text: str
    raw: bool = False  # raw reasoning, not the summary of a thought


class Ended(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """`how`: done (even if it failed), refused before it ran, unfinished (its end is unknown), or cut off with its turn."""

    item: Shown
    how: Literal["done", "refused", "unfinished", "cut"]
    record: r.CommandEnded | r.PatchEnded | r.ToolCallEnded | r.Compacted | None = None
    text: str = ""  # the whole message, or what the model was told about a refused or unfinished call
    success: bool = True
    summary: tuple[str, ...] = ()  # of a thought
    raw: tuple[str, ...] = ()
    call: FunctionCall | None = None  # the refused call
    phase: str | None = None  # of a message, if the model gave one


class Answered(msgspec.Struct, frozen=True, eq=False):
    """A call was answered that has no item: it was refused, unknown, or its tool has no items."""

    call: FunctionCall
    output: str
    success: bool


class LeftRunning(msgspec.Struct, frozen=True, eq=False):
    """The model continues while the command runs."""

    item: Command


class Asked(msgspec.Struct, frozen=True, eq=False):
    question: r.Question


class Decided(msgspec.Struct, frozen=True, eq=False):
    """`words`: who decided if no person did; the log repeats them as a notice."""

    record: r.ApprovalDecided
    words: str


class Accepted(msgspec.Struct, frozen=True, eq=False):
    message: r.UserMessage


class Read(msgspec.Struct, frozen=True, eq=False):
    """The model reads a message from here on."""

    message: r.UserMessage


class Told(msgspec.Struct, frozen=True, eq=False):
    """A record without an item. `words` is what a person is told; many records have none."""

    record: r.Record
    words: str = ""
    foreign: bool = False  # somebody else wrote some of the words
    repeats: bool = False  # an item or `Decided` has already said it


Step = Began | Resumed | Grew | Ended | Answered | LeftRunning | Asked | Decided | Accepted | Read | Told

# -- calls that never began


class _Shell(msgspec.Struct, frozen=True):
    """The arguments of tools that run commands."""

    command: list[str] | str | None = None
    cmd: str | None = None


def argv_of(call: FunctionCall) -> tuple[str, ...] | None:
    """The command that a call wanted to run; None if it wanted something else."""
    try:
        shell = msgspec.json.decode(call.arguments, type=_Shell)
    except (msgspec.MsgspecError, RecursionError):
        return None
    command = shell.command or shell.cmd
    return None if command is None else ("bash", "-lc", command) if isinstance(command, str) else tuple(command)


def files_of(call: FunctionCall) -> list[tuple[str, str]]:
    """The files that a patch names, each with its kind of change (`Add`, `Update`, `Delete`)."""
    try:
        given: Any = msgspec.json.decode(call.arguments)
    except (msgspec.MsgspecError, RecursionError):
        return []
    values = cast(dict[str, Any], given).values() if isinstance(given, dict) else ()
    patch = next((text for text in values if isinstance(text, str)), "")
    return [(word, path.rstrip()) for word, path in re.findall(r"(?m)^\*\*\* (Add|Update|Delete) File: (.+)$", patch)]
