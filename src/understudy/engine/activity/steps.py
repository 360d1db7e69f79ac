"""What is shown of a conversation: items, the steps in which they come and go, and what a call says that never began."""

import codecs
import re
from typing import Any, Literal, cast

import msgspec

from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall
from understudy.protocol.records.files import FileChange

MOST_GATHERED = 64 * 1024  # bytes of a command's output that are kept in the order in which they came, and characters of its end

# -- what is gathered of a command's output


class Output:
    """What a command has printed, in the order in which it came. The record of its end keeps the two streams apart."""

    def __init__(self) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._chunks: list[bytes] = []
        self._size = 0
        self._tail = ""

    def feed(self, delta: r.OutputDelta) -> str:
        """The text of it. Half a character waits for its rest."""
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
        """Its beginning."""
        return b"".join(self._chunks).decode("utf-8", "replace")

    def last(self) -> str:
        """Its end."""
        return self._tail

    def whole(self, ended: r.CommandEnded) -> str:
        """All of it; the streams one after the other where it was too long to gather, or was not seen from its beginning."""
        apart = ended.stdout + ended.stderr
        together = self.so_far()
        return together if len(together) == len(apart) and self._size <= MOST_GATHERED else apart

    def whole_or_last(self, ended: r.CommandEnded) -> str:
        """Like `whole`, for those who show the end of what is long."""
        apart = ended.stdout + ended.stderr
        return self._tail if len(self._tail) == len(apart) else apart


# -- items


class Item(msgspec.Struct, eq=False, kw_only=True):
    """Something that begins and ends, once. Models use the ids of their calls again; an item is never used again."""

    name: Any = None  # what the front end calls it, or has made of it
    missed: bool = False  # it ends, and nothing is known of its beginning


class Text(Item, kw_only=True):
    """A message of the model. `said` is what has come of it so far, since it was last taken back."""

    said: list[str] = []


class Thought(Item, kw_only=True):
    """What the model thinks, as far as it is shown."""


class Compaction(Item, kw_only=True):
    """A summary takes the place of what was before. `seq` is the record that it began with."""

    seq: int


class Work(Item, kw_only=True):
    """What comes of a call of the model."""

    call_id: str
    running: bool = False  # False: it was only asked about
    declined: bool = False  # a person has refused it


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
    """Of a budget, or of a hook: it is over once it is answered."""

    about: str = ""  # of a hook: what it keeps back


class UserQuestion(Work, kw_only=True):
    """What the model wants to know. It is over once it is answered."""

    questions: tuple[r.InputQuestion, ...]


Shown = Text | Thought | Compaction | Command | Patch | ToolCall | Image | BudgetQuestion | UserQuestion

# -- steps


class Began(msgspec.Struct, frozen=True, eq=False):
    """The first that is seen of an item: it runs, or somebody is asked whether it may."""

    item: Shown


class Resumed(msgspec.Struct, frozen=True, eq=False):
    """It runs. It was asked about before, so `Began` came then."""

    item: Command | Patch | ToolCall | Image


class Grew(msgspec.Struct, frozen=True, eq=False):
    """More of a text, a thought or the output of a command."""

    item: Text | Thought | Command
    text: str
    raw: bool = False  # of a thought: not its summary


class Ended(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """`how`: done, also where that failed; refused before it ran; unfinished: its end is not known; cut off with its turn."""

    item: Shown
    how: Literal["done", "refused", "unfinished", "cut"]
    record: r.CommandEnded | r.PatchEnded | r.ToolCallEnded | r.Compacted | None = None
    text: str = ""  # of a message all of it; of what was refused or is unfinished, what the model was told
    success: bool = True
    summary: tuple[str, ...] = ()  # of a thought
    raw: tuple[str, ...] = ()
    call: FunctionCall | None = None  # of what was refused
    phase: str | None = None  # of a message, where the model says one


class Answered(msgspec.Struct, frozen=True, eq=False):
    """A call was answered of which no item tells: refused, unknown, or of a tool that has none."""

    call: FunctionCall
    output: str
    success: bool


class LeftRunning(msgspec.Struct, frozen=True, eq=False):
    """The model goes on while the command does."""

    item: Command


class Asked(msgspec.Struct, frozen=True, eq=False):
    question: r.Question


class Decided(msgspec.Struct, frozen=True, eq=False):
    """`words`: who decided, where no person did; the log repeats them as a notice."""

    record: r.ApprovalDecided
    words: str


class Accepted(msgspec.Struct, frozen=True, eq=False):
    message: r.UserMessage


class Read(msgspec.Struct, frozen=True, eq=False):
    """The model reads a message from here on."""

    message: r.UserMessage


class Told(msgspec.Struct, frozen=True, eq=False):
    """A record that stands for itself. `words` is what a person is told; many have none."""

    record: r.Record
    words: str = ""
    foreign: bool = False  # others wrote some of the words
    repeats: bool = False  # an item or `Decided` has said it


Step = Began | Resumed | Grew | Ended | Answered | LeftRunning | Asked | Decided | Accepted | Read | Told

# -- what a call says that never began


class _Shell(msgspec.Struct, frozen=True):
    """The arguments of tools that run commands."""

    command: list[str] | str | None = None
    cmd: str | None = None


def argv_of(call: FunctionCall) -> tuple[str, ...] | None:
    """The command that a call wanted to run; None where it is for something else."""
    try:
        shell = msgspec.json.decode(call.arguments, type=_Shell)
    except (msgspec.MsgspecError, RecursionError):
        return None
    command = shell.command or shell.cmd
    return None if command is None else ("bash", "-lc", command) if isinstance(command, str) else tuple(command)


def files_of(call: FunctionCall) -> list[tuple[str, str]]:
    """What a patch says that it does (`Add`, `Update`, `Delete`), and to which file."""
    try:
        given: Any = msgspec.json.decode(call.arguments)
    except (msgspec.MsgspecError, RecursionError):
        return []
    values = cast(dict[str, Any], given).values() if isinstance(given, dict) else ()
    patch = next((text for text in values if isinstance(text, str)), "")
    return [(word, path.rstrip()) for word, path in re.findall(r"(?m)^\*\*\* (Add|Update|Delete) File: (.+)$", patch)]
