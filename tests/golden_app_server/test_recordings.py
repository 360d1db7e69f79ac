"""Every recorded session of the real `codex app-server`, played with ours. Where ours differs by intent, `differences` says why."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden_app_server import differences
from tests.golden_app_server.play import Json, load, names, play
from tests.golden_app_server.scripts import SCRIPTS
from tests.golden_app_server.views import Comparison, answers, counts, states, told

QUICK = {"handshake", "turn_plain", "command_approvals", "interrupt", "threads", "python_run"}


def tiered(name: str) -> Any:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


def test_every_difference_is_of_a_recording_and_every_recording_has_a_script() -> None:
    assert set(differences.TABLE) <= set(names())
    assert set(SCRIPTS) == set(names())


@pytest.mark.parametrize("name", [tiered(name) for name in names()])
async def test_a_recorded_session_goes_the_same_way(name: str, tmp_path: Path) -> None:
    recording = load(name)
    differences.change(name, recording)
    played, ours = await play(name, recording, tmp_path)
    wanted = [step["server"] for step in ours.fill(recording["session"]) if "server" in step]
    wanted, seen = differences.alike(name, wanted), differences.alike(name, played.messages)
    found = Comparison(ours)
    found.compare(answers(wanted, ours), answers(seen, ours), "answers")
    found.compare(told(wanted), told(seen), "told")
    if name not in differences.UNCOUNTED:
        found.compare(counts(wanted), counts(seen), "counts")
    found.compare(states(wanted), states(seen), "states")
    assert not found.problems, "\n".join(found.problems)
    assert played.exits == [step["exit"] for step in recording["session"] if "stop" in step]
    if "client" not in recording:  # recorded beside a client: of those, files were not
        assert shown(played.files) == shown(recording.get("files_after", recording["setup"].get("files", {})))


def shown(files: Json) -> Json:
    return {name: "<image>" if "PNG" in text or text in ("<png>", "<70 bytes>") else text for name, text in files.items()}
