"""Commands that outlive their turns, as the log tells of them."""

import msgspec

from understudy.protocol.records import CommandEnded, CommandStarted
from understudy.store.log import RunningCommand

FIRST_SESSION = 1001  # told from other numbers at a glance; the same in every conversation, so that a recorded one can be played
MOST_UNTOLD = 32
LINE_LENGTH = 200  # of a running command, in lists

SESSION_ENDED = "Session {number} (`{line}`) does not run any more: {why}."


class SessionFacts(msgspec.Struct):
    running: dict[int, tuple[str, CommandStarted]] = {}  # by number, with the turn of each
    untold: dict[int, CommandEnded] = {}  # those that ended while no call waited for it, the last ones
    last: int = FIRST_SESSION - 1  # the number given out last

    def begin(self, number: int, turn: str, started: CommandStarted) -> None:
        self.running[number] = turn, started
        self.last = max(self.last, number)

    def end(self, record: CommandEnded, started: CommandStarted) -> str | None:
        """What the model is to be told of it."""
        number = started.session or 0
        self.running.pop(number, None)
        if record.untold:
            self.untold[number] = record
            for old in list(self.untold)[:-MOST_UNTOLD]:
                del self.untold[old]
        if not record.ended_by:
            return None
        line = " ".join(started.command[-1].split())[:LINE_LENGTH]
        return SESSION_ENDED.format(number=started.session, line=line, why=record.ended_by)

    def commands(self) -> tuple[RunningCommand, ...]:
        """For lists."""
        lines = ((number, " ".join(begun.command[-1].split())) for number, (_, begun) in self.running.items())
        return tuple(RunningCommand(number, line[:LINE_LENGTH]) for number, line in lines)

    def copy(self) -> "SessionFacts":
        return SessionFacts(dict(self.running), dict(self.untold), self.last)
