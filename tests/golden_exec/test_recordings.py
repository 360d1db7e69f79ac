"""Every recorded run of the real `codex exec`, played with ours. Where ours differs by intent, `differences` says why."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.golden_exec import differences
from tests.golden_exec.play import Json, PlayedStep, load, names, play

QUICK = {
    "cd",
    "command_ok",
    "denied_read_only",
    "http_401",
    "human_piped",
    "patch_all",
    "plain",
    "plan",
    "resume_orders",
    "sigint_command",
    "stdin_encodings",
    "stdin_open",
}


def tiered(name: str) -> Any:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


def test_every_difference_is_of_a_recording() -> None:
    assert set(differences.TABLE) <= set(names())


@pytest.mark.parametrize("name", [tiered(name) for name in names()])
@pytest.mark.quick(6)
async def test_a_recorded_run_goes_the_same_way(name: str, tmp_path: Path) -> None:
    recording = load(name)
    differences.apply(name, recording)
    played = await play(recording, tmp_path)
    for wanted, step in zip(recording["steps"], played.steps, strict=True):
        check_step(wanted, step)
    files = recording.get("files_after", recording["setup"].get("files", {}))
    assert shown(played.files) == shown(files)
    for folder, content in recording.get("other_dirs_after", {}).items():
        assert played.other_dirs.get(folder, {}) == content


def check_step(wanted: Json, step: PlayedStep) -> None:
    about = f"{wanted['argv']}\n{step.err}"
    assert "Traceback" not in step.err, about
    if "stdout" in wanted and (step.events or not step.text):
        assert numbered(step.events) == step.events, "items are numbered as they appear"
        assert numbered(wanted["stdout"]) == step.events, about
    elif "stdout" in wanted:
        assert wanted["stdout"] == step.text.splitlines(), about
    assert step.exit == wanted["exit"], about
    if step.exit and not step.events:
        assert step.err.strip(), "nobody is told why"
    if wanted["asked"] is not None:
        assert [request["model"] for request in step.asked] == [request["model"] for request in wanted["asked"]], about
        assert [request["user"] for request in step.asked] == [request["user"] for request in wanted["asked"]], about


def numbered(events: list[Any]) -> list[Any]:
    """With the ids of items by first appearance."""
    known: dict[str, str] = {}
    told: list[Any] = []
    for each in events:
        event = cast(Json, each)
        if isinstance(each, dict) and "item" in event:
            item: Json = event["item"]
            key = item["id"] if item["id"] != "item" else f"{len(told)}"
            name = known.setdefault(key, f"item_{len(known)}")
            event = {**event, "item": {**item, "id": name}}
        told.append(event)
    return told


def shown(files: dict[str, str]) -> dict[str, str]:
    return {name: "<image>" if "PNG" in text or text in ("<png>", "<70 bytes>") else text for name, text in files.items()}


def test_no_recording_names_what_changes_from_run_to_run() -> None:
    for name in names():
        assert "/tmp/" not in json.dumps(load(name)["setup"])
