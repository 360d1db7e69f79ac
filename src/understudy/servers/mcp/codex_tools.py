"""`codex` and `codex-reply`: a message to a new or an earlier session. The turn's viewer gives the answer."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.errors import (
    AgentError,
    ConfigError,
    InvalidArguments,
    LacksRight,
    NotAllowed,
    TooManyTurns,
    UnknownConversation,
    WorkspaceFailed,
)
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.items import ContentPart, InputText, Message
from understudy.protocol.ops import Cancel, Delete
from understudy.protocol.records import Overrides, Terms
from understudy.servers import arguments
from understudy.servers.mcp.call import LATER, Call, CallViewer, Later
from understudy.servers.wire_events.presentation import presentation_from

if TYPE_CHECKING:
    from understudy.places.places import Places
    from understudy.servers.mcp.progress import Progress

logger = logging.getLogger(__name__)

UNREADABLE = "Failed to parse configuration for Codex tool: "


async def codex(call: Call) -> Later:
    """Start a session and give it a task."""
    if call.arguments is None:
        raise InvalidArguments("Missing arguments for codex tool-call; the `prompt` field is required.")
    values = _read(arguments.CODEX, call.arguments)
    terms = await _read_terms(values) if _has_terms(values) else None
    try:
        chosen = arguments.overrides_from(values)
    except AgentError as error:
        _refuse_start(error)
    images = await _read_images(call, values, values.get("cwd", ""), chosen) if values.get("images") else ()
    try:
        making = call.client.engine.create(call.client.caller, chosen, for_turn=True, terms=terms)
        handle = await (making if chosen.workspace is None else _unless_cancelled(call, making))
    except AgentError as error:
        _refuse_start(error)
    content = (*images, InputText(values["prompt"]))
    return await _begin(call, handle, content, terms, values, created=True)


async def _unless_cancelled(call: Call, making: Coroutine[Any, Any, Handle]) -> Handle:
    """A workspace takes long to make: if the call is cancelled meanwhile, nothing of the workspace is left."""
    task = asyncio.ensure_future(making)
    call.when_cancelled(task.cancel)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    if task.cancelled():
        raise WorkspaceFailed("the call was cancelled before its workspace was made")
    call.when_cancelled(lambda: None)
    return task.result()


def _refuse_start(error: AgentError) -> NoReturn:
    if isinstance(error, ConfigError):
        raise ConfigError(f"Failed to load Codex configuration from overrides: {error}") from error
    error.args = (f"Failed to start Codex session: {error}",)
    raise error


async def codex_reply(call: Call) -> Later:
    """Continue a session."""
    if call.arguments is None:
        raise InvalidArguments("Missing arguments for codex-reply tool-call; the `session_id` and `prompt` fields are required.")
    values = _read(arguments.CODEX_REPLY, call.arguments)
    named = values["threadId"] if "threadId" in values else values.get("conversationId", values.get("sessionId"))
    has_terms, has_images = _has_terms(values), "images" in values and bool(values["images"])
    for name, value in (("sessionId", named), ("prompt", values.get("prompt") if has_terms or has_images else "")):
        if value is None:
            hint = "Give the session as `threadId`, and the message as `prompt`."
            raise InvalidArguments(f"Failed to parse configuration for Codex tool: missing field `{name}`\n{hint}")
    terms = await _read_terms(values) if has_terms else None
    try:
        conversation_id = ConversationId(read_uuid(str(named)))
    except ValueError as error:
        raise InvalidArguments(f"Failed to parse session_id: {error}\n{arguments.WHAT_AN_ID_IS}") from None
    try:
        handle = await call.client.find(conversation_id, to_send="prompt" in values)
    except UnknownConversation:
        raise UnknownConversation(f"Session not found for session_id: {conversation_id}\n{arguments.WHERE_IDS_ARE}") from None
    if "prompt" not in values:
        from understudy.servers.mcp.waiting_calls import wait_on  # few calls wait

        return await wait_on(call, handle, _make_viewer(call, handle, values), values.get("wait-seconds"))
    images = await _read_images(call, values, handle.facts.cwd or "", handle) if has_images else ()
    return await _begin(call, handle, (*images, InputText(values["prompt"])), terms, values)


def _has_terms(values: dict[str, Any]) -> bool:
    return not arguments.TERM_MEMBERS.keys().isdisjoint(values)


async def _read_terms(values: dict[str, Any]) -> Terms | None:
    try:
        return await arguments.read_terms(values)
    except InvalidArguments as error:
        raise InvalidArguments(f"{UNREADABLE}{error}") from None


async def _read_images(call: Call, values: dict[str, Any], cwd: str, of: Handle | Overrides) -> tuple[ContentPart, ...]:
    from understudy.servers.given_images import places_for, places_for_new, read_images  # few calls have images

    def find_places() -> "Places":
        try:
            return places_for(of) if isinstance(of, Handle) else places_for_new(call.client.engine, of)
        except AgentError as error:
            _refuse_start(error)

    try:
        return await read_images(call.client.caller, values["images"], cwd, find_places)
    except InvalidArguments as error:
        raise InvalidArguments(f"{UNREADABLE}{error}") from None


def _read(members: arguments.Arguments, given: object) -> dict[str, Any]:
    try:
        return members.read(given)
    except InvalidArguments as error:
        raise InvalidArguments(f"{UNREADABLE}{error}") from None


async def _begin(
    call: Call,
    handle: Handle,
    content: tuple[ContentPart, ...],
    terms: Terms | None,
    values: dict[str, Any],
    *,
    created: bool = False,
) -> Later:
    """Send the message, and let a viewer answer the call at the end of its turn."""
    viewer = _make_viewer(call, handle, values, created=created)
    seconds = values.get("wait-seconds")
    durable = None if seconds is None else _answering_after(viewer, seconds)
    try:
        await viewer.send(Message("user", content), terms, durable)
    except UnknownConversation:
        raise UnknownConversation(f"Session not found for session_id: {handle.id}") from None
    except AgentError as error:
        if isinstance(error, NotAllowed) and not isinstance(error, LacksRight):
            raise  # a choice that the caller may not make is refused like a wrong argument
        viewer.failed(error)
        if created and isinstance(error, TooManyTurns):  # other calls have begun turns meanwhile
            handle.submit_soon(Delete())
        return LATER
    call.when_cancelled(lambda: handle.tasks.run(cancel_turn(viewer)))
    return LATER


def _answering_after(viewer: CallViewer, seconds: float) -> Durable:
    """Answer the call after so many seconds, but not before its message is on disk: earlier there is nothing to come back to."""
    from understudy.servers.mcp.waiting_calls import answer_after  # few calls ask for it

    durable, loop = Durable(), viewer.call.client.loop
    until = loop.time() + seconds
    durable.when_known(lambda error: None if error is not None else answer_after(viewer, max(0.0, until - loop.time())))
    return durable


def _make_viewer(call: Call, handle: Handle, values: dict[str, Any], *, created: bool = False) -> CallViewer:
    make = call.client.call_viewer or CallViewer
    presentation = presentation_from(handle.setup().config).asked_for(values.get("report"))
    return make(call, handle, presentation, _progress(call, handle), created=created)


def _progress(call: Call, handle: Handle) -> "Progress | None":
    if call.progress_token is None:
        return None
    from understudy.servers.mcp.progress import Progress  # only for callers that ask for it

    return Progress(call.progress_token, call.sink, call.id, call.client.loop, handle.id)


async def cancel_turn(viewer: CallViewer) -> None:
    """A call that began a turn ends it; a call that joined a turn only leaves it."""
    following = viewer.following
    if following.turn and not following.leads:
        viewer.answer_failure("the call was cancelled; the turn it had joined goes on")
        return
    try:
        accepted = await viewer.handle.submit(Cancel(following.message_id, following.turn or ""))
    except AgentError as error:
        viewer.failed(error)
        return
    if accepted.effective:
        return
    if following.turn:
        logger.info("cancellation of %.100r, whose turn is over", viewer.call.id)
    else:
        viewer.answer_failure("the call was cancelled; its message is read in the next turn")
