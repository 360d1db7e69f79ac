"""Limits the event loop's time for the output of commands that nobody waits for: to a fifth, for all of them together."""

import time
from types import TracebackType

_WORK_SECONDS = 0.002  # time for reading before the loop does other work; then the command rests
_REST_FOR_WORK = 4
_MOST_COUNTED = 0.02  # while we read, something else may have had the processor, for which the command is not to blame


class Floods:
    """The commands of one helper that rest now. The more there are, the longer each of them rests."""

    def __init__(self) -> None:
        self.resting = 0


class Pace:
    """Adds up the time spent reading one command's output. A command that prints little hardly ever has to rest."""

    def __init__(self, floods: Floods) -> None:
        self._floods = floods
        self._spent = 0.0
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._spent += time.monotonic() - self._since

    @property
    def tired(self) -> bool:
        return self._spent >= _WORK_SECONDS

    def rest(self) -> float:
        """Begin to rest. Returns for how many seconds; then call `rested`."""
        spent, self._spent = min(self._spent, _MOST_COUNTED), 0.0
        self._floods.resting += 1
        return spent * _REST_FOR_WORK * self._floods.resting

    def rested(self) -> None:
        self._floods.resting -= 1
