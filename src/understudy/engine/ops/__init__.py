"""What a conversation can be asked to do. Each op has one file here and one row in `table.py`.

`protocol/ops.py` defines the op's data, which may be left as a letter for another process; the file here defines a `Way`: how the
op is performed. Ops see the conversation as a `Shell`, and the conversation reaches ops only through the table.
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
    """How one kind of op is performed. It has no state: everything it needs is in the op and in the shell."""

    outside = False  # True: it waits for the end of a turn or for other processes, so it is not handled in the queue

    async def judge(self, limits: "Limits", conversation: "Judged", op: T) -> T:
        """Check that a caller with these limits may ask for the op, and return it, perhaps with details added. Raises
        `NotAllowed`.
        """
        return op

    async def here(self, shell: "Shell", op: T) -> Accepted:
        """Perform the op, or leave it as a letter for the process that has the conversation. Raises `AgentError` if it is
        refused.
        """
        raise NotImplementedError

    def to_turn(self, shell: "Shell", op: T, turn: str) -> bool:
        """Perform an op that was left as a letter, for the turn running here. Never waits. False if a turn has no use for it."""
        return False

    async def between_turns(self, shell: "Shell", op: T) -> None:
        """Perform an op that was left as a letter while no turn runs and only commands that outlive theirs keep the claim here.
        Turns for messages and summaries are begun after all letters were read.
        """

    async def when_idle(self, shell: "Shell", op: T) -> None:
        """Perform an op that was left as a letter on the conversation's host while nothing of the conversation runs anywhere. The
        claim is held.
        """
        await self.between_turns(shell, op)

    def is_done_by(self, op: T, record: "Record") -> bool:
        """Whether the record tells the op's outcome, whichever process wrote it."""
        return False

    def is_so(self, shell: "Shell", op: T) -> bool:
        """Whether what the op asks for is already the case."""
        return False
