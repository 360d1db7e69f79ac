"""The report of a turn: what it did and used, made from the log and not by the model."""

from typing import Any

import msgspec

from understudy.engine.ledger import Command, File, Tally, ToolUse, Work

MOST_COMMANDS = 100  # the last ones
MOST_FILES = 200
LONGEST_COMMAND = 500  # characters
CUT = "…"


def report_of(work: Work) -> dict[str, Any]:
    """As `structuredContent.report` has it. What is not known is left out."""
    report: dict[str, Any] = {"files": [], "commands": [], "tests": [], **spent(work.spent)}
    if work.missing_servers:
        report["missing_servers"] = [{"server": name, "error": why} for name, why in work.missing_servers.items()]
    if work.tools:
        report["tools"] = [_tool(use) for use in work.tools[-MOST_COMMANDS:]]
        if hidden := max(0, len(work.tools) - MOST_COMMANDS) + work.tools_left_out:
            report["tools_left_out"] = hidden
    if work.commands:
        shown = work.commands[-MOST_COMMANDS:]
        report["commands"] = [_command(command) for command in shown]
        report["tests"] = _tests(work.commands)
        if hidden := len(work.commands) - len(shown) + work.commands_left_out:
            report["commands_left_out"] = hidden
    if work.files:
        files = list(work.files.items())
        report["files"] = [_file(path, file) for path, file in files[:MOST_FILES]]
        if hidden := max(0, len(files) - MOST_FILES) + work.files_left_out:
            report["files_left_out"] = hidden
    return report


def spent(tally: Tally) -> dict[str, Any]:
    """Tokens and cost where they are known, and seconds of work."""
    used: dict[str, Any] = {}
    if tally.usage is not None:
        counts = msgspec.structs.asdict(tally.usage)
        used["tokens"] = tally.tokens
        used["usage"] = {name: count for name, count in counts.items() if count is not None}
        if (cost := tally.cost_usd) is not None:
            used["cost_usd"] = round(cost, 6)
    used["seconds"] = round(tally.seconds, 3)
    return used


def _file(path: str, file: File) -> dict[str, Any]:
    shown = {"path": path, "change": file.change, "added": file.added, "removed": file.removed}
    return shown if file.moved_from is None else {**shown, "moved_from": file.moved_from}


def _command(command: Command) -> dict[str, Any]:
    shown: dict[str, Any] = {"command": _shortened(command.argv), "exit_code": command.exit_code}
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


def _tests(commands: list[Command]) -> list[dict[str, Any]]:
    from understudy.engine.runs_of_tests import find_test_run  # only turns with commands have any

    runs: list[dict[str, Any]] = []
    for command in commands:
        run = find_test_run(command.argv)
        if run is None:
            continue
        shown = {"runner": run.runner, **_command(command)}
        if run.decides and command.exit_code is not None:
            shown["passed"] = command.exit_code == 0
        runs.append(shown)
    return runs[-MOST_COMMANDS:]


def _shortened(argv: tuple[str, ...]) -> list[str]:
    left = LONGEST_COMMAND
    words: list[str] = []
    for word in argv:
        words.append(word if len(word) <= left else word[:left] + CUT)
        left -= len(word)
        if left <= 0:
            break
    return words
