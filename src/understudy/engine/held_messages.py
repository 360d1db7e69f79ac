"""Messages that came after the running turn was told to end. Once it is over the first of them begins a turn, and the others
join that.
"""

from understudy.engine.tail import Tail, Told
from understudy.errors import AgentError, BadRequest
from understudy.protocol.ops import Send

FORK_WHILE_RUNNING = "a turn is running: interrupt it, or wait for its end, before continuing from an earlier message"


class HeldMessage:
    """A message, and who waits to hear what became of it."""

    def __init__(self, op: Send) -> None:
        self.op = op
        self.told: list[Told] = []

    def tell(self, error: AgentError) -> None:
        for tell in self.told:
            tell(error)


class HeldMessages:
    """In the order in which they came."""

    def __init__(self) -> None:
        self._messages: list[HeldMessage] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, op: Send) -> None:
        self._messages.append(HeldMessage(op))

    def when_durable(self, callback: Told) -> None:
        """Call back once the last of them is durable, or with the reason why it is not."""
        self._messages[-1].told.append(callback)

    def take_all(self) -> list[HeldMessage]:
        taken, self._messages = self._messages, []
        return taken

    def join(self, tail: Tail, turn: str) -> None:
        """A second interrupt is meant for what was sent after the first: it counts as accepted and unread, like other input."""
        for held in self.take_all():
            if held.op.message.parent_message_id is not None:
                held.tell(BadRequest(FORK_WHILE_RUNNING))
                continue
            try:
                tail.append(held.op.message, turn=turn)
            except AgentError as error:
                held.tell(error)
            else:
                for told in held.told:
                    tail.when_durable(told)

    def take_back(self, message_id: str, reason: AgentError) -> bool:
        """Whoever sent it does not want it any more. False when it is not here."""
        for held in self._messages:
            if held.op.message.message_id == message_id:
                self._messages.remove(held)
                held.tell(reason)
                return True
        return False

    def fail(self, reason: AgentError) -> None:
        for held in self.take_all():
            held.tell(reason)
