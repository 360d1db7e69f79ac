"""How much memory bodies that are still coming may take, of all callers together and of one of them."""

from understudy.servers.http.answers import Refusal

TIMES_ONE = 4  # the largest request; one caller may have half of that
SMALL_BYTES = 64 * 1024  # of each body are not counted: a small request is never refused because others send large ones


class BodyRoom:
    def __init__(self, largest: int) -> None:
        self._most = TIMES_ONE * largest
        self._held = 0
        self._by_caller: dict[str, int] = {}

    def hold(self, caller: str, size: int) -> None:
        """So many bytes more. Raises `Refusal` where that is too much; what was held before still is."""
        theirs = self._by_caller.get(caller, 0) + size
        if self._held + size > self._most or theirs > self._most // 2:
            reason = "too many large requests are on their way to this server at once; send this one again in a moment"
            raise Refusal(503, reason, headers=((b"retry-after", b"2"),))
        self._held += size
        self._by_caller[caller] = theirs

    def give_back(self, caller: str, size: int) -> None:
        self._held -= size
        left = self._by_caller.get(caller, 0) - size
        if left > 0:
            self._by_caller[caller] = left
        else:
            self._by_caller.pop(caller, None)


class HeldBody:
    """The part of that which one request has."""

    def __init__(self, room: BodyRoom, caller: str) -> None:
        self._room = room
        self._caller = caller
        self._size = 0

    def grow(self, size: int) -> None:
        """The body has so many bytes by now. Raises `Refusal`."""
        if size > SMALL_BYTES:
            self._room.hold(self._caller, size - self._size)
            self._size = size

    def give_back(self) -> None:
        if self._size:
            self._room.give_back(self._caller, self._size)
            self._size = 0
