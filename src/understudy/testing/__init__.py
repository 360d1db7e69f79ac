"""For tests of programs that talk to an MCP server such as ours: a scripted model over real HTTP, and a driver for the server.

    async with ScriptedModel([call("shell", command=["ls"]), say("done")]) as model, McpProcess(model) as server:
        result = await server.codex("list the files")

`understudy.testing.fixtures` has the same as pytest fixtures. docs/testing.md shows how to test a client with them. Nothing else
in the package imports this folder.
"""

from understudy.testing.calls import Call, RpcError, ServerDied, text_of, thread_of
from understudy.testing.frames import FrameChecker
from understudy.testing.home import SERVER_COMMAND, CodexHome, provider_settings, write_config
from understudy.testing.line_process import LineProcess
from understudy.testing.model import ReceivedRequest, ScriptedModel
from understudy.testing.process import McpProcess, StartServer
from understudy.testing.questions import Question
from understudy.testing.script import (
    HOLD,
    Answer,
    Entry,
    Hold,
    Refusal,
    Script,
    Silence,
    Step,
    Text,
    Thought,
    ToolCall,
    call,
    cut_after,
    deltas,
    hang,
    reasoning,
    say,
    slowly,
    status,
)

__all__ = [
    "HOLD",
    "SERVER_COMMAND",
    "Answer",
    "Call",
    "CodexHome",
    "Entry",
    "FrameChecker",
    "Hold",
    "LineProcess",
    "McpProcess",
    "Question",
    "ReceivedRequest",
    "Refusal",
    "RpcError",
    "Script",
    "ScriptedModel",
    "ServerDied",
    "Silence",
    "StartServer",
    "Step",
    "Text",
    "Thought",
    "ToolCall",
    "call",
    "cut_after",
    "deltas",
    "hang",
    "provider_settings",
    "reasoning",
    "say",
    "slowly",
    "status",
    "text_of",
    "thread_of",
    "write_config",
]
