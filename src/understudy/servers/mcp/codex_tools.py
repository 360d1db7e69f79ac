"""`codex` and `codex-reply`: a message to a new or an earlier session. The answer is given by the viewer of its turn."""

import logging
from typing import TYPE_CHECKING, Any

from understudy.engine.conversation import Conversation
from understudy.errors import AgentError, ConfigError, InvalidArguments, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.uuids import read_uuid
from understudy.servers.mcp import arguments
from understudy.servers.mcp.call import LATER, Call, Later
from understudy.servers.mcp.calls import CallReader
from understudy.servers.mcp.presentation import presentation_from

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress

logger = logging.getLogger(__name__)


async def codex(call: Call) -> Later:
    """Start a session and give it a task."""
    if call.arguments is None:
        raise InvalidArguments("Missing arguments for codex tool-call; the `prompt` field is required.")
    values = _read(arguments.CODEX, call.arguments)
    try:
        conversation = call.client.engine.create(arguments.overrides_from(values))
    except ConfigError as error:
        raise ConfigError(f"Failed to load Codex configuration from overrides: {error}") from error
    except AgentError as error:
        raise type(error)(f"Failed to start Codex session: {error}") from error
    return _begin(call, conversation, values["prompt"])


async def codex_reply(call: Call) -> Later:
    """Go on with a session."""
    if call.arguments is None:
        raise InvalidArguments("Missing arguments for codex-reply tool-call; the `session_id` and `prompt` fields are required.")
    values = _read(arguments.CODEX_REPLY, call.arguments)
    named = next((values[name] for name in ("threadId", "conversationId", "sessionId") if name in values), None)
    for name, value in (("sessionId", named), ("prompt", values.get("prompt"))):
        if value is None:
            hint = "Give the session as `threadId`, and the message as `prompt`."
            raise InvalidArguments(f"Failed to parse configuration for Codex tool: missing field `{name}`\n{hint}")
    try:
        conversation_id = ConversationId(read_uuid(str(named)))
    except ValueError as error:
        raise InvalidArguments(f"Failed to parse session_id: {error}\n{arguments.WHAT_AN_ID_IS}") from None
    try:
        conversation = call.client.engine.find(conversation_id, to_send=True)
    except UnknownConversation:
        raise UnknownConversation(f"Session not found for session_id: {conversation_id}\n{arguments.WHERE_IDS_ARE}") from None
    return _begin(call, conversation, values["prompt"])


def _read(members: arguments.Arguments, given: object) -> dict[str, Any]:
    try:
        return members.read(given)
    except InvalidArguments as error:
        raise InvalidArguments(f"Failed to parse configuration for Codex tool: {error}") from None


def _begin(call: Call, conversation: Conversation, prompt: str) -> Later:
    """Send the message, and let a viewer answer the call at the end of its turn."""
    viewer = CallReader(call, conversation, presentation_from(conversation.setup().config), _progress(call))
    viewer.attach()
    try:
        sent = call.client.engine.send(conversation, Message("user", (InputText(prompt),)))
    except UnknownConversation:
        raise UnknownConversation(f"Session not found for session_id: {conversation.id}") from None
    except AgentError as error:
        viewer.fail(error)
        return LATER
    viewer.follow(sent)
    call.when_cancelled(lambda: _cancel(viewer))
    if sent.held:
        conversation.when_accepted(lambda error: None if error is None else viewer.fail(error))
    return LATER


def _progress(call: Call) -> "Progress | None":
    if call.progress_token is None:
        return None
    from understudy.servers.mcp.progress import Progress  # only for those who ask for it

    return Progress(call.progress_token, call.sink, call.id, call.client.loop)


def _cancel(viewer: CallReader) -> None:
    """A call that began a turn ends it; one that joined a turn only leaves it."""
    if not viewer.began_turn:
        viewer.answer_failure("the call was cancelled; the turn it had joined goes on")
    elif viewer.conversation.cancel(viewer.message_id, viewer.turn or ""):
        return
    elif viewer.turn:
        logger.info("cancellation of %.100r, whose turn is over", viewer.call.id)
    else:
        viewer.answer_failure("the call was cancelled; its message is read in the next turn")
