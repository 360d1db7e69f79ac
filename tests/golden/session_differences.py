"""Recordings of codex 0.153.4 with commands that outlive their calls, and how ours differs, with the reasons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tests.golden import agent_differences
from tests.golden.modern import NUMBER
from tests.golden.recording import OUTPUT_DELTA, Json, Recording, Step

FOLDER = Path(__file__).parent / "session_recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

# A conversation's first session has this number in ours, and a random one there: so a recorded conversation can be played again.
NUMBERS = {"<process-1>": "1001"}
# Not a difference: how long a call waits must not depend on how busy the machine is that plays it.
PATIENCE = {
    ('"hello\\n"', 500): 4000,
    ('"\\u0003"', 1000): 30_000,
    ("sleep", 1200): 4000,
    ('""', 5000): 60_000,
}


def load(name: str) -> Recording:
    text = (FOLDER / f"{name}.json").read_text().replace("sleep 3", "sleep 6")
    for before, after in NUMBERS.items():
        text = text.replace(before, after)
    return agent_differences.read(name, _patient(json.loads(text)))


def _patient(value: Any) -> Any:
    if isinstance(value, str):
        for (mark, before), after in PATIENCE.items():
            if mark in value:
                value = value.replace(f'"yield_time_ms": {before}', f'"yield_time_ms": {after}')
        return value
    if isinstance(value, list):
        return [_patient(item) for item in cast(list[Any], value)]
    return {key: _patient(item) for key, item in cast(Json, value).items()} if isinstance(value, dict) else value


def apply(recording: Recording) -> None:
    changes = (*agent_differences.EVERYWHERE, _times, _bash_by_its_name, _intent_first, _signals_by_their_number)
    for change in (*changes, *TABLE[recording.name]):
        change(recording)


def _times(recording: Recording) -> None:
    """The log knows them."""
    for step in recording.steps:
        if step.kind == "event":
            message = step.value["msg"]
            message |= {key: NUMBER for key in ("started_at_ms", "completed_at_ms") if key in message}


def _bash_by_its_name(recording: Recording) -> None:
    """As rules and the list of harmless commands know it; some systems have it elsewhere than in /bin."""
    for step in recording.steps:
        if step.event in ("exec_command_begin", "exec_command_end"):
            step.value["msg"]["command"][0] = "bash"


def _intent_first(recording: Recording) -> None:
    """That something is typed is recorded, and told, before it is done: there what came of it may be told first."""
    steps: list[Step] = []
    for step in recording.steps:
        if step.event == "terminal_interaction" and steps and steps[-1].event == OUTPUT_DELTA:
            steps.insert(-1, step)
        else:
            steps.append(step)
    recording.steps = steps


def _signals_by_their_number(recording: Recording) -> None:
    """Ctrl-C ends a program with 130, as a shell says it; there it is 1, which could be anything."""
    for step in recording.steps:
        if step.event == "exec_command_end" and step.value["msg"]["exit_code"] == 1:
            step.value["msg"]["exit_code"] = 130
        if step.kind == "model":
            for item in step.value["body"]["input"]:
                _tell_signal(item)


def _tell_signal(item: Json) -> None:
    if item["type"] == "function_call_output":
        item["output"] = item["output"].replace("Process exited with code 1\n", "Process exited with code 130\n")


TABLE: dict[str, tuple[Callable[[Recording], None], ...]] = {"exec_session": (), "exec_background": ()}
