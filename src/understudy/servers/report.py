"""The report of a turn: what it did and used, from the log and not from the model.

The full report lists everything. The brief one is for callers that are models: each member of a result costs context, so it has
only what they act upon.
"""

from typing import Any

import msgspec

from understudy.config.model import ReportKind
from understudy.engine.log.ledger import Command, File, Tally, ToolUse, Work

MOST_COMMANDS = 100  # the last ones
MOST_FILES = 200
LONGEST_COMMAND = 500  # characters
CUT = "…"


class _Bounds(msgspec.Struct, frozen=True):
    commands: int
    files: int
    command: int  # characters of one


_FULL = _Bounds(MOST_COMMANDS, MOST_FILES, LONGEST_COMMAND)
_BRIEF = _Bounds(10, 50, 200)


def report_of(work: Work, kind: ReportKind) -> dict[str, Any]:
    """The value of `structuredContent.report`. Unknown values are left out."""
    if kind == "full":
        done = _done(work, work.commands, work.tools, _FULL)
        for name, hidden in (("commands_left_out", work.commands_left_out), ("tools_left_out", work.tools_left_out)):
            if hidden:
                done[name] = done.get(name, 0) + hidden
        return done | spent(work.spent)
    failed = [command for command in work.commands if command.ended and (command.exit_code != 0 or command.timed_out)]
    done = _done(work, failed, [use for use in work.tools if use.failed], _BRIEF)
    return done | _counted(work.spent)


def _done(work: Work, commands: list[Command], tools: list[ToolUse], most: _Bounds) -> dict[str, Any]:
    if not (commands or tools or work.files or work.files_left_out or work.missing_servers):
        return {"files": [], "commands": []}  # most turns only answer
    files = list(work.files.items())
    done: dict[str, Any] = {
        "files": [_file(path, file) for path, file in files[: most.files]],
        "commands": [_command(command, most.command) for command in commands[-most.commands :]],
    }
    if tools:
        done["tools"] = [_tool(use) for use in tools[-most.commands :]]
    if work.missing_servers:
        done["missing_servers"] = [{"server": name, "error": why} for name, why in work.missing_servers.items()]
    hidden = {
        "files_left_out": max(0, len(files) - most.files) + work.files_left_out,
        "commands_left_out": max(0, len(commands) - most.commands),
        "tools_left_out": max(0, len(tools) - most.commands),
    }
    return done | {name: count for name, count in hidden.items() if count}


def spent(tally: Tally) -> dict[str, Any]:
    """Tokens and cost if they are known, and seconds of work."""
    used = _counted(tally)
    if tally.usage is not None:
        counts = msgspec.structs.asdict(tally.usage)
        used["usage"] = {name: count for name, count in counts.items() if count is not None}
    used["seconds"] = round(tally.seconds, 3)
    return used


def _counted(tally: Tally) -> dict[str, Any]:
    """Tokens and cost, if they are known."""
    if tally.usage is None:
        return {}
    cost = tally.cost_usd
    return {"tokens": tally.tokens} if cost is None else {"tokens": tally.tokens, "cost_usd": round(cost, 6)}


def _file(path: str, file: File) -> dict[str, Any]:
    shown = {"path": path, "change": file.change, "added": file.added, "removed": file.removed}
    return shown if file.moved_from is None else {**shown, "moved_from": file.moved_from}


def _command(command: Command, longest: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"command": _shortened(command.argv, longest), "exit_code": command.exit_code}
    if command.ended:
        shown["seconds"] = round(command.seconds, 3)
    if command.timed_out:
        shown["timed_out"] = True
    if command.session is not None:
        shown["session_id"] = command.session
        shown["running"] = not command.ended
    return shown


def _tool(use: ToolUse) -> dict[str, Any]:
    shown: dict[str, Any] = {"server": use.server, "tool": use.tool, "seconds": round(use.seconds, 3)}
    return {**shown, "failed": True} if use.failed else shown


def _shortened(argv: tuple[str, ...], longest: int) -> list[str]:
    left = longest
    words: list[str] = []
    for word in argv:
        words.append(word if len(word) <= left else word[:left] + CUT)
        left -= len(word)
        if left <= 0:
            break
    return words
