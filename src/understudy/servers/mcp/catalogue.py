"""`tools/list`: names, schemas and descriptions. Property names of both times of the wire, as one superset."""

from typing import Any

from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "threadId": _string("The session; give it to codex-reply to go on."),
        "content": _string("The agent's final message."),
    },
    "required": ["threadId", "content"],
}

_ACTS: dict[str, Any] = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}

CODEX: dict[str, Any] = {
    "name": "codex",
    "title": "Codex",
    "description": (
        "Start a session with a coding agent and give it a task. It reads the project, runs commands in a sandbox, edits files, "
        "asks before anything risky, and answers when it is done. The result holds a threadId: use codex-reply to go on with "
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
            "base-instructions": _string("Replaces the agent's built-in instructions."),
            "compact-prompt": _string("The instructions by which a long session is summarised."),
            "config": {
                "type": "object",
                "additionalProperties": True,
                "description": 'Single keys of config.toml for this session, dotted: {"model_provider": "mine"}.',
            },
            "cwd": _string("The folder to work in; a relative one starts at the server's own."),
            "developer-instructions": _string("Further instructions, given to the model in the developer role."),
            "include-plan-tool": {"type": "boolean", "description": "Let the agent show a plan of its steps."},
            "model": _string("The model to use, in place of the configured one."),
            "profile": _string("A profile of config.toml."),
            "prompt": _string("The task."),
            "sandbox": _string(
                "How commands are confined: read-only, workspace-write (writes only below cwd and configured folders), "
                "danger-full-access.",
                enum=list(SANDBOX_MODES),
            ),
        },
        "required": ["prompt"],
    },
    "outputSchema": _RESULT,
    "annotations": {"title": "Codex", **_ACTS},
}

CODEX_REPLY: dict[str, Any] = {
    "name": "codex-reply",
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
            "prompt": _string("The next message."),
            "sessionId": _string("The same as threadId, by its first name."),
            "threadId": _string("The session: threadId of an earlier result."),
        },
        "required": ["prompt"],
    },
    "outputSchema": _RESULT,
    "annotations": {"title": "Codex Reply", **_ACTS},
}
