"""Room for new connections: when there are nearly as many as may be, those that are not being served are let go.

Each connection is an open file, and the server needs files for models, commands and its store as well. Whoever opens connections
and sends nothing, or reads nothing, would keep everybody else out.
"""

from collections.abc import Collection
from typing import Protocol

STUCK_SECONDS = 10.0  # without a byte taken: a client that only lags for a moment is not let go
_SHARE = 20  # one in so many is let go together: looking for them then costs each new connection little


class Guest(Protocol):
    def waits_since(self) -> tuple[bool, float] | None:
        """Since when nothing is done for it, and whether that is because the client does not read. None: it is being served."""
        ...

    def let_go(self) -> None: ...


def make_room(connections: Collection[Guest], most: int | None, new: Guest, now: float) -> None:
    """Those that have waited longest go first, and before those whose client does not read. Where all are served, nobody goes."""
    if most is None or len(connections) <= most - most // _SHARE:
        return
    waiting: list[tuple[bool, float, int, Guest]] = []
    for each in connections:
        since = None if each is new else each.waits_since()
        if since is not None and (not since[0] or now - since[1] >= STUCK_SECONDS):
            waiting.append((*since, id(each), each))
    waiting.sort(key=lambda one: one[:3])
    for *_, each in waiting[: max(1, most // _SHARE)]:
        each.let_go()
