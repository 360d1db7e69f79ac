"""What `tools/list` says of each tool: name, schema and description. Property names cover both times of the wire."""

from typing import Any

from understudy.config.model import REPORT_KINDS
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES, SEARCH_ROLES


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "threadId": _string("The session; give it to codex-reply to go on."),
        "content": _string("The agent's final message."),
        "refused": {
            "type": "array",
            "description": "What the agent wanted and was refused, because nobody could be asked.",
            "items": {"type": "object"},
        },
        "output": {"description": "The answer as a JSON value, where the call gave an output-schema."},
        "running": {
            "type": "object",
            "description": "What goes on after this: `turn`, and `commands` with session_id and command.",
        },
        "report": {
            "type": "object",
            "description": "What the turn did and used, from the log: files, failed commands, tokens, cost_usd.",
        },
    },
    "required": ["threadId", "content"],
}

_TERMS: dict[str, Any] = {
    "budget": {
        "type": "object",
        "description": "What this call may use. At a limit the user is asked whether to raise it.",
        "properties": {
            "tokens": {"type": "integer", "exclusiveMinimum": 0},
            "cost_usd": {"type": "number", "exclusiveMinimum": 0},
            "seconds": {"type": "number", "exclusiveMinimum": 0},
            "requests": {"type": "integer", "exclusiveMinimum": 0},
        },
    },
    "output-schema": {
        "type": "object",
        "additionalProperties": True,
        "description": "A JSON schema for the final answer, which is then in structuredContent.output.",
    },
}

_ANSWER: dict[str, Any] = {
    "report": _string(
        "What the result says of the turn beside the answer: brief (files, failed commands, tokens, cost; the default), or full.",
        enum=list(REPORT_KINDS),
    ),
    "wait-seconds": {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "Answer after so many seconds even if the agent still works: codex-reply without a prompt waits on.",
    },
}

_IMAGES: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Images that go with the prompt: files on the server's machine, or data: URLs.",
}

_ACTS: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


def _found_by(words: str) -> dict[str, Any]:
    """For clients that hide tools behind a search until needed (Claude Code): these two are the server's purpose."""
    return {"anthropic/alwaysLoad": True, "anthropic/searchHint": words}


_WORKSPACE: dict[str, Any] = {
    "type": "object",
    "description": "In place of cwd: a clone of a git repository that is made for this session, or a folder that is there.",
    "properties": {
        "kind": _string("git: a clone is made. folder, volume: `path` names it.", enum=["folder", "volume", "git"]),
        "path": _string("For folder and volume: where it is."),
        "url": _string("For git: the repository, by https or ssh, without a password."),
        "commit": _string("For git: a commit, branch or tag; else what the repository has checked out."),
        "setup": {"type": "array", "items": {"type": "string"}, "description": "For git: shell commands that prepare the clone."},
    },
    "required": ["kind"],
}

CODEX: dict[str, Any] = {
    "name": "codex",
    "_meta": _found_by("give a coding task to another agent: run commands, edit files, review, in a sandbox"),
    "title": "Codex",
    "description": (
        "Start a session with a coding agent and give it a task. It reads the project, runs commands in a sandbox, edits files, "
        "asks before anything risky, and answers when it is done. The result holds a threadId: use codex-reply to continue "
        "the same session."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "approval-policy": _string(
                "When the agent asks before it acts: untrusted (before every command not known to be harmless), on-failure (when "
                "the sandbox refused a command), on-request (when the agent wants to leave the sandbox), never.",
                enum=list(APPROVAL_POLICIES),
            ),
            **_TERMS,
            **_ANSWER,
            "base-instructions": _string("Replaces the agent's built-in instructions."),
            "compact-prompt": _string("The instructions by which a long session is summarised."),
            "config": {
                "type": "object",
                "additionalProperties": True,
                "description": 'Single keys of config.toml for this session, dotted: {"model_provider": "mine"}.',
            },
            "cwd": _string("The folder to work in; a relative one starts at the server's own."),
            "developer-instructions": _string("Further instructions, given to the model in the developer role."),
            "images": _IMAGES,
            "include-plan-tool": {"type": "boolean", "description": "Let the agent show a plan of its steps."},
            "model": _string("The model to use, in place of the configured one."),
            "profile": _string("A profile of config.toml."),
            "prompt": _string("The task."),
            "sandbox": _string(
                "How commands are confined: read-only, workspace-write (writes only below cwd and configured folders), "
                "danger-full-access.",
                enum=list(SANDBOX_MODES),
            ),
            "workspace": _WORKSPACE,
        },
        "required": ["prompt"],
    },
    "outputSchema": _RESULT,
    "annotations": {"title": "Codex", **_ACTS},
}

CODEX_REPLY: dict[str, Any] = {
    "name": "codex-reply",
    "_meta": _found_by("continue a codex session by its threadId, or wait for its answer"),
    "title": "Codex Reply",
    "description": (
        "Go on with a session that codex began: another message to the same agent, with all that was said and done before. A "
        "message that comes while the agent works joins what it is doing. Sessions outlive the server: one from an earlier run "
        "can be continued."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "conversationId": _string("The same as threadId, by its former name."),
            "images": _IMAGES,
            "prompt": _string("The next message. Without one the call waits for the answer that the agent is working on."),
            "sessionId": _string("The same as threadId, by its first name."),
            "threadId": _string("The session: threadId of an earlier result."),
            **_TERMS,
            **_ANSWER,
        },
    },
    "outputSchema": _RESULT,
    "annotations": {"title": "Codex Reply", **_ACTS},
}

_READS: dict[str, Any] = {"readOnlyHint": True, "openWorldHint": False}
_STEERS: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}

_CONVERSATION_ID = _string("The conversation: conversation_id of conversationCreate or conversationsList, or threadId of codex.")
_STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {"status": _string("ok, or error"), "message": _string("What went wrong.")},
    "required": ["status"],
}


def _snake(properties: dict[str, Any], *left_out: str) -> dict[str, Any]:
    return {name.replace("-", "_"): schema for name, schema in properties.items() if name not in left_out}


_SESSION = _snake(CODEX["inputSchema"]["properties"], "prompt", "compact-prompt", "images", "workspace", *_ANSWER)
_ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": _string("What the item is.", enum=["text", "image", "local_image"]),
        "text": _string("For text: the words."),
        "image_url": _string("For image: a data: or https: address."),
        "path": _string("For local_image: a file on the server's machine."),
    },
    "required": ["type"],
}


def _tool(
    name: str,
    title: str,
    description: str,
    properties: dict[str, Any],
    required: list[str],
    output: dict[str, Any] | None,
    annotations: dict[str, Any],
) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
        "annotations": {"title": title, **annotations},
    }
    if output is not None:
        tool["outputSchema"] = output
    return tool


CONVERSATION_CREATE = _tool(
    "conversationCreate",
    "Create conversation",
    "Begin a conversation with the coding agent. A prompt starts its first turn at once; without one it waits for "
    "conversationSendMessage. Use conversationStream to see what happens.",
    {"prompt": _string("The first message; empty or absent: none yet."), "workspace": _WORKSPACE, **_SESSION},
    [],
    {
        "type": "object",
        "properties": {"conversation_id": _CONVERSATION_ID, "model": _string("The model in use.")},
        "required": ["conversation_id", "model"],
    },
    _ACTS,
)

CONVERSATION_SEND_MESSAGE = _tool(
    "conversationSendMessage",
    "Send message",
    "Send a message to a conversation. It is accepted at once; what it causes arrives as events. While a turn runs the message "
    "joins it and is read before the turn ends.",
    {
        "conversation_id": _CONVERSATION_ID,
        "content": {"type": "array", "items": _ITEM, "description": "Text and images, in order."},
        "parent_message_id": _string(
            "Continue from the end of this earlier message's turn instead of from the newest: a fork in the same conversation."
        ),
        **_SESSION,
    },
    ["conversation_id", "content"],
    _STATUS,
    _ACTS,
)

CONVERSATION_STREAM = _tool(
    "conversationStream",
    "Stream conversation",
    "Attach to a conversation: the answer, then notifications/initial_state with every event so far, then live events, until "
    "this request is cancelled. Approval questions come while you stream.",
    {
        "conversation_id": _CONVERSATION_ID,
        "after": {
            "type": "integer",
            "minimum": 0,
            "description": "Only what came after this sequence number; 0 for all. Each event then has its number in _meta.",
        },
    },
    ["conversation_id"],
    None,
    _READS,
)

CONVERSATIONS_LIST = _tool(
    "conversationsList",
    "List conversations",
    "Conversations, last activity first, in pages.",
    {
        "limit": {"type": "integer", "minimum": 0, "description": "At most so many; 50 if not given, 200 at most."},
        "cursor": _string("next_cursor of the page before."),
        "archived": {"type": "boolean", "description": "Those that were archived, instead of the others."},
    },
    [],
    {
        "type": "object",
        "properties": {
            "conversations": {"type": "array", "items": {"type": "object"}},
            "next_cursor": _string("For the next page; absent on the last."),
        },
        "required": ["conversations"],
    },
    _READS,
)

CONVERSATIONS_SEARCH = _tool(
    "conversationsSearch",
    "Search conversations",
    "Find what was said and run in all conversations, the newest first.",
    {
        "query": _string('Words, all of which have to be there; "in this order", begin*, -without, this OR that.'),
        "folder": _string("Only what was said while working in this folder or below it."),
        "since": _string("Not before: 2026-11-19, 2026-11-19T12:00:00Z, or 12h, 7d ago."),
        "role": _string("Only of this kind.", enum=list(SEARCH_ROLES)),
        "limit": {"type": "integer", "minimum": 1, "description": "At most so many; 20 if not given, 100 at most."},
        "cursor": _string("next of the page before."),
    },
    ["query"],
    {
        "type": "object",
        "properties": {
            "hits": {"type": "array", "items": {"type": "object"}},
            "next": _string("For the next page; absent on the last."),
        },
        "required": ["hits"],
    },
    _READS,
)

CONVERSATION_INTERRUPT = _tool(
    "conversationInterrupt",
    "Interrupt conversation",
    "End the turn that runs in a conversation. What it did stays on record.",
    {"conversation_id": _CONVERSATION_ID},
    ["conversation_id"],
    _STATUS,
    _STEERS,
)

CONVERSATION_COMPACT = _tool(
    "conversationCompact",
    "Compact conversation",
    "Have the model sum up a conversation, so that its context has room again. The log keeps everything. This happens by itself "
    "when the context is nearly full.",
    {"conversation_id": _CONVERSATION_ID},
    ["conversation_id"],
    {
        **_STATUS,
        "properties": {
            "status": _string("ok, requested (a turn is running: it does it when it can), or error"),
            "message": _string("What went wrong."),
            "tokens_before": {"type": "integer"},
            "tokens_after": {"type": "integer", "description": "An estimate."},
        },
    },
    {**_STEERS, "idempotentHint": False, "openWorldHint": True},
)

CONVERSATION_FORK = _tool(
    "conversationFork",
    "Fork conversation",
    "Start a new conversation that begins like this one, with its settings. This one stays as it is.",
    {
        "conversation_id": _CONVERSATION_ID,
        "message_id": _string("Up to the end of the turn that read this message; by default, of the last turn that is over."),
    },
    ["conversation_id"],
    CONVERSATION_CREATE["outputSchema"],
    {**_STEERS, "idempotentHint": False},
)

CONVERSATION_APPROVE = _tool(
    "conversationApprove",
    "Answer an approval question",
    "Answer a question that a conversation waits with. Open questions are listed as `pending` by conversationsList.",
    {
        "conversation_id": _CONVERSATION_ID,
        "call_id": _string("The question: call_id of its event."),
        "decision": _string("The answer.", enum=["approved", "approved_for_session", "denied", "abort"]),
    },
    ["conversation_id", "call_id", "decision"],
    {
        **_STATUS,
        "properties": {
            "status": _string("ok, requested (another process has not read the answer yet), or error"),
            "message": _string("What went wrong."),
        },
    },
    _ACTS,
)

CONVERSATION_ARCHIVE = _tool(
    "conversationArchive",
    "Archive conversation",
    "Put a conversation away: conversationsList leaves it out unless asked for `archived` ones. Nothing of it is lost.",
    {"conversation_id": _CONVERSATION_ID},
    ["conversation_id"],
    _STATUS,
    _STEERS,
)

CONVERSATION_UNARCHIVE = _tool(
    "conversationUnarchive",
    "Bring conversation back",
    "Bring an archived conversation back into the list.",
    {"conversation_id": _CONVERSATION_ID},
    ["conversation_id"],
    _STATUS,
    _STEERS,
)

CONVERSATION_RENAME = _tool(
    "conversationRename",
    "Rename conversation",
    "Give a conversation a title, which lists show from then on.",
    {"conversation_id": _CONVERSATION_ID, "title": {"type": "string", "maxLength": 200, "description": "One line."}},
    ["conversation_id", "title"],
    _STATUS,
    _STEERS,
)

CONVERSATION_DELETE = _tool(
    "conversationDelete",
    "Delete conversation",
    "Forget a conversation for good, with everything on record of it.",
    {"conversation_id": _CONVERSATION_ID},
    ["conversation_id"],
    _STATUS,
    {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
)
