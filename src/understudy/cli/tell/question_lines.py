"""Shows open questions to people and programs."""

import time
from typing import Any

import msgspec
from rich.console import Console

from understudy.cli.stored import rfc3339
from understudy.cli.tell.listing import ago
from understudy.cli.tell.terminal import Flow, one_line
from understudy.engine.services.open_questions import OpenQuestion
from understudy.policy.question_text import kind_of, question_text, what_yes_lifts, why_asked, why_beyond_text
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    PatchApprovalAsked,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.text import make_visible, quote_command


def print_question(console: Console, each: OpenQuestion) -> None:
    """All that a person needs to decide: where, since when, what exactly, why, and what a yes allows."""
    _print_whole(console, "", f"{make_visible(each.question.call_id)}  {ago(time.time() - each.asked_at)}", "bold")
    _print_fact(console, "conversation", f"{each.conversation_id}  {one_line(each.title)}")
    _print_fact(console, "folder", one_line(each.cwd))
    for line in question_text(each.question, each.cwd).splitlines():
        _print_whole(console, "  ", line, "yellow")
    if isinstance(each.question, PatchApprovalAsked):
        _print_patch(console, each.question)
    if (why := why_beyond_text(each.question)) is not None:
        _print_fact(console, "why", why)
    if (left := seconds_left(each)) is not None:
        _print_fact(console, "time", f"{left:.0f} seconds are left for an answer" if left else "is over: it will be denied")
    if not each.attended:
        _print_fact(console, "note", "the program that asked is gone; whoever answers takes its turn up")


def seconds_left(each: OpenQuestion) -> float | None:
    return None if each.expires_at is None else max(0.0, each.expires_at - time.time())


def _print_fact(console: Console, name: str, value: str) -> None:
    _print_whole(console, f"  {name}: ", value, first_style="dim")


def _print_whole(console: Console, first: str, text: str, style: str = "", first_style: str = "") -> None:
    """Further rows are indented more than our lines begin, so that no wrapped word can be mistaken for one of ours."""
    Flow(console, first=first, indent="      ", style=style, first_style=first_style, break_words=True).whole(text)


def _print_patch(console: Console, question: PatchApprovalAsked) -> None:
    """Every line of it, because a person approves what they have seen."""
    for path, change in question.changes.items():
        _print_whole(console, "  ", make_visible(path), "bold")
        for line in _lines_of(change):
            style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
            _print_whole(console, "    ", make_visible(line), style)


def _lines_of(change: FileChange) -> list[str]:
    match change:
        case AddFile(content=content):
            return [f"+{line}" for line in content.split("\n")[: None if not content.endswith("\n") else -1]]
        case DeleteFile(content=content):
            return [f"-{line}" for line in content.split("\n")[: None if not content.endswith("\n") else -1]]
        case UpdateFile(unified_diff=diff, move_path=target):
            moved = [f"moved to {target}"] if target else []
            return [*moved, *diff.rstrip("\n").split("\n")]


def as_json(each: OpenQuestion) -> dict[str, Any]:
    question = each.question
    told: dict[str, Any] = {
        "conversation_id": each.conversation_id,
        "turn_id": each.turn,
        "call_id": question.call_id,
        "kind": kind_of(question),
        "title": each.title,
        "cwd": each.cwd,
        "asked_at": rfc3339(each.asked_at),
        "age_seconds": round(max(0.0, time.time() - each.asked_at), 3),
        "expires_at": None if each.expires_at is None else rfc3339(each.expires_at),
        "attended": each.attended,
        "question": question_text(question, each.cwd),
        "why": why_asked(question),
        "lifts": what_yes_lifts(question),
    }
    match question:
        case CommandApprovalAsked(command=command, cwd=cwd):
            told |= {"command": list(command), "command_line": quote_command(command), "command_cwd": cwd}
        case PatchApprovalAsked(changes=changes):
            told["changes"] = {path: {"kind": _kind(change), "lines": _lines_of(change)} for path, change in changes.items()}
        case ToolApprovalAsked(server=server, tool=tool, arguments=arguments):
            told |= {"server": server, "tool": tool, "arguments": arguments or {}}
        case BudgetAsked(limit=limit, used=used, allowed=allowed, raised_to=raised_to):
            told |= {"limit": limit, "used": used, "allowed": allowed, "raised_to": raised_to}
        case HookApprovalAsked(event=event, hook=hook, tool=tool, shown=shown, reason=reason):
            told |= {"event": event, "hook": hook, "tool": tool, "shown": shown, "reason": reason}
        case UserInputAsked(questions=questions):
            told["questions"] = msgspec.to_builtins(questions)
    return told


def _kind(change: FileChange) -> str:
    match change:
        case AddFile():
            return "add"
        case DeleteFile():
            return "delete"
        case UpdateFile():
            return "update"
