"""The methods of the extension Tasks, and `subscriptions/listen`, by which clients without a session hear of tasks and lists."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from understudy.engine.log.durable import Durable
from understudy.errors import NotAllowed
from understudy.protocol.jsonrpc import Response, notification_line
from understudy.protocol.ops import Cancel, Decide
from understudy.servers.failures import InvalidParams, ProtocolError
from understudy.servers.mcp.asking import check_answer, decision_on, find_asked, read_question_name
from understudy.servers.mcp.call import LATER, Call, Handler, Later
from understudy.servers.mcp.handshake import PREFIX
from understudy.servers.mcp.modern import MISSING_CAPABILITY
from understudy.servers.mcp.task_board import TASKS, FoundTask, LoneClient, TaskBoard, declares_tasks

# What clients can listen for, with the method that reports a change.
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
        """The accepted part of what is wanted."""
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
    """Send a notification on the stream of this subscription."""
    params["_meta"] = {f"{PREFIX}subscriptionId": call.id}
    call.sink.send(notification_line(method, params), call.id)


async def listen(call: Call, subscriptions: Subscriptions | None) -> Later:
    """Stays open until the client leaves. Kinds that nobody reports are not accepted."""
    try:
        wanted = msgspec.json.decode(call.arguments or b"{}", type=_ListenParams).notifications
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of subscriptions/listen: {error}") from None
    accepted = {} if subscriptions is None else subscriptions.add(call, wanted)
    follow: Callable[[], None] | None = None
    if "taskIds" in wanted:
        accepted["taskIds"], follow = await accept_tasks(call, wanted["taskIds"])
    tell(call, "notifications/subscriptions/acknowledged", notifications=accepted)
    call.when_cancelled(lambda: call.answer({}))
    if follow is not None:
        follow()
    return LATER


CLOSING_SECONDS = 10.0  # until an answer that counts is seen to have closed its question
NEWS_SECONDS = 0.2  # steps within this time are reported together


class _TaskParams(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId")


class _UpdateParams(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId")
    input_responses: dict[str, Any] = msgspec.field(name="inputResponses")


def check_declared(call: Call) -> None:
    """Raises `ProtocolError` for a client that has not declared tasks."""
    if not declares_tasks(call.client.capabilities):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise ProtocolError(MISSING_CAPABILITY, f"the client has to declare the extension {TASKS}", needed)


async def get(call: Call) -> Any:
    check_declared(call)
    found = await _find(call, msgspec.json.decode(call.arguments or b"{}", type=_TaskParams).task_id)
    return found.state(call.client.peer)


async def update(call: Call) -> Any:
    """Answers count only for questions that are open now; others are ignored, because they may have come too late."""
    check_declared(call)
    params = msgspec.json.decode(call.arguments or b"{}", type=_UpdateParams)
    found = await _find(call, params.task_id)
    decisions = _decisions(found, params.input_responses, call.client.peer.calls_itself)
    try:
        for decision in decisions:
            durable = Durable()
            await found.handle.decide(decision, durable)
            await durable
    except NotAllowed as error:
        raise InvalidParams(str(error)) from None
    await found.viewer.until_closed({decision.call_id: decision.asked_at for decision in decisions}, CLOSING_SECONDS)
    return {}


async def cancel(call: Call) -> Any:
    """End the turn that the task began. A turn that it only joined or waits for continues without it."""
    check_declared(call)
    found = await _find(call, msgspec.json.decode(call.arguments or b"{}", type=_TaskParams).task_id)
    if found.viewer.outcome is not None:
        return {}
    following, durable = found.viewer.following, Durable()
    try:
        found.handle.check_right("run")
        if found.name.sends:
            await found.handle.submit(
                Cancel(following.message_id, (following.turn or "") if following.leads else ""), durable=durable
            )
            await durable
    except NotAllowed as error:
        raise InvalidParams(str(error)) from None
    if not found.name.sends or not following.leads:
        _board(call).leave(call.client, found)
    return {}


METHODS: dict[str, Handler] = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}


def _board(call: Call) -> TaskBoard:
    assert isinstance(call.client, LoneClient)
    return call.client.board


async def _find(call: Call, task_id: str) -> FoundTask:
    return await _board(call).find(call.client, task_id)


def _decisions(found: FoundTask, answers: dict[str, Any], client: str) -> list[Decide]:
    """Raises `InvalidParams` if one cannot be understood; then none of them counts."""
    decisions: list[Decide] = []
    turn = found.viewer.following.turn
    for key, answer in answers.items():
        name = read_question_name(key)
        asked = None if name is None else find_asked(found.handle, name)
        if asked is None or asked.turn != turn:
            continue
        check_answer(asked.question, answer)
        decisions.append(decision_on(asked, Response(key, answer), client))
    return decisions


# -- notifications


async def accept_tasks(call: Call, wanted: object) -> tuple[list[str], Callable[[], None]]:
    """The caller's own among these tasks, and a function that begins to report their changes to this call."""
    check_declared(call)
    try:
        task_ids = msgspec.convert(wanted, list[str])
    except msgspec.ValidationError as error:
        raise InvalidParams(f"Invalid `taskIds` of subscriptions/listen: {error}") from None
    accepted: dict[str, FoundTask] = {}
    for task_id in task_ids:
        with suppress(InvalidParams):
            accepted[task_id] = await _find(call, task_id)

    def follow() -> None:
        if not call.answered:  # the client may have left meanwhile
            for found in accepted.values():
                _News(call, found)

    return list(accepted), follow


class _News:
    """Reports one task to one listener."""

    def __init__(self, call: Call, found: FoundTask) -> None:
        self._call = call
        self._found = found
        self._timer: asyncio.TimerHandle | None = None
        found.viewer.when_changed.add(self._changed)
        call.when_answered(self._stop)
        self._changed()

    def _changed(self) -> None:
        if self._timer is None:
            self._timer = self._call.client.loop.call_later(NEWS_SECONDS, self._tell)

    def _tell(self) -> None:
        self._timer = None
        viewer = self._found.viewer
        if viewer.expired or viewer.broken is not None:  # a client that asks for the task gets its present state
            self._stop(self._call)
        else:
            tell(self._call, "notifications/tasks", **self._found.state(self._call.client.peer))

    def _stop(self, call: Call) -> None:
        self._found.viewer.when_changed.discard(self._changed)
        if self._timer is not None:
            self._timer.cancel()
