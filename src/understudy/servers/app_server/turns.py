"""Methods for turns: begin one, end one, and add messages to a running one."""

import asyncio
from typing import Any

from msgspec import Raw

from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.engine.log.fold import merge
from understudy.engine.turn.answer_form import schema_problem, shape_problem
from understudy.errors import AgentError
from understudy.protocol.items import ContentPart, InputImage, InputText, Message
from understudy.protocol.ops import Cancel
from understudy.protocol.records import Terms
from understudy.servers.app_server import params
from understudy.servers.app_server.app_peer import MOST_WAITING, AppPeer, ThreadViewer
from understudy.servers.app_server.settings import config_of, thread_settings, turn_overrides
from understudy.servers.app_server.threads import loaded
from understudy.servers.app_server.turn_shape import turn_object
from understudy.servers.app_server.wire import Json
from understudy.servers.failures import InvalidParams, InvalidRequest, unknown_kind
from understudy.servers.given_images import image_item, local_image, places_for
from understudy.servers.stdio.line_door import LineAnswer

KINDS = ("text", "image", "localImage", "skill", "mention")


async def start(client: AppPeer, given: Raw | None) -> LineAnswer:
    """Begin a turn of its own; while another one runs, it waits for that one's end."""
    asked = params.read(params.StartTurn, given)
    viewer = await loaded(client, asked.thread_id)
    handle = viewer.handle
    chosen = turn_overrides(asked)
    if viewer.chosen is not None:
        chosen = viewer.chosen if chosen is None else merge(viewer.chosen, chosen)
    if chosen is not None:
        config_of(client.engine, handle, chosen)  # raises before anything is promised
    message = Message("user", await read_input(asked.input, asked.cwd or handle.facts.cwd, handle))
    op = handle.message(message, chosen, terms=await _terms(asked.output_schema), own_turn=True)
    if len(handle.queued) >= MOST_WAITING:
        raise InvalidRequest(f"{MOST_WAITING} turns of this thread are waiting already; wait for one to begin")
    before, viewer.chosen = viewer.chosen, None
    viewer.hold()
    viewer.promise(op.message.message_id)
    try:
        durable = Durable()
        accepted = await handle.submit(op, durable=durable)
        await durable
    except BaseException:
        viewer.chosen = viewer.chosen or before
        viewer.release()
        viewer.take_back(op.message.message_id)
        raise
    if accepted.queued:
        viewer.following.wait()  # if the process that runs the earlier turn dies, this one ends that turn

        def then_wait() -> None:
            viewer.note_answer(op.message.message_id)
            viewer.release()

        return LineAnswer({"turn": turn_object(op.message.message_id, "inProgress")}, then_wait)
    turn_id = viewer.id_of_turn(accepted, op.message.message_id)
    settled = None if chosen is None else _settings_updated(viewer, config_of(client.engine, handle))

    def then() -> None:
        if settled is not None:
            viewer.tell_first([settled])
        viewer.note_answer(turn_id)
        viewer.release()

    return LineAnswer({"turn": turn_object(turn_id, "inProgress")}, then)


def _settings_updated(viewer: ThreadViewer, config: Any) -> tuple[str, Json]:
    return "thread/settings/updated", {"threadId": viewer.handle.id, "threadSettings": thread_settings(config)}


async def update_settings(client: AppPeer, given: Raw | None) -> LineAnswer:
    """The choices apply from the next turn on."""
    asked = params.read(params.TurnSettings, given)
    viewer = await loaded(client, asked.thread_id)
    chosen = turn_overrides(asked)
    before = viewer.chosen
    viewer.choose(chosen)
    try:
        config = config_of(client.engine, viewer.handle, viewer.chosen)
    except AgentError:
        viewer.chosen = before
        raise
    return LineAnswer({}, lambda: viewer.tell([_settings_updated(viewer, config)]))


async def steer(client: AppPeer, given: Raw | None) -> Json:
    asked = params.read(params.Steer, given)
    viewer = await loaded(client, asked.thread_id)
    message = Message("user", await read_input(asked.input, viewer.handle.facts.cwd, viewer.handle))
    running = viewer.running_turn
    if running is None:
        raise InvalidRequest("no active turn to steer")
    if running != asked.expected_turn_id:
        raise InvalidRequest(f"expected active turn id `{asked.expected_turn_id}` but found `{running}`")
    durable = Durable()
    op = viewer.handle.message(message)
    accepted = await viewer.handle.submit(op, durable=durable)
    await durable
    return {"turnId": running if accepted.joined else viewer.id_of_turn(accepted, op.message.message_id)}


async def interrupt(client: AppPeer, given: Raw | None) -> Json:
    """Answer once the turn is over. A turn that was already over is left alone."""
    asked = params.read(params.Interrupt, given)
    viewer = await loaded(client, asked.thread_id)
    if asked.turn_id in viewer.promised:  # it has not begun
        durable = Durable()
        await viewer.handle.submit(Cancel(asked.turn_id), durable=durable)
        await durable
        return {}
    running = viewer.running_turn
    if running == asked.turn_id:
        stopped = await viewer.handle.interrupt()
        if stopped.status == "requested":
            holder = "another process" if stopped.holder is None else f"process {stopped.holder}"
            raise InvalidRequest(f"the turn runs in {holder}, which was told to end it and has not done so yet")
        return {}
    await viewer.handle.committed()  # it may be ending right now, which clients are told first
    if asked.turn_id in viewer.projection.turn_ids.values():
        return {}
    if running is None:
        raise InvalidRequest(f"no active turn to interrupt: {asked.turn_id} is not a turn of this thread")
    raise InvalidRequest(f"expected active turn id {asked.turn_id} but found {running}")


# -- content of a message


async def _terms(schema: dict[str, Any] | None) -> Terms | None:
    if schema is None:
        return None
    problem = shape_problem(schema) or await schema_problem(schema)
    if problem is not None:
        raise InvalidParams(f"Invalid params: `outputSchema` is no JSON schema: {problem}")
    return Terms(schema, insists=False)


async def read_input(given: list[dict[str, Any]], cwd: str, handle: Handle) -> tuple[ContentPart, ...]:
    """Raises `InvalidParams` for content that cannot be read, and for an empty message."""
    if not given:
        raise InvalidParams("Invalid params: `input` is empty; give at least one item, such as a `text`")
    parts = [await _read_item(item, f"params.input[{number}]", cwd, handle) for number, item in enumerate(given)]
    if all(isinstance(part, InputText) and not part.text for part in parts):
        raise InvalidParams("Invalid params: `input` has no text and no image in it")
    return tuple(parts)


async def _read_item(item: dict[str, Any], where: str, cwd: str, handle: Handle) -> ContentPart:
    match item:
        case {"type": "text", "text": str(text)}:
            return InputText(text)
        case {"type": "image", "url": str(url)}:
            return InputImage(image_item(url))
        case {"type": "localImage", "path": str(path)}:
            return InputImage(await asyncio.to_thread(local_image, path, cwd, places_for(handle)))
        case {"type": "mention", "name": str(name), "path": str(path)}:
            return InputText(f"[@{name}]({path})")
        case {"type": "skill", "name": str(name), "path": str(path)}:
            return InputText(f"[${name}]({path})")
        case _:
            raise unknown_kind(where, item, KINDS)
