"""How often and how much at once a caller may ask. Each named token has its own measure; the local user has none."""

import math
from collections.abc import Callable

from understudy.protocol.callers import LOCAL_NAME

BUSY_SECONDS = 1  # after which to try again where too many are open: nobody knows when one of them ends


class _Use:
    __slots__ = ("at", "brief", "open", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at
        self.open = 0
        self.brief = 0


class Limiter:
    """A bucket of requests for each caller, filled by `rate` a second, and a count of those that are open.

    What is over soon by itself is counted apart. So whoever has as many calls and streams open as they may can still answer what
    these ask, and end them.
    """

    def __init__(self, rate: int, concurrency: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._concurrency = concurrency
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    def enter(self, name: str) -> int | None:
        """None where the request may go on; `leave` follows. Else the seconds after which to try again."""
        if name == LOCAL_NAME:
            return None
        use = self._use_of(name)
        if self._concurrency and use.open >= self._concurrency:
            return BUSY_SECONDS
        wait = self._take_token(use)
        if wait is None:
            use.open += 1
        return wait

    def enter_briefly(self, name: str) -> int | None:
        """Likewise, for one that is over soon, or of which it is not known yet; `leave_briefly` follows, or `stay`."""
        if name == LOCAL_NAME:
            return None
        use = self._use_of(name)
        if self._concurrency and use.brief >= self._concurrency:
            return BUSY_SECONDS
        wait = self._take_token(use)
        if wait is None:
            use.brief += 1
        return wait

    def stay(self, name: str) -> bool:
        """One that has entered briefly takes longer: whether it may. If so, `leave` follows."""
        if name == LOCAL_NAME:
            return True
        use = self._uses[name]
        if self._concurrency and use.open >= self._concurrency:
            return False
        use.brief -= 1
        use.open += 1
        return True

    def _use_of(self, name: str) -> _Use:
        now = self._clock()
        use = self._uses.get(name)
        if use is None:
            use = self._uses[name] = _Use(2.0 * self._rate, now)
        use.tokens = min(2.0 * self._rate, use.tokens + (now - use.at) * self._rate)
        use.at = now
        return use

    def _take_token(self, use: _Use) -> int | None:
        if self._rate and use.tokens < 1:
            return max(1, math.ceil((1 - use.tokens) / self._rate))
        use.tokens -= 1
        return None

    def take_back(self, name: str) -> None:
        """Instead of `leave`: the request has not begun, and asks again."""
        if name != LOCAL_NAME:
            use = self._uses[name]
            use.open -= 1
            use.tokens += 1

    def leave(self, name: str) -> None:
        if name != LOCAL_NAME:
            self._uses[name].open -= 1

    def leave_briefly(self, name: str) -> None:
        if name != LOCAL_NAME:
            self._uses[name].brief -= 1
