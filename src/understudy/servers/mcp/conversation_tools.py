"""The conversation tools, for user interfaces that attach at any moment, catch up, follow live, leave and come back.

Also a page of `conversationsList`, in the form that clients see.
"""

from datetime import UTC, datetime
from typing import Any

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.engine.turn.approvals import CLIENT
from understudy.errors import ConfigError, InvalidArguments, TooManyTurns, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Accepted, Archive, Cancel, Decide, Delete, Interrupt
from understudy.protocol.records import UserInputAsked
from understudy.servers.arguments import WHERE_IDS_ARE, Arguments, overrides_from, read_terms
from understudy.servers.mcp import conversation_arguments as arguments
from understudy.servers.mcp.asking import read_decision
from understudy.servers.mcp.call import LATER, Call, Later, OnceDurable
from understudy.servers.mcp.input_forms import given_answer
from understudy.servers.mcp.results import WithMeta
from understudy.servers.mcp.stream_viewer import Snapshots, StreamViewer
from understudy.servers.wire_events.presentation import presentation_of
from understudy.store.log import Listed, Page


async def page_of_rows(page: Page, engine: Engine) -> dict[str, Any]:
    result: dict[str, Any] = {"conversations": [await _row(listed, engine) for listed in page.rows]}
    if page.next_cursor is not None:
        result["next_cursor"] = page.next_cursor
    return result


async def _row(listed: Listed, engine: Engine) -> dict[str, Any]:
    standing = await engine.standing_of(listed)
    listed, summary = standing.listed, standing.listed.summary
    row: dict[str, Any] = {
        "conversation_id": listed.conversation_id,
        "title": summary.title,
        "created_at": _rfc3339(listed.created_at),
        "updated_at": _rfc3339(listed.updated_at),
        "status": standing.status,
        "message_count": summary.message_count,
        "cwd": summary.cwd,
        "model": summary.model,
        "pending": list(summary.pending),
        **summary.spent(),
    }
    if standing.going_on:
        row["running"] = standing.going_on.shown()
    return row


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


DEFAULT_PAGE = 50
LARGEST_PAGE = 200
ANSWER_ON_ITS_WAY = "the turn runs in another process, which was given the answer and has not taken it yet"


async def create(call: Call) -> OnceDurable:
    values = _read(arguments.CREATE, call)
    terms = await read_terms(values)
    if terms is not None and not values.get("prompt"):
        raise InvalidArguments("`output_schema` and `budget` hold for one turn: give them with a `prompt`, or with the message")
    prompt = values.get("prompt", "")
    client = call.client
    try:
        handle = await client.engine.create(client.caller, overrides_from(values), for_turn=bool(prompt), terms=terms)
    except ConfigError as error:
        raise ConfigError(f"Failed to load config: {error}") from error
    client.created_by[handle.id] = call.id
    if prompt:
        try:
            await handle.submit(handle.message(Message("user", (InputText(prompt),)), terms=terms))
        except TooManyTurns:  # other calls have begun turns meanwhile
            handle.submit_soon(Delete())
            raise
    return OnceDurable(handle.durable(), {"conversation_id": handle.id, "model": handle.facts.model})


async def send_message(call: Call) -> OnceDurable:
    values = _read(arguments.SEND, call)
    terms = await read_terms(values)
    if not values["content"]:
        raise InvalidArguments("No content items provided")
    handle = await _find(call, values)
    parent = values.get("parent_message_id")
    if parent is not None:
        parent = arguments.read_id(parent, "parent_message_id")
    chosen = overrides_from(values) if any(name in values for name in arguments.OVERRIDES) else None
    message = Message("user", await arguments.read_content(values["content"], handle))
    durable = Durable()
    try:
        sent = await handle.submit(handle.message(message, chosen, parent, terms), durable=durable)
    except UnknownConversation:
        raise UnknownConversation(f"Session does not exist: {handle.id}") from None
    if not sent.joined:  # a message that began a turn can be cancelled while that turn runs
        call.lasts = lambda: _lasts(handle, sent, durable)
        call.when_cancelled(lambda: handle.submit_soon(Cancel(sent.message_id, sent.turn or "")))
    return OnceDurable(durable, WithMeta({"status": "ok"}, {"messageId": sent.message_id, "joined": sent.joined}))


def _lasts(handle: Handle, sent: Accepted, durable: Durable) -> bool:
    """Whether the turn that the message began is running or still to begin."""
    if not sent.held:
        return handle.running_turn == sent.turn
    if not handle.has_message(sent.message_id):
        return not durable.failed
    return handle.message_of_turn(handle.running_turn or "") == sent.message_id


async def stream(call: Call) -> Later:
    values = _read(arguments.STREAM, call)
    handle = await _find(call, values)
    client = call.client
    before = client.streams.pop(handle.id, None)
    if before is not None:
        before.disconnect("New stream() took over")
    if not client.streams_answer_at_end:
        call.answer({})
    viewer = (client.stream_viewer or StreamViewer)(
        client.peer,
        client.sink,  # it continues after the answer
        handle,
        call.id,
        call=client.created_by.get(handle.id),
        presentation=presentation_of(handle),
        after=values.get("after"),
    )
    if client.streams_answer_at_end:
        viewer.when_over = lambda: None if call.answered else call.answer({})
    client.streams[handle.id] = viewer
    call.lasts = lambda: not viewer.over
    call.when_cancelled(lambda: _leave(call, viewer))
    if client.snapshots is None:
        client.snapshots = Snapshots(client.sink, client.engine.tasks)
    client.snapshots.add(viewer)
    return LATER


def _leave(call: Call, viewer: StreamViewer) -> None:
    viewer.stop()
    if call.client.streams.get(viewer.handle.id) is viewer:
        del call.client.streams[viewer.handle.id]


async def list_conversations(call: Call) -> dict[str, Any]:
    values = _read(arguments.LIST, call)
    limit = min(values.get("limit", DEFAULT_PAGE), LARGEST_PAGE)
    engine = call.client.engine
    archived = values.get("archived", False)
    return await page_of_rows(await engine.list(call.client.caller, limit, values.get("cursor"), archived=archived), engine)


async def interrupt(call: Call) -> dict[str, Any]:
    """Tell the turn to end at once, and answer when it is over."""
    handle = await _find(call, _read(arguments.ONE, call))
    stopped = await handle.interrupt()
    if stopped.status != "requested":
        return {"status": "ok", "interrupted": stopped.status == "over"}
    holder = "another process" if stopped.holder is None else f"process {stopped.holder}"
    message = f"the turn runs in {holder}, which was told to end it and has not done so yet"
    return {"status": "requested", "interrupted": False, "held_by": holder, "message": message}


async def compact(call: Call) -> dict[str, Any] | OnceDurable:
    """An idle conversation has been summarised when the answer comes; a running turn does it when it can."""
    handle = await _find(call, _read(arguments.ONE, call))
    compacting = await handle.compact()
    turn = compacting.turn
    if turn is None:
        message = "a turn is running: the conversation is summed up before its next request, or at its end"
        return OnceDurable(handle.durable(), {"status": "requested", "message": message})
    call.when_cancelled(lambda: handle.submit_soon(Interrupt(turn)))
    compacted = await compacting.over()
    return {"status": "ok", "tokens_before": compacted.tokens_before, "tokens_after": compacted.tokens_after}


async def fork(call: Call) -> dict[str, Any]:
    values = _read(arguments.FORK, call)
    source = await _find(call, values)
    message_id = values.get("message_id")
    if message_id is not None:
        message_id = arguments.read_id(message_id, "message_id")
    handle = await call.client.engine.fork(call.client.caller, source.id, message_id=message_id)
    return {"conversation_id": handle.id, "model": handle.facts.model}


async def approve(call: Call) -> OnceDurable:
    values = _read(arguments.APPROVE, call)
    handle = await _find(call, values)
    call_id = values["call_id"]
    durable = Durable()
    outcome = "closed"
    if (question := handle.open_question(call_id)) is not None:
        client = call.client.peer.calls_itself
        if isinstance(question, UserInputAsked):
            op = given_answer(question, values, handle.asked_at(call_id), client)
        else:
            op = Decide(call_id, read_decision(values["decision"]), CLIENT, asked_at=handle.asked_at(call_id), client=client)
        outcome = await handle.decide(op, durable)
    if outcome == "closed":
        await handle.committed()  # it may just have been closed, by an answer that is not on disk yet
        pending = ", ".join(handle.facts.questions) or "none"
        raise InvalidArguments(f"no open question with call_id `{call_id}`; open ones: {pending}")
    return OnceDurable(durable, {"status": "ok"} if outcome == "counts" else {"status": "requested", "message": ANSWER_ON_ITS_WAY})


async def archive(call: Call) -> dict[str, Any]:
    return await _put_away(call, archived=True)


async def unarchive(call: Call) -> dict[str, Any]:
    return await _put_away(call, archived=False)


async def _put_away(call: Call, *, archived: bool) -> dict[str, Any]:
    handle = await _find(call, _read(arguments.ONE, call))
    await handle.submit(Archive(archived))
    return {"status": "ok"}


async def rename(call: Call) -> dict[str, Any]:
    values = _read(arguments.RENAME, call)
    handle = await _find(call, values)
    return {"status": "ok", "title": await handle.rename(values["title"])}


async def delete(call: Call) -> dict[str, Any]:
    handle = await _find(call, _read(arguments.ONE, call))
    await handle.submit(Delete())
    viewer = call.client.streams.pop(handle.id, None)
    if viewer is not None:
        viewer.disconnect("the conversation was deleted")
    return {"status": "ok"}


def _read(members: Arguments, call: Call) -> dict[str, Any]:
    return members.read({} if call.arguments is None else call.arguments)


async def _find(call: Call, values: dict[str, Any]) -> Handle:
    conversation_id = ConversationId(arguments.read_id(values["conversation_id"], "conversation_id"))
    try:
        return await call.client.find(conversation_id)
    except UnknownConversation:
        raise UnknownConversation(f"Session does not exist: {conversation_id}\n{WHERE_IDS_ARE}") from None
