"""The tasks that understudy brings, run by `bench-agent` with a model that solves them: what users run, from end to end."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.agent_suite.scripts import Script, answer_of, load_scripts
from tests.cli.program import Program
from understudy.testing import Entry, ReceivedRequest, ScriptedModel, provider_settings, write_config
from understudy.testing.waiting import WAIT_SECONDS

LONGEST = max(600, 60 * WAIT_SECONDS)  # for more than sixty tasks


def is_plain(script: Script) -> bool:
    """It needs nothing but a prompt: no settings, no second message, nobody to ask."""
    alone = not (script.config or script.arguments or script.decide)
    return alone and all(step.user is None and step.interrupt is None and step.kill is None for step in script.steps)


class Solver:
    """Knows each task by its prompt, and goes on with the next step of its script."""

    def __init__(self, scripts: list[Script]) -> None:
        self._scripts = scripts
        self._asked: dict[str, int] = {}

    def answer(self, request: ReceivedRequest) -> Entry:
        messages = cast(list[dict[str, Any]], request.body["messages"])
        said = {str(message["content"]) for message in messages if message["role"] == "user"}
        [script] = [one for one in self._scripts if one.task.prompt in said]
        number = self._asked[script.task.name] = self._asked.get(script.task.name, 0) + 1
        return answer_of(script.steps[number - 1], number)


@pytest.mark.slow
async def test_every_task_is_solved_by_a_model_that_can(tmp_path: Path) -> None:
    scripts = [one for one in load_scripts() if one.variant == "solves" and is_plain(one)]
    assert len(scripts) >= 60
    program = Program(tmp_path / "home" / ".codex", tmp_path / "project")
    program.home.mkdir(parents=True)
    program.cwd.mkdir()
    model = ScriptedModel(Solver(scripts).answer, wait_seconds=LONGEST)
    async with model.serving():
        write_config(program.home / "config.toml", provider_settings(model.url))
        only = [word for script in scripts for word in ("--only", script.task.name)]
        ended = await program.run_aside("bench-agent", "--jobs", "2", "--json", "results.json", *only, seconds=LONGEST)
    runs = json.loads((program.cwd / "results.json").read_text())["runs"]
    assert [run for run in runs if not run["solved"]] == [], ended.out + ended.err
    assert {run["task"] for run in runs} == {script.task.name for script in scripts}
    assert ended.code == 0
