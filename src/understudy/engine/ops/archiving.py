"""Archives a conversation, or brings it back. A turn may run meanwhile; commands that outlive their turns are ended."""

from typing import TYPE_CHECKING

from understudy.engine.ops import Way
from understudy.engine.turn.long_commands import ARCHIVED
from understudy.protocol.ops import Accepted, Archive

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Archiving(Way[Archive]):
    outside = True

    async def here(self, shell: "Shell", op: Archive) -> Accepted:
        shell.check_exists()
        await shell.put_away(archived=op.archived)
        if op.archived and shell.runs_commands:
            await shell.end_commands(ARCHIVED)
        elif op.archived and shell.state.sessions.running and await shell.is_claimed():
            shell.post(Archive())
        return Accepted()

    async def between_turns(self, shell: "Shell", op: Archive) -> None:
        shell.end_commands_soon(ARCHIVED)


WAY = Archiving()
