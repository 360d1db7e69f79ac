"""Gives a conversation a title. A turn may run meanwhile, here or in another process."""

from typing import TYPE_CHECKING

import msgspec

from understudy.engine.log.facts import read_title
from understudy.engine.ops import Way
from understudy.errors import ConversationBusy
from understudy.protocol.ops import Accepted, Rename
from understudy.protocol.records import Record, Renamed

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Renaming(Way[Rename]):
    async def here(self, shell: "Shell", op: Rename) -> Accepted:
        """`posted`: another process has the conversation and was asked to do it. Raises `BadRequest` for an invalid title."""
        op = msgspec.structs.replace(op, title=read_title(op.title))
        shell.check_exists()
        if shell.turn_runs:
            shell.check_log()
        else:
            try:
                await shell.take_claim()
            except ConversationBusy:
                shell.post(op)
                return Accepted(posted=True)
        return Accepted(effective=_rename(shell, op))

    def to_turn(self, shell: "Shell", op: Rename, turn: str) -> bool:
        _rename(shell, op)
        return True

    async def between_turns(self, shell: "Shell", op: Rename) -> None:
        _rename(shell, op)

    def is_done_by(self, op: Rename, record: Record) -> bool:
        return isinstance(record, Renamed) and record.title == op.title

    def is_so(self, shell: "Shell", op: Rename) -> bool:
        return shell.state.name == op.title


WAY = Renaming()


def _rename(shell: "Shell", op: Rename) -> bool:
    """False: the conversation already has this title."""
    if shell.state.name == op.title:
        return False
    shell.append(Renamed(op.title, op.by), turn="0")  # outside any turn
    return True
