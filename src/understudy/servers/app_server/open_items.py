"""Items that have begun and are not completed yet: every one that begins is completed, once."""

from understudy.servers.app_server.wire import Json, Notice, milliseconds


class OpenItems:
    """Makes the notifications of a thread's items, and remembers which are open and since when."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._open: dict[str, tuple[int, Json]] = {}

    def begin(self, item: Json, turn_id: str, at: float) -> list[Notice]:
        now = milliseconds(at)
        self._open[item["id"]] = now, item
        told = {**item, "startedAtMs": now, "completedAtMs": None}
        return [("item/started", {"item": told, "threadId": self._thread_id, "turnId": turn_id, "startedAtMs": now})]

    def complete(self, item: Json, turn_id: str, at: float) -> list[Notice]:
        """Where it has not begun, it does so first."""
        notices = [] if item["id"] in self._open else self.begin(item, turn_id, at)
        began, _ = self._open.pop(item["id"])
        now = max(milliseconds(at), began)  # its beginning was seen when its text came, which may be later than its record
        told = {**item, "startedAtMs": began, "completedAtMs": now}
        return [*notices, ("item/completed", {"item": told, "threadId": self._thread_id, "turnId": turn_id, "completedAtMs": now})]

    def update(self, item: Json) -> None:
        """What is known of it meanwhile, for those who come now."""
        if item["id"] in self._open:
            self._open[item["id"]] = self._open[item["id"]][0], item

    def all(self) -> list[Json]:
        return [{**item, "startedAtMs": began, "completedAtMs": None} for began, item in self._open.values()]
