"""Limits how often and how much at once a caller may ask. Each named token has limits of its own; the local user has none."""

import math
from collections.abc import Callable

from understudy.protocol.callers import LOCAL_NAME

BUSY_SECONDS = 1  # when to try again if too many requests are open: nobody knows when one of them ends


class _Use:
    __slots__ = ("at", "brief", "open", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at
        self.open = 0
        self.brief = 0


class Limiter:
    """A bucket of requests for each caller, refilled by `rate` a second, and a count of their open requests.

    Brief requests are counted separately, so that a caller with the maximum of open calls and streams can still answer their
    questions and end them.
    """

    def __init__(self, rate: int, concurrency: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._concurrency = concurrency
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    def enter(self, name: str) -> int | None:
        """None: the request may continue, and `leave` must follow. Otherwise the seconds to wait before trying again."""
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
        """Like `enter`, for a request that is brief or whose kind is still unknown; `leave_briefly` or `stay` must follow."""
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
        """Whether a request that entered as brief may take longer. If so, `leave` must follow."""
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
        """Call it instead of `leave`: the request has not begun, and asks again."""
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
