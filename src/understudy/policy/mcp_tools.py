"""May a tool of another server be called, and what is a person asked? Pure functions.

Such a tool runs where its server runs: outside the sandbox, unless the user says otherwise. So a tool that is not known to only
read needs a question in every sandbox mode, like a command that would leave the sandbox.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from understudy.protocol.choices import ApprovalPolicy, SandboxMode
from understudy.protocol.records import ToolApprovalAsked
from understudy.text import in_ticks, make_visible

Mode = Literal["auto", "prompt", "writes", "approve"]
Verdict = Literal["run", "ask", "refuse"]

NOT_ASKED = "MCP tool call requires approval, but approval policy is never"
_LONGEST = 50_000  # characters of all arguments together that are shown
_LONG = 400  # of an argument longer than this, the end is shown again
_ENDING = 160
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_WHERE_ALL_IS = "`understudy approvals --json` has all of it."


def judge_tool_call(mode: Mode, policy: ApprovalPolicy, sandbox: SandboxMode, *, read_only: bool) -> Verdict:
    """`mode` is the user's setting for the tool or its server; `read_only` is what the server says about the tool."""
    match mode:
        case "approve":
            return "run"
        case "prompt":
            asks = True
        case "writes":
            asks = not read_only
        case "auto":
            if policy == "never" and sandbox == "danger-full-access":
                return "run"  # the user chose to ask nothing and contain nothing
            asks = not read_only or policy == "untrusted"  # under `untrusted`, a server's own claim avoids no question
    if not asks:
        return "run"
    return "refuse" if policy == "never" else "ask"


def approval_key(server: str, tool: str, definition: str) -> str:
    """What a yes for the session covers: this tool of this server, with the description that it had when it was approved."""
    return f"mcp {sha256(msgspec.json.encode((server, tool, definition))).hexdigest()}"


def tool_question(asked: ToolApprovalAsked) -> str:
    """The first line: who wants to do what."""
    return f"Allow Codex to call the tool {in_ticks(asked.tool)} of the MCP server {in_ticks(asked.server)}?"


def tool_details(asked: ToolApprovalAsked) -> tuple[str, ...]:
    """The lines after the first: the arguments, one per line and all in the model's words, then what the server says about the
    tool."""
    lines = list(_arguments(asked.arguments))
    lines.append("The server runs outside the sandbox." if not asked.contained else "The server runs in the sandbox.")
    if asked.key is not None:
        lines.append("A yes for the session also answers for later calls of this tool, whatever their arguments.")
    if asked.hints:
        lines.append(f"The server says of the tool, not checked: {', '.join(asked.hints)}")
    return tuple(lines)


def tool_message(asked: ToolApprovalAsked) -> str:
    return "\n".join((tool_question(asked), *tool_details(asked)))


def tool_reason(asked: ToolApprovalAsked) -> str:
    return "\n".join(tool_details(asked))


def _arguments(arguments: Mapping[str, Any] | None) -> Iterable[str]:
    """Nothing that a person could read is cut, because what matters may come last. A line of ours counts the rest."""
    if not arguments:
        yield "It has no arguments."
        return
    left = _LONGEST
    for number, (name, value) in enumerate(arguments.items()):
        if left < 0:
            yield f"{len(arguments) - number} more arguments are not shown here; {_WHERE_ALL_IS}"
            return
        text = msgspec.json.encode(value).decode()
        argument = f"{name if _PLAIN.fullmatch(name) else msgspec.json.encode(name).decode()} = {text}"
        hidden = len(argument) - left - 2 * _ENDING
        left -= len(argument)
        if hidden > 0:
            yield f"| {make_visible(argument[: -hidden - _ENDING])}"
            yield f"{hidden} characters of this argument are not shown here; {_WHERE_ALL_IS} It ends with:"
            yield f"| {make_visible(argument[-_ENDING:])}"
        else:
            yield f"| {make_visible(argument)}"
            if len(argument) > _LONG:
                yield f"This argument is {len(argument)} characters long. It ends with:"
                yield f"| {make_visible(argument[-_ENDING:])}"
