"""What programs get of a conversation. An item is sent when it begins and again when it ends; in between it may grow."""

from typing import Any, Literal

import msgspec

from understudy.protocol.choices import Decision
from understudy.servers.rest.shapes import OpenQuestion

Status = Literal["running", "done", "failed", "declined", "cut"]


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """`id` is the item's own in its conversation. `status`: `declined` by a person or a rule, `cut` off with its turn."""

    id: str
    turn: str
    status: Status

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class UserMessage(Item, frozen=True, kw_only=True, omit_defaults=True, tag="user_message"):
    """What a person or program said. `running` until the model reads it."""

    text: str
    message_id: str


class Message(Item, frozen=True, kw_only=True, omit_defaults=True, tag="message"):
    """What the model said."""

    text: str = ""


class Thought(Item, frozen=True, kw_only=True, omit_defaults=True, tag="thought"):
    text: str = ""


class Command(Item, frozen=True, kw_only=True, omit_defaults=True, tag="command"):
    """`session`: of one that may outlive its turn. `outside`: it runs outside the sandbox."""

    argv: tuple[str, ...] = ()
    folder: str = ""
    output: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    session: int | None = None
    outside: bool = False
    error: str = ""  # why it did not run


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`diff`: the hunks of an update, all lines of what was added or deleted."""

    path: str
    change: Literal["add", "update", "delete"]
    moved_to: str | None = None
    diff: str = ""


class Patch(Item, frozen=True, kw_only=True, omit_defaults=True, tag="patch"):
    files: tuple[ChangedFile, ...] = ()
    error: str = ""


class ToolCall(Item, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A call of another server's tool (`server`), or of one of ours that is neither a command nor a patch (`codex`)."""

    server: str
    tool: str
    arguments: dict[str, Any] = {}
    result: dict[str, Any] | None = None
    error: str = ""


class Image(Item, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    """The model looked at it."""

    path: str


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    step: str
    status: str


class Plan(Item, frozen=True, kw_only=True, omit_defaults=True, tag="plan"):
    """The plan as it is from here on."""

    steps: tuple[PlanStep, ...]
    explanation: str = ""


class Question(Item, frozen=True, kw_only=True, omit_defaults=True, tag="question"):
    """`running` until somebody answers: then `decision` and `by` (a person), or `words` (a rule) say how."""

    asked: OpenQuestion
    decision: Decision | None = None
    by: str = ""
    words: str = ""


class Compaction(Item, frozen=True, kw_only=True, omit_defaults=True, tag="compaction"):
    """A summary takes the place of what was before."""

    text: str = ""


class Notice(Item, frozen=True, kw_only=True, omit_defaults=True, tag="notice"):
    """What a person is told between the items."""

    text: str


class TurnEnd(Item, frozen=True, kw_only=True, omit_defaults=True, tag="turn_end"):
    """`done`, `failed` or `cut` (interrupted). `text`: the last answer, or why it failed. `report`: what the turn did and used."""

    text: str = ""
    report: dict[str, Any] = {}


AnyItem = UserMessage | Message | Thought | Command | Patch | ToolCall | Image | Plan | Question | Compaction | Notice | TurnEnd


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """More of a message, a thought, or a command's output."""

    id: str
    text: str


class Update(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a stream of items says: an item as it is now, how one has grown, or why nothing more comes. `seq`: as of this record."""

    seq: int
    ended: str | None = None
    item: AnyItem | None = None
    grew: Growth | None = None


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """Items of the records `first` to `last`, each as it was at the end of them."""

    items: tuple[AnyItem, ...]
    first: int
    last: int
    end: int  # the last existing record
    more: bool  # before these
