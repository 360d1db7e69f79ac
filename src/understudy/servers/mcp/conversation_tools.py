"""The conversation tools: for user interfaces that attach at any moment, catch up, follow live, leave and come back."""

from typing import Any

from understudy.engine.approvals import CLIENT
from understudy.engine.conversation import Conversation
from understudy.engine.stopping import Stopping
from understudy.errors import ConfigError, InvalidArguments, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.servers.mcp import conversation_arguments as arguments
from understudy.servers.mcp.arguments import WHERE_IDS_ARE, Arguments, overrides_from
from understudy.servers.mcp.asking import read_decision
from understudy.servers.mcp.call import LATER, Call, Later, OnceKept
from understudy.servers.mcp.conversation_rows import page_of_rows
from understudy.servers.mcp.presentation import presentation_of
from understudy.servers.mcp.results import WithMeta
from understudy.servers.mcp.streams import Snapshots, StreamReader

DEFAULT_PAGE = 50
LARGEST_PAGE = 200


async def create(call: Call) -> OnceKept:
    values = _read(arguments.CREATE, call)
    prompt = values.get("prompt", "")
    client = call.client
    try:
        conversation = client.engine.create(overrides_from(values))
    except ConfigError as error:
        raise ConfigError(f"Failed to load config: {error}") from error
    client.created_by[conversation.id] = call.id
    if prompt:
        client.engine.send(conversation, Message("user", (InputText(prompt),)))
    return OnceKept(conversation, {"conversation_id": conversation.id, "model": conversation.state.model})


async def send_message(call: Call) -> OnceKept:
    values = _read(arguments.SEND, call)
    if not values["content"]:
        raise InvalidArguments("No content items provided")
    conversation = _find(call, values)
    parent = values.get("parent_message_id")
    if parent is not None:
        parent = arguments.read_id(parent, "parent_message_id")
    message = Message("user", arguments.read_content(values["content"], conversation.state.overrides.cwd))
    chosen = overrides_from(values) if any(name in values for name in arguments.OVERRIDES) else None
    try:
        sent = call.client.engine.send(conversation, message, chosen, parent)
    except UnknownConversation:
        raise UnknownConversation(f"Session does not exist: {conversation.id}") from None
    if not sent.joined:  # a message that began a turn can be cancelled for as long as that runs
        call.lasts = lambda: sent.held or conversation.state.turn == sent.turn
        call.when_cancelled(lambda: conversation.cancel(sent.message_id, sent.turn))
    return OnceKept(conversation, WithMeta({"status": "ok"}, {"messageId": sent.message_id, "joined": sent.joined}))


async def stream(call: Call) -> Later:
    values = _read(arguments.STREAM, call)
    conversation = _find(call, values)
    client = call.client
    before = client.streams.pop(conversation.id, None)
    if before is not None:
        before.disconnect("New stream() took over")
    call.answer({})
    viewer = StreamReader(
        client.peer,
        call.sink,
        conversation,
        call.id,
        call=client.created_by.get(conversation.id),
        presentation=presentation_of(conversation),
        after=values.get("after"),
    )
    client.streams[conversation.id] = viewer
    call.lasts = lambda: not viewer.over
    call.when_cancelled(lambda: _leave(call, viewer))
    if client.snapshots is None:
        client.snapshots = Snapshots(client.sink)
    client.snapshots.add(viewer)
    client.engine.watch()
    return LATER


def _leave(call: Call, viewer: StreamReader) -> None:
    viewer.detach()
    if call.client.streams.get(viewer.conversation.id) is viewer:
        del call.client.streams[viewer.conversation.id]


async def list_conversations(call: Call) -> dict[str, Any]:
    values = _read(arguments.LIST, call)
    limit = min(values.get("limit", DEFAULT_PAGE), LARGEST_PAGE)
    engine = call.client.engine
    return page_of_rows(engine.list(limit, values.get("cursor")), engine)


async def interrupt(call: Call) -> dict[str, Any]:
    """The turn is told to end at once; the answer comes when it is over."""
    stopping = Stopping(_find(call, _read(arguments.ONE, call)))
    stopped = await stopping.wait()
    if stopped.status != "requested":
        return {"status": "ok", "interrupted": stopped.status == "over"}
    holder = "another process" if stopped.holder is None else f"process {stopped.holder}"
    message = f"the turn runs in {holder}, which was told to end it and has not done so yet"
    return {"status": "requested", "interrupted": False, "held_by": holder, "message": message}


async def approve(call: Call) -> OnceKept:
    values = _read(arguments.APPROVE, call)
    conversation = _find(call, values)
    call_id = values["call_id"]
    if call_id not in conversation.state.questions:
        pending = ", ".join(conversation.state.questions) or "none"
        raise InvalidArguments(f"no open question with call_id `{call_id}`; open ones: {pending}")
    conversation.decide(call_id, read_decision(values["decision"]), CLIENT)
    return OnceKept(conversation, {"status": "ok"})


async def delete(call: Call) -> dict[str, Any]:
    conversation = _find(call, _read(arguments.ONE, call))
    await call.client.engine.delete(conversation)
    viewer = call.client.streams.pop(conversation.id, None)
    if viewer is not None:
        viewer.disconnect("the conversation was deleted")
    return {"status": "ok"}


def _read(members: Arguments, call: Call) -> dict[str, Any]:
    return members.read({} if call.arguments is None else call.arguments)


def _find(call: Call, values: dict[str, Any]) -> Conversation:
    conversation_id = ConversationId(arguments.read_id(values["conversation_id"], "conversation_id"))
    try:
        return call.client.engine.find(conversation_id)
    except UnknownConversation:
        raise UnknownConversation(f"Session does not exist: {conversation_id}\n{WHERE_IDS_ARE}") from None
