"""Every op with the right that it needs and the file that performs it."""

from importlib import import_module
from typing import Any, Final, NamedTuple

from understudy.engine.ops import Way
from understudy.protocol.callers import Right
from understudy.protocol.ops import Answer, Archive, Cancel, Compact, Decide, Delete, Interrupt, Op, Rename, Resume, Send, Undo


class OpRow(NamedTuple):
    right: Right  # the right that its caller needs
    file: str  # in this folder; imported at the first op of its kind


OPS: Final[dict[type[Op], OpRow]] = {
    Send: OpRow("run", "sending"),
    Interrupt: OpRow("run", "interrupting"),
    Cancel: OpRow("run", "cancelling"),
    Decide: OpRow("approve", "deciding"),
    Answer: OpRow("approve", "deciding"),
    Compact: OpRow("run", "compacting"),
    Resume: OpRow("run", "resuming"),
    Archive: OpRow("run", "archiving"),
    Delete: OpRow("run", "deleting"),
    Undo: OpRow("run", "undoing"),
    Rename: OpRow("run", "renaming"),
}

READ: dict[type[Op], Way[Any]] = {}  # ways that have been imported


def way_of(op: Op) -> Way[Any]:
    """How this op is performed."""
    way = READ.get(type(op))
    if way is None:
        way = READ[type(op)] = import_module(f"{__package__}.{OPS[type(op)].file}").WAY
    return way
