"""What the model's calls did (commands and tools), and the deltas of text and output that are shown as they arrive."""

from typing import Any, Literal

import msgspec

__all__ = [
    "OWN_SERVER",
    "CallRecord",
    "CommandEnded",
    "CommandStarted",
    "Delta",
    "HookRan",
    "InputWritten",
    "OutputDelta",
    "PromptBlocked",
    "ReasoningDelta",
    "ServersChecked",
    "TextDelta",
    "ToolCallBegan",
    "ToolCallEnded",
]


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """More of the answer being written. Deltas are not in the log; the finished item is."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    text: str
    raw: bool = False


class OutputDelta(msgspec.Struct, frozen=True, gc=False):
    call_id: str
    stream: Literal["stdout", "stderr"]
    chunk: bytes


Delta = TextDelta | ReasoningDelta | OutputDelta


class CommandStarted(msgspec.Struct, frozen=True, gc=False, tag="command_started", omit_defaults=True):
    """Intent: on disk before the command runs."""

    call_id: str
    command: tuple[str, ...]
    cwd: str
    contained: bool
    session: int | None = None  # the number by which the model names a session: a command that may outlive its call and its turn
    tty: bool = False  # it has a terminal


class CommandEnded(msgspec.Struct, frozen=True, gc=False, tag="command_ended"):
    call_id: str
    stdout: str
    stderr: str
    exit_code: int
    duration: float  # seconds
    timed_out: bool = False
    denied: bool = False  # the sandbox seems to have refused something
    started: CommandStarted | None = None  # of a session, which may have begun many turns ago
    untold: bool = False  # of a session: no call of the model waited for its end
    # why it was ended, unless it ended by itself or for the user. For a session, the next request tells the model
    ended_by: str = ""


class InputWritten(msgspec.Struct, frozen=True, gc=False, tag="input_written"):
    """Intent: something is typed at a session's terminal, or the session is asked to stop."""

    call_id: str  # of the call that began the session
    session: int
    text: str

    def describe(self) -> str:
        """A line for people."""
        return f"typed at session {self.session}: {self.text}"


HookStatus = Literal["completed", "blocked", "failed", "stopped"]
OWN_SERVER = "codex"  # the server name under which our own tools are shown if they have no events of their kind


class ToolCallBegan(msgspec.Struct, frozen=True, gc=False, tag="tool_call_began", omit_defaults=True):
    """Intent: on disk before another server is asked to do anything."""

    call_id: str
    server: str
    tool: str  # by the server's name for it
    arguments: dict[str, Any] | None = None  # shortened if they are long
    read_only: bool = False  # according to the server


class ToolCallEnded(msgspec.Struct, frozen=True, gc=False, tag="tool_call_ended", omit_defaults=True):
    """`result` is what the tool returned, in MCP's shape; without one, `error` says why."""

    call_id: str
    server: str
    tool: str
    seconds: float
    arguments: dict[str, Any] | None = None
    read_only: bool = False
    result: dict[str, Any] | None = None
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.result is None or self.result.get("isError") is True

    def describe(self) -> str:
        """The tool's output as text."""
        if self.result is None:
            return self.error or ""
        parts: list[dict[str, Any]] = self.result.get("content", [])
        return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in parts)


class ServersChecked(msgspec.Struct, frozen=True, gc=False, tag="servers_checked"):
    """From here on the model is offered the tools of these servers; the missing servers are named with the reason."""

    ready: tuple[str, ...]
    missing: dict[str, str]

    def describe(self) -> str:
        """A line for people; empty if there is nothing to tell."""
        told = "; ".join(f"{server} ({why})" for server, why in self.missing.items())
        return f"MCP servers that are missing, and their tools with them: {told}" if told else ""


class HookRan(msgspec.Struct, frozen=True, gc=False, tag="hook_ran", omit_defaults=True):
    """The outcome of one hook. It is written together with the record that the hook decides about."""

    run_id: str  # `pre-tool-use:ORDER:FILE:CALL`
    event: str
    key: str  # which hook; never its command line, which may hold secrets
    status: HookStatus
    order: int
    file: str
    source: str  # `user` or `project`
    began_at: float  # seconds since the epoch
    seconds: float
    call_id: str = ""
    tool: str = ""  # the tool's name as the hook got it
    reason: str = ""  # why it blocks, asks or stops, or how it failed
    context: str = ""  # for the model; of a hook for stops, what to continue with
    warning: str = ""  # for the user
    asks: bool = False  # a person must decide
    changed: dict[str, Any] | None = None  # the new arguments of the call
    detached: bool = False  # nobody waited for it
    status_message: str | None = None

    def describe(self) -> str:
        """A line for people; empty if there is nothing to tell."""
        what = {"blocked": "blocked", "failed": "failed", "stopped": "stopped the turn"}.get(self.status, "")
        if not what and self.changed is not None:
            what = "changed the call"
        if not what and self.asks:
            what = "asks a person"
        told = [f"{self.event} hook {what}" + (f": {self.reason}" if self.reason else "")] if what else []
        if self.warning:
            told.append(f"{self.event} hook: {self.warning}")
        if not told:
            return ""
        return f"{'; '.join(told)} ({self.key})"


class PromptBlocked(msgspec.Struct, frozen=True, gc=False, tag="prompt_blocked"):
    """A message that a hook kept from the model: no request contains it."""

    message_id: str
    reason: str

    def describe(self) -> str:
        """A line for people."""
        return f"the message was blocked by a hook: {self.reason}"


CallRecord = CommandStarted | CommandEnded | InputWritten | ToolCallBegan | ToolCallEnded | HookRan | PromptBlocked | ServersChecked
