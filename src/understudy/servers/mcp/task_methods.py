"""The methods of the extension Tasks: asking how a task is, answering its questions, ending it, and being told of changes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from understudy.engine.durable import Durable
from understudy.errors import NotAllowed
from understudy.protocol.jsonrpc import Response
from understudy.protocol.ops import Cancel, Decide
from understudy.servers.failures import InvalidParams, ProtocolError
from understudy.servers.mcp.asking import check_answer, decision_on
from understudy.servers.mcp.call import Call, Handler
from understudy.servers.mcp.modern import MISSING_CAPABILITY
from understudy.servers.mcp.question_names import find_asked, read_question_name
from understudy.servers.mcp.subscriptions import tell
from understudy.servers.mcp.task_board import TASKS, FoundTask, TaskBoard, declares_tasks

CLOSING_SECONDS = 10.0  # until an answer that counts is seen to have closed its question
NEWS_SECONDS = 0.2  # steps that come together are told together


class _TaskParams(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId")


class _UpdateParams(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId")
    input_responses: dict[str, Any] = msgspec.field(name="inputResponses")


def check_declared(call: Call) -> None:
    """Raises `ProtocolError` for a client that does not know what a task is."""
    if not declares_tasks(call.client.capabilities):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise ProtocolError(MISSING_CAPABILITY, f"the client has to declare the extension {TASKS}", needed)


async def get(call: Call) -> Any:
    check_declared(call)
    found = await _find(call, msgspec.json.decode(call.arguments or b"{}", type=_TaskParams).task_id)
    return found.state(call.client.peer)


async def update(call: Call) -> Any:
    """Answers count only for what is asked now: others are passed over, for they may have come too late."""
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
    """The turn that the task began ends. One that it only joined, or waits for, goes on without it."""
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
    assert call.client.board is not None
    return call.client.board


async def _find(call: Call, task_id: str) -> FoundTask:
    return await _board(call).find(call.client, task_id)


def _decisions(found: FoundTask, answers: dict[str, Any], client: str) -> list[Decide]:
    """Raises `InvalidParams` where one cannot be understood; none of them counts then."""
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


# -- being told


async def accept_tasks(call: Call, wanted: object) -> tuple[list[str], Callable[[], None]]:
    """Those of these tasks that the caller has, and what has whoever listens by this call be told of each change of them."""
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
    """Of one task, to one who listens."""

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
        if viewer.expired or viewer.broken is not None:  # whoever asks for it is told what holds
            self._stop(self._call)
        else:
            tell(self._call, "notifications/tasks", **self._found.state(self._call.client.peer))

    def _stop(self, call: Call) -> None:
        self._found.viewer.when_changed.discard(self._changed)
        if self._timer is not None:
            self._timer.cancel()
