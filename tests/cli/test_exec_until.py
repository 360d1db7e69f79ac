"""`exec --until COMMAND`: the turn goes on until the command succeeds, tried in the sandbox and told on standard error."""

from pathlib import Path

import pytest

from tests.cli.exec_runs import place
from understudy.testing import ScriptedModel, call, say

TRIED = "understudy: --until, try {}: {}\n"


async def test_what_the_command_says_goes_to_the_model_until_it_holds(tmp_path: Path) -> None:
    script = [say("Done, I think."), call("shell", command=["touch", "made"]), say("Now it is.")]
    async with ScriptedModel(script) as model:
        run = await place(model, tmp_path).json("-s", "workspace-write", "--until", "echo looking; test -e made", "make it")
        told = str(model.requests[1]["input"][-1])
        assert "`echo looking; test -e made` has to succeed" in told
        assert "failed:\\n\\n" in told
        assert told.count("looking") == 2
    assert run.code == 0
    assert run.err == TRIED.format(1, "does not hold: exit code 1") + TRIED.format(2, "holds")
    tries = [each for each in run.items if "test -e made" in each.get("command", "")]
    assert [each["exit_code"] for each in tries] == [1, 0]


@pytest.mark.slow
async def test_it_is_contained_and_given_up_after_twenty_tries(tmp_path: Path) -> None:
    async with ScriptedModel([say("Done.")] * 20) as model:
        run = await place(model, tmp_path).json("-s", "read-only", "--until", "touch written", "make it")
    assert run.code == 1
    assert run.err.count("does not hold") == 20
    assert not list(tmp_path.rglob("written"))


async def test_an_empty_command_is_an_error(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model:
        run = await place(model, tmp_path).json("--until", " ", "make it")
    assert run.code == 2
    assert "--until needs a command" in run.err
