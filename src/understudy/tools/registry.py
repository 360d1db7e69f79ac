"""All tools, and how they are offered to a model. Their descriptions are files in this folder."""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.models.model import ToolSpec
from understudy.protocol.choices import ApprovalPolicy, SandboxMode

if TYPE_CHECKING:
    from understudy.tools.tool import Tool


class OfferConditions(msgspec.Struct, frozen=True):
    """What determines how tools are offered to a model."""

    policy: ApprovalPolicy
    mode: SandboxMode
    with_plan: bool
    command_seconds: int
    eyes: bool = True  # the model can see images
    without: tuple[str, ...] = ()  # names of tools that are not offered to the model's family


class ToolEntry(msgspec.Struct, frozen=True):
    """One tool. Its module is imported only when a model is at work."""

    names: tuple[str, ...]  # the first name is offered; a model may also use the others
    module: str
    class_name: str
    spec: Callable[[OfferConditions], ToolSpec | None]  # None: not offered
    seldom: bool = False  # rarely called, so nothing of it is loaded in advance
    only_reads: bool = False  # changes nothing and asks nobody, so several calls may run at once


def _shell(offer: OfferConditions) -> ToolSpec:
    escalation = offer.policy == "on-request" and offer.mode != "danger-full-access"
    return ToolSpec("shell", _text("shell_escalation" if escalation else "shell"), _shell_parameters(offer, escalation))


def _exec_command(offer: OfferConditions) -> ToolSpec:
    properties = dict(_EXEC)
    if offer.policy == "on-request" and offer.mode != "danger-full-access":
        properties["sandbox_permissions"] = {
            "type": "string",
            "enum": ["use_default", "require_escalated"],
            "description": "require_escalated: run it outside the sandbox. The user is asked first.",
        }
        properties["justification"] = _text_property("For that: one plain sentence for the user on why.")
    return ToolSpec("exec_command", _text("exec_command"), _object(dict(sorted(properties.items())), ["cmd"]))


def _write_stdin(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("write_stdin", _text("write_stdin"), _WRITE)


def _update_plan(offer: OfferConditions) -> ToolSpec | None:
    return ToolSpec("update_plan", _text("update_plan"), _PLAN) if offer.with_plan else None


def _apply_patch(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("apply_patch", _text("apply_patch"), _PATCH, grammar=_file("apply_patch.lark"))


def _read_file(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("read_file", _text("read_file"), _READ)


def _search(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("search", _text("search"), _SEARCH)


def _list_files(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("list_files", _text("list_files"), _LIST)


def _edit_file(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("edit_file", _text("edit_file"), _EDIT)


def _view_image(offer: OfferConditions) -> ToolSpec | None:
    return ToolSpec("view_image", _text("view_image"), _VIEW) if offer.eyes else None


def _request_user_input(offer: OfferConditions) -> ToolSpec:
    return ToolSpec("request_user_input", _text("request_user_input"), _INPUT)


# All tools, in the order in which they are offered. A new one is a line here and a module that acts through `ToolContext`.
TOOLS = (
    ToolEntry(("shell", "container.exec"), "understudy.tools.commands", "Shell", _shell),
    ToolEntry(("exec_command",), "understudy.tools.commands", "ExecCommand", _exec_command),
    ToolEntry(("write_stdin",), "understudy.tools.commands", "WriteStdin", _write_stdin),
    ToolEntry(("update_plan",), "understudy.tools.plan", "UpdatePlan", _update_plan),
    ToolEntry(("request_user_input",), "understudy.tools.request_user_input", "RequestUserInput", _request_user_input, seldom=True),
    ToolEntry(("read_file",), "understudy.tools.files", "ReadFile", _read_file, only_reads=True),
    ToolEntry(("search",), "understudy.tools.files", "Search", _search, only_reads=True),
    ToolEntry(("list_files",), "understudy.tools.files", "ListFiles", _list_files, only_reads=True),
    ToolEntry(("view_image",), "understudy.tools.files", "ViewImage", _view_image, only_reads=True),
    ToolEntry(("edit_file",), "understudy.tools.files", "EditFile", _edit_file),
    ToolEntry(("apply_patch",), "understudy.tools.files", "ApplyPatch", _apply_patch),
)
_READING = frozenset(name for entry in TOOLS if entry.only_reads for name in entry.names)

_ACTS = ("understudy.tools.acts.patches", "understudy.tools.acts.commands")  # slow to load: they need policy and sandbox


@lru_cache(maxsize=16)  # limited, because a model may invent any number of names
def find_tool(name: str) -> "Tool | None":
    """The tool of that name, loaded at its first use; None if there is none."""
    entry = next((entry for entry in TOOLS if name in entry.names), None)
    return None if entry is None else getattr(import_module(entry.module), entry.class_name)()


def only_reads(name: str) -> bool:
    """Whether several calls of that tool may run at once."""
    return name in _READING


def load_tools() -> Iterator[None]:
    """Load the tools and what they can do before a model calls one, step by step."""
    for entry in TOOLS:
        if not entry.seldom:
            find_tool(entry.names[0])
            yield
    for module in _ACTS:
        import_module(module)
        yield


@lru_cache(maxsize=32)
def offered(offer: OfferConditions) -> tuple[ToolSpec, ...]:
    """Equal for every request of a session, so that a provider can cache the beginning of the prompt."""
    entries = (entry for entry in TOOLS if entry.names[0] not in offer.without)
    return tuple(spec for entry in entries if (spec := entry.spec(offer)) is not None)


@cache
def _text(name: str) -> str:
    return _file(f"{name}.md")


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name("descriptions").joinpath(name).read_text(encoding="utf-8").strip()


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": required} if required else made


_TEXT = {"type": "string"}


def _text_property(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _shell_parameters(offer: OfferConditions, escalation: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "command": {
            "type": "array",
            "items": _TEXT,
            "description": 'Program and arguments, no shell line: for pipes, globs or && give ["bash", "-lc", "…"].',
        },
        "workdir": _TEXT,
        "timeout": {
            "type": "number",
            "description": f"Milliseconds, default {offer.command_seconds * 1000}.",
        },
    }
    if escalation:
        properties["with_escalated_permissions"] = {
            "type": "boolean",
            "description": "Run it outside the sandbox. The user is asked first.",
        }
        properties["justification"] = _text_property("For that: one plain sentence for the user on why.")
    return _object(dict(sorted(properties.items())), ["command"])


_EXEC: dict[str, Any] = {
    "cmd": _TEXT,
    "workdir": _TEXT,
    "shell": _TEXT,
    "login": {"type": "boolean", "description": "False: no login shell."},
    "tty": {"type": "boolean", "description": "With a terminal, for programs that ask or draw."},
    "yield_time_ms": {"type": "number", "description": "250 to 30000, default 10000."},
    "max_output_tokens": {"type": "number", "description": "Default 10000."},
}
_WRITE = _object(
    {
        "chars": _TEXT,
        "max_output_tokens": {"type": "number"},
        "session_id": {"type": "number"},
        "yield_time_ms": {
            "type": "number",
            "description": "250 to 30000, default 250; without chars 5000 to 300000, default 5000.",
        },
    },
    ["session_id"],
)
_STEP = _object(
    {"status": _text_property("pending, in_progress or completed"), "step": _TEXT},
    ["step", "status"],
)
_PLAN = _object(
    {
        "explanation": _TEXT,
        "plan": {"type": "array", "items": _STEP},
    },
    ["plan"],
)
_WORDS = {"type": "string"}
_OPTION = {"type": "object", "properties": {"label": _WORDS, "description": _WORDS}}
_INPUT_QUESTION = {
    "type": "object",
    "properties": {"id": _WORDS, "header": _WORDS, "question": _WORDS, "options": {"type": "array", "items": _OPTION}},
    "required": ["id", "header", "question"],
}
_INPUT = _object({"questions": {"type": "array", "items": _INPUT_QUESTION}}, ["questions"])
_PATCH = _object({"input": _TEXT}, ["input"])


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


_READ = _object(
    {
        "path": _TEXT,
        "start_line": _number("From 1."),
        "end_line": _number("Included."),
    },
    ["path"],
)
_VIEW = _object({"path": _TEXT}, ["path"])
_SEARCH = _object(
    {
        "pattern": _TEXT,
        "path": _TEXT,
        "glob": _text_property("Such as *.py, src/**/*.{ts,tsx}, !*.md"),
        "max_results": _number("Default 100."),
    },
    ["pattern"],
)
_LIST = _object(
    {
        "path": _TEXT,
        "glob": _TEXT,
        "depth": {"type": "integer"},
    },
    [],
)
_EDIT = _object(
    {
        "path": _TEXT,
        "old_text": _TEXT,
        "new_text": _TEXT,
        "replace_all": {"type": "boolean"},
    },
    ["path", "old_text", "new_text"],
)
