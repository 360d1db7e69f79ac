"""What a conversation can be asked to do. An op is one file here, and one row in `table.py`.

`protocol/ops.py` has what is said (and left as a letter for another process); the file here has a `Way`: what becomes of it.
Ops know the conversation as a `Shell`, and nothing that owns it knows them but by the table.
"""

from typing import TYPE_CHECKING, Generic, TypeVar

from understudy.protocol.ops import Accepted, Op

if TYPE_CHECKING:
    from understudy.engine.caller_limits import Judged
    from understudy.engine.conversation.shell import Shell
    from understudy.protocol.callers import Limits
    from understudy.protocol.records import Record

T = TypeVar("T", bound=Op)


class Way(Generic[T]):
    """What becomes of a kind of op. It has no state: everything it needs is in the op and in the shell."""

    outside = False  # it waits for the end of a turn, or for other processes, so that it is not handled in the queue

    async def judge(self, limits: "Limits", conversation: "Judged", op: T) -> T:
        """Whether a caller with these limits may ask for it; perhaps with more said in it. Raises `NotAllowed`."""
        return op

    async def here(self, shell: "Shell", op: T) -> Accepted:
        """Do it, or leave it as a letter for the process that has the conversation. Raises `AgentError` where it is not taken."""
        raise NotImplementedError

    def to_turn(self, shell: "Shell", op: T, turn: str) -> bool:
        """It was left as a letter, and this turn runs here. Waits for nothing. False where a turn has no use for it."""
        return False

    async def between_turns(self, shell: "Shell", op: T) -> None:
        """It was left as a letter, and no turn runs: only commands that outlive theirs keep the claim here. What messages and a
        summary begin comes after all letters were read.
        """

    async def when_idle(self, shell: "Shell", op: T) -> None:
        """It was left as a letter on the host of the conversation, and nothing of that runs anywhere. The claim is held."""
        await self.between_turns(shell, op)

    def is_done_by(self, op: T, record: "Record") -> bool:
        """Whether the record says what came of it, whichever process has written it."""
        return False

    def is_so(self, shell: "Shell", op: T) -> bool:
        """Whether what it asks for is so already."""
        return False
