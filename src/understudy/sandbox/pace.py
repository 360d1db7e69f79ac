"""How much of the event loop's time goes to the output of commands while nobody waits for them: a fifth, for all together."""

import time
from types import TracebackType

_WORK_SECONDS = 0.002  # read in pieces between which the loop does other work; then it rests
_REST_FOR_WORK = 4
_MOST_COUNTED = 0.02  # something else may have had the processor while we read: that is not held against the command


class Floods:
    """The commands of one helper that rest now. The more there are, the longer each of them does."""

    def __init__(self) -> None:
        self.resting = 0


class Pace:
    """Adds up the time spent reading what one command prints. One that prints little hardly ever comes to rest."""

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
        """Begin to rest, for so many seconds; then comes `rested`."""
        spent, self._spent = min(self._spent, _MOST_COUNTED), 0.0
        self._floods.resting += 1
        return spent * _REST_FOR_WORK * self._floods.resting

    def rested(self) -> None:
        self._floods.resting -= 1
