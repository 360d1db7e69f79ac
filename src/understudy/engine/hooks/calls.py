"""Shows a call of the model as hooks of both programs know it, with their names and arguments, and translates a changed call back.

One call may have several views: for hooks of Claude Code, a patch is one `Edit` or `Write` per file, and a shell command that is a
patch is both. Hooks that guard any of these must see it. Pure, except for resolving names of folders.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from understudy.config.hooks.entries import Family
from understudy.errors import PatchError
from understudy.policy.words import script_of
from understudy.protocol.items import FunctionCall
from understudy.text import quote_command
from understudy.tools.mcp.remote_tool import RemoteTool
from understudy.tools.patch.grammar import BEGIN, AddOperation, Chunk, DeleteOperation, Operation, UpdateOperation, parse_patch
from understudy.tools.patch.invocation import PatchInvocation, recognise

MOST_VIEWS = 64  # views of one call: hooks that guard files are called for each
Change = Callable[[Mapping[str, Any]], dict[str, Any]]

_PATCHES = ("apply_patch", "Edit", "Write", "MultiEdit")
_CLAUDE_NAMES = {
    "read_file": "Read",
    "search": "Grep",
    "list_files": "Glob",
    "edit_file": "Edit",
    "view_image": "Read",
    "update_plan": "TodoWrite",
    "request_user_input": "AskUserQuestion",
    "list_mcp_resources": "ListMcpResourcesTool",
    "read_mcp_resource": "ReadMcpResourceTool",
}


class CannotChange(Exception):
    """The hook's change cannot be applied to this call. Carries a reason for people."""


class View(msgspec.Struct, frozen=True):
    """One view of a call, as a hook sees it."""

    names: tuple[str, ...]  # the names that a matcher may use for it
    tool: str  # `tool_name`
    input: Mapping[str, Any]  # `tool_input`
    change: Change  # translates a changed `tool_input` into our arguments
    more: Mapping[str, Any] = {}


class SeenCall(msgspec.Struct, frozen=True):
    """A call with all its views. What runs is built from `arguments`, which are the ones the hooks were shown."""

    name: str  # our tool's name
    arguments: dict[str, Any]
    views: Mapping[Family, tuple[View, ...]]

    def call(self, call: FunctionCall) -> FunctionCall:
        return msgspec.structs.replace(call, arguments=msgspec.json.encode(self.arguments).decode())

    @property
    def tool(self) -> str:
        """The tool's name for hooks."""
        return self.views["codex"][0].tool

    @property
    def told(self) -> str:
        """A line for a person or a model."""
        return describe_input(self.views["codex"][0].input)


def see(call: FunctionCall, name: str, remote: RemoteTool | None, cwd: str, typed: str = "") -> SeenCall | None:
    """None for arguments that no tool takes: the tool itself will say so. `typed`: the earlier part of the line that this call
    continues.
    """
    try:
        arguments: Any = msgspec.json.decode(call.arguments) if call.arguments.strip() else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return None
    return see_arguments(name, cast(dict[str, Any], arguments), remote, cwd, typed)


def see_arguments(name: str, arguments: dict[str, Any], remote: RemoteTool | None, cwd: str, typed: str = "") -> SeenCall:
    if remote is not None:
        views = (_of_server(remote, arguments),)
        return SeenCall(name, arguments, {"codex": views, "claude": views})
    match name:
        case "shell" | "exec_command":
            command = _command_views(name, arguments, cwd)
            return SeenCall(name, arguments, {family: (*views,) for family, views in command.items()})
        case "write_stdin":
            views = _typed_views(arguments, typed)
            return SeenCall(name, arguments, {"codex": views, "claude": views})
        case "apply_patch":
            body = arguments.get("input")
            patch = _patch_views(body if isinstance(body, str) else "", cwd, _with("input"), own=True)
            return SeenCall(name, arguments, patch)
        case _:
            own = View(tuple(dict.fromkeys((name, _CLAUDE_NAMES.get(name, name)))), name, arguments, dict)
            return SeenCall(name, arguments, {"codex": (own,), "claude": (_claude_view(name, arguments, cwd, own),)})


def _with(key: str) -> Change:
    def change(changed: Mapping[str, Any]) -> dict[str, Any]:
        text = changed.get("command")
        if not isinstance(text, str) or not text.strip():
            raise CannotChange("its `updatedInput` has no `command`")
        return {key: text}

    return change


# -- commands


def _command_views(name: str, arguments: dict[str, Any], cwd: str) -> dict[Family, list[View]]:
    argv = argv_of(name, arguments)
    told: dict[str, Any] = {"command": _as_typed(argv)}
    if isinstance(workdir := arguments.get("workdir"), str) and workdir:
        told["workdir"] = workdir
    view = View(("Bash", name), "Bash", told, lambda changed: _changed_command(name, arguments, argv, told, changed))
    claude = told
    if isinstance(said := arguments.get("justification"), str) and said:
        claude = {**told, "description": said}
    views: dict[Family, list[View]] = {"codex": [view], "claude": [msgspec.structs.replace(view, input=claude)]}
    start = os.path.normpath(os.path.join(cwd, workdir)) if isinstance(workdir, str) else cwd
    match recognise(argv, start):
        case PatchInvocation(body=body, base=base):
            patch = _patch_views(body, base, _not_in_a_command)
            views["codex"] += patch["codex"]
            views["claude"] += patch["claude"]
        case _:
            pass
    return views


def argv_of(name: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The command that `shell` or `exec_command` would run with these arguments."""
    if name == "shell":
        words = arguments.get("command")
        return tuple(str(word) for word in cast(list[Any], words)) if isinstance(words, list) else (str(words),)
    login = "-c" if arguments.get("login") is False else "-lc"
    return (str(arguments.get("shell") or "bash"), login, str(arguments.get("cmd", "")))


def _as_typed(argv: tuple[str, ...]) -> str:
    """The script, if a well-known shell gets a script and nothing else; otherwise all words."""
    script = script_of(argv)
    return script if script is not None else quote_command(argv)


def _changed_command(
    name: str, arguments: dict[str, Any], argv: tuple[str, ...], told: Mapping[str, Any], changed: Mapping[str, Any]
) -> dict[str, Any]:
    command = changed.get("command")
    if not isinstance(command, str) or not command.strip():
        raise CannotChange("its `updatedInput` has no `command`")
    if changed.get("workdir", told.get("workdir")) != told.get("workdir"):
        raise CannotChange("its `updatedInput` names another folder")
    if command == told["command"]:
        return arguments
    shell = argv[:2] if script_of(argv) is not None else ("bash", "-c")
    if name == "shell":
        return {**arguments, "command": [*shell, command]}
    kept = {key: value for key, value in arguments.items() if key != "shell" or script_of(argv) is not None}
    return {**kept, "cmd": command}


def _typed_views(arguments: dict[str, Any], typed: str) -> tuple[View, ...]:
    own = View(("write_stdin",), "write_stdin", arguments, dict)
    text = arguments.get("chars")
    if not isinstance(text, str) or not text:
        return (own,)
    told = {"command": f"{typed}{text}", "session_id": arguments.get("session_id")}
    return (View(("Bash", "write_stdin"), "Bash", told, _not_typed), own)


def _not_typed(changed: Mapping[str, Any]) -> dict[str, Any]:
    raise CannotChange("what is typed at a running command can be allowed or refused, not changed")


def _not_in_a_command(changed: Mapping[str, Any]) -> dict[str, Any]:
    raise CannotChange("a patch inside a shell command can be allowed or refused, not changed")


# -- patches


def _patch_views(body: str, base: str, change: Change, *, own: bool = False) -> dict[Family, tuple[View, ...]]:
    whole = View(_PATCHES, "apply_patch", {"command": body}, change)
    try:
        operations = parse_patch(body).operations
    except PatchError:
        return {"codex": (whole,), "claude": (whole,)}
    names = tuple(name for operation in operations for name in _paths(operation))
    whole = msgspec.structs.replace(whole, more={"file_paths": [os.path.join(base, name) for name in names][:MOST_VIEWS]})
    files = [view for operation in operations for view in _file_views(operation, base, single=own and len(operations) == 1)]
    return {"codex": (whole,), "claude": (*files,) or (whole,)}


def _paths(operation: Operation) -> tuple[str, ...]:
    moved = operation.move_to if isinstance(operation, UpdateOperation) else None
    return (operation.path,) if moved is None else (operation.path, moved)


def _file_views(operation: Operation, base: str, *, single: bool) -> list[View]:
    path = os.path.normpath(os.path.join(base, operation.path))
    match operation:
        case AddOperation(content=content):
            change = _added(operation.path, path) if single else _one_of_many
            return [View(("Write", "apply_patch", "Edit"), "Write", {"file_path": path, "content": content}, change)]
        case DeleteOperation():
            told = {"file_path": path, "content": ""}
            return [View(("Write", "apply_patch", "Edit"), "Write", told, _one_of_many)]
        case UpdateOperation(chunks=chunks, move_to=move_to):
            old, new = _sides(chunks)
            told = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
            views = [View(("Edit", "apply_patch", "Write", "MultiEdit"), "Edit", told, _one_of_many)]
            if move_to is not None:
                moved = os.path.normpath(os.path.join(base, move_to))
                told = {"file_path": moved, "content": new}
                views.append(View(("Write", "apply_patch", "Edit"), "Write", told, _one_of_many))
            return views


def _sides(chunks: tuple[Chunk, ...]) -> tuple[str, str]:
    old = [line[1:] for chunk in chunks for line in chunk.lines if not line.startswith("+")]
    new = [line[1:] for chunk in chunks for line in chunk.lines if not line.startswith("-")]
    return "\n".join(old), "\n".join(new)


def _added(name: str, path: str) -> Change:
    def change(changed: Mapping[str, Any]) -> dict[str, Any]:
        content = changed.get("content")
        if changed.get("file_path") != path or not isinstance(content, str):
            raise CannotChange("of a new file only its content can be changed")
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        return {"input": f"{BEGIN}\n*** Add File: {name}\n{lines}*** End Patch\n"}

    return change


def _one_of_many(changed: Mapping[str, Any]) -> dict[str, Any]:
    raise CannotChange("a patch of existing files, or of several, can be allowed or refused, not changed")


# -- all other calls


def _of_server(remote: RemoteTool, arguments: dict[str, Any]) -> View:
    name = f"mcp__{remote.server}__{remote.name}"
    return View((name,), name, arguments, dict, {"mcp_server": {"name": remote.server, "source": "user"}})


def _claude_view(name: str, arguments: dict[str, Any], cwd: str, own: View) -> View:
    """The call with the arguments of the matching Claude Code tool; a changed call is translated back the same way."""
    tool = _CLAUDE_NAMES.get(name, name)
    renamed = _CLAUDE_ARGUMENTS.get(name)
    if renamed is None:
        return msgspec.structs.replace(own, tool=tool)
    told: dict[str, Any] = {}
    for key, value in arguments.items():
        known = renamed.get(key, key)
        told[known] = os.path.normpath(os.path.join(cwd, value)) if known in _PATHS and isinstance(value, str) else value
    if name == "edit_file":
        told.setdefault("replace_all", False)
    if name == "list_files":
        told.setdefault("pattern", "**/*")

    def change(changed: Mapping[str, Any]) -> dict[str, Any]:
        back = {theirs: ours for ours, theirs in renamed.items()}
        same = {key for key, value in changed.items() if told.get(key) == value and back.get(key, key) not in arguments}
        return {
            back.get(key, key): arguments[back.get(key, key)] if told.get(key) == value else value
            for key, value in changed.items()
            if key not in same
        }

    return View(own.names, tool, told, change)


_PATHS = frozenset(("file_path", "path"))
_CLAUDE_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read_file": {"path": "file_path", "start_line": "offset"},
    "view_image": {"path": "file_path"},
    "edit_file": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "list_files": {"glob": "pattern"},
    "search": {},
}


def describe_input(told: Mapping[str, Any]) -> str:
    for key in ("command", "file_path", "path"):
        if isinstance(value := told.get(key), str):
            return value
    return msgspec.json.encode(told).decode()
