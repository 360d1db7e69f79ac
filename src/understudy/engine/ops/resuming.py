"""Taking up a turn that waited for an answer when its process ended."""

from typing import TYPE_CHECKING

from understudy.engine.ops import Way
from understudy.protocol.ops import Accepted, Resume

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Resuming(Way[Resume]):
    async def here(self, shell: "Shell", op: Resume) -> Accepted:
        return Accepted(turn=await shell.resume())


WAY = Resuming()
