"""Counts the turns of each caller in this process and limits them. Turns of the local user are not counted.

A turn counts from its first record to its end, whoever waits for it, and also while it waits for a person.
"""

from understudy.errors import TooManyTurns
from understudy.protocol.callers import LOCAL_NAME


class TurnsAtWork:
    def __init__(self, most: int) -> None:
        self._most = most  # concurrent turns of a caller; 0: any number
        self._counts: dict[str, int] = {}

    def check(self, name: str) -> None:
        """Check that this caller may begin one more turn. Raises `TooManyTurns`."""
        if self._most and name != LOCAL_NAME and self._counts.get(name, 0) >= self._most:
            raise TooManyTurns(
                f"too many turns with this token at once: {self._counts[name]} are at work, and {self._most} may be; "
                "wait for the end of one, interrupt one, or answer the question that one waits with"
            )

    def began(self, name: str) -> None:
        if name != LOCAL_NAME:
            self._counts[name] = self._counts.get(name, 0) + 1

    def ended(self, name: str) -> None:
        if name != LOCAL_NAME:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
