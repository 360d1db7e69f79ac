"""Who listens for what in the era without sessions: open `subscriptions/listen` requests, each with what was accepted of it."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from understudy.protocol.jsonrpc import notification_line
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp.call import LATER, Call, Later
from understudy.servers.mcp.handshake import PREFIX

# What can be listened for, with the method by which a change is told.
LIST_CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


class _ListenParams(msgspec.Struct):
    notifications: dict[str, Any]


class Subscriptions:
    """For lists that change while a server runs. `offered`: which of `LIST_CHANGES`."""

    def __init__(self, offered: Iterable[str]) -> None:
        self._offered = frozenset(offered)
        self._open: dict[Call, frozenset[str]] = {}

    def add(self, call: Call, wanted: dict[str, Any]) -> dict[str, Any]:
        """What is accepted of it."""
        accepted = frozenset(kind for kind in self._offered if wanted.get(kind) is True)
        self._open[call] = accepted
        call.when_answered(self._forget)
        return dict.fromkeys(sorted(accepted), True)

    def _forget(self, call: Call) -> None:
        self._open.pop(call, None)

    def tell(self, kind: str) -> None:
        """Something of this kind has changed."""
        for call, accepted in tuple(self._open.items()):
            if kind in accepted:
                tell(call, LIST_CHANGES[kind])


def tell(call: Call, method: str, **params: Any) -> None:
    """A notification on the stream of this subscription."""
    params["_meta"] = {f"{PREFIX}subscriptionId": call.id}
    call.sink.send(notification_line(method, params), call.id)


async def listen(call: Call, subscriptions: Subscriptions | None) -> Later:
    """Open until the client leaves. What nobody tells of is not accepted."""
    try:
        wanted = msgspec.json.decode(call.arguments or b"{}", type=_ListenParams).notifications
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of subscriptions/listen: {error}") from None
    accepted = {} if subscriptions is None else subscriptions.add(call, wanted)
    follow: Callable[[], None] | None = None
    if "taskIds" in wanted:
        from understudy.servers.mcp.task_methods import accept_tasks  # few clients do

        accepted["taskIds"], follow = await accept_tasks(call, wanted["taskIds"])
    tell(call, "notifications/subscriptions/acknowledged", notifications=accepted)
    call.when_cancelled(lambda: call.answer({}))
    if follow is not None:
        follow()
    return LATER
