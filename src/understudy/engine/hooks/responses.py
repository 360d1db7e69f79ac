"""What a call returned, in the shape in which hooks of each program know it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from understudy.config.hooks.entries import Family
from understudy.engine.hooks.calls import View
from understudy.errors import ToolError
from understudy.protocol.records import CommandEnded, LeftFile, ToolCallEnded
from understudy.tools.acts.files import head, with_file
from understudy.tools.calls import ToolOutput
from understudy.tools.host import ToolHost
from understudy.tools.patch.keeping import digest, restored

MOST_FILES = 16  # of one patch, whose earlier content hooks are told
MOST_BYTES = 256 * 1024  # of one such file
_CONTEXT = 3  # lines around a change
_NUMBERED = re.compile(r"^ *(\d+)\t(.*)$")
_OF = re.compile(r"^\[lines \d+-\d+ of (?:more than )?(\d+)", re.MULTILINE)


class Edited(msgspec.Struct, frozen=True):
    """A file as a patch found it and left it."""

    before: str | None  # None: there was none
    after: str


Ended = CommandEnded | ToolCallEnded | None


def response(family: Family, view: View, output: ToolOutput, ended: Ended, edited: Mapping[str, Edited]) -> Any:
    if isinstance(ended, ToolCallEnded) and ended.result is not None and view.tool.startswith("mcp__"):
        content = ended.result.get("content", [])
        return content if family == "claude" else {"content": content, "isError": ended.failed}
    if family == "codex":
        if isinstance(ended, CommandEnded) and view.tool == "Bash":
            return f"{ended.stdout}{ended.stderr}"
        return _as_of_a_patch(output) if view.tool == "apply_patch" else output.text
    match view.tool:
        case "Bash":
            return _of_command(output, ended)
        case "Edit":
            return _of_edit(view, edited)
        case "Write":
            return _of_write(view, edited)
        case "Read" if not output.images:
            return _of_read(view, output.text)
        case _:
            return output.text


def error_of(output: ToolOutput, ended: Ended) -> str:
    """What PostToolUseFailure is told, in the words of Claude Code where a command has failed."""
    if not isinstance(ended, CommandEnded):
        return output.text
    return f"Exit code {ended.exit_code}\n{ended.stdout}{ended.stderr}".rstrip("\n")


def _of_command(output: ToolOutput, ended: Ended) -> dict[str, Any]:
    ran = isinstance(ended, CommandEnded)
    stdout, stderr = (ended.stdout, ended.stderr) if ran else (output.text, "")
    told = {"stdout": stdout.removesuffix("\n"), "stderr": stderr.removesuffix("\n"), "interrupted": False, "isImage": False}
    return {**told, "noOutputExpected": False, **({"exit_code": ended.exit_code} if ran else {})}


def _of_edit(view: View, edited: Mapping[str, Edited]) -> dict[str, Any]:
    named = {"filePath": "file_path", "oldString": "old_string", "newString": "new_string"}
    told = {theirs: view.input.get(ours, "") for theirs, ours in named.items()}
    return {**told, **_changed(view, edited), "userModified": False, "replaceAll": bool(view.input.get("replace_all"))}


def _of_write(view: View, edited: Mapping[str, Edited]) -> dict[str, Any]:
    changed = _changed(view, edited)
    kind = "create" if changed["originalFile"] is None else "update"
    told = {"type": kind, "filePath": view.input.get("file_path", ""), "content": view.input.get("content", "")}
    return {**told, **changed, "userModified": False}


def _changed(view: View, edited: Mapping[str, Edited]) -> dict[str, Any]:
    found = edited.get(str(view.input.get("file_path", "")))
    if found is None or found.before is None:
        return {"originalFile": None, "structuredPatch": []}
    return {"originalFile": found.before, "structuredPatch": list(_hunks(found.before.splitlines(), found.after.splitlines()))}


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[dict[str, Any]]:
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        lines: list[str] = []
        for kind, old, old_end, new, new_end in group:
            if kind == "equal":
                lines += [f" {line}" for line in before[old:old_end]]
            else:
                lines += [f"-{line}" for line in before[old:old_end]] + [f"+{line}" for line in after[new:new_end]]
        (_, old, _, new, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        at = {"oldStart": old + 1, "oldLines": old_end - old, "newStart": new + 1, "newLines": new_end - new}
        yield {**at, "lines": lines}


def _of_read(view: View, text: str) -> dict[str, Any]:
    shown = [found for line in text.split("\n") if (found := _NUMBERED.match(line)) is not None]
    start = int(shown[0][1]) if shown else 1
    of = _OF.search(text)
    told = {"filePath": view.input.get("file_path", ""), "content": "\n".join(found[2] for found in shown)}
    total = int(of[1]) if of is not None else start - 1 + len(shown)
    return {"type": "text", "file": {**told, "numLines": len(shown), "startLine": start, "totalLines": total}}


class _Patched(msgspec.Struct):
    output: str


def _as_of_a_patch(output: ToolOutput) -> str:
    """In codex's words, whatever our model is told."""
    try:
        text = msgspec.json.decode(output.text, type=_Patched).output
    except msgspec.MsgspecError:
        text = output.text
    return f"Exit code: {0 if output.success else 1}\nWall time: 0 seconds\nOutput:\n{text}"


async def what_was_edited(host: ToolHost, left: Sequence[LeftFile]) -> dict[str, Edited]:
    """The text files that a patch has changed, by path; only those that still are as it left them."""
    edited: dict[str, Edited] = {}
    for file in left[:MOST_FILES]:
        if not file.before or not file.after or file.pieces is None or file.moved_from:
            continue
        try:
            now = await with_file(host, file.path, lambda opened: head(opened, MOST_BYTES + 1))
        except (ToolError, ValueError):
            continue
        if len(now) > MOST_BYTES or digest(now) != file.after:
            continue
        try:
            edited[file.path] = Edited(restored(now, file.pieces).decode(), now.decode())
        except UnicodeDecodeError:
            continue
    return edited
