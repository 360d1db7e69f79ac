"""The action for GitHub and the job for GitLab: their steps are run as the hosters run them, with a model on loopback."""

import asyncio
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.packaging.forge_runner import ACTION, FORGES, HEADER, JOB, KEY, Ended, Runner, change, findings, machine
from tests.support.environments import ROOT, wheels_of
from understudy.testing import ScriptedModel, call, say

GUARDED = r"::stop-commands::(\w{32})\n(.*)\n::\1::"


@pytest.fixture
def runner() -> Iterator[Runner]:
    with machine() as runner:
        yield runner


async def run(
    runner: Runner, forge: str, answers: Sequence[Any], *, installs: bool = False, **inputs: str
) -> tuple[Ended, ScriptedModel]:
    async with ScriptedModel(list(answers)) as model:
        change(runner, model.url)
        ended = await asyncio.to_thread(runner.run, forge, {"config": "understudy.toml", **inputs}, installs=installs)
        assert len(model.requests) == len(answers), ended.out
    return ended, model


# -- what it does


@pytest.mark.slow
@pytest.mark.parametrize("forge", FORGES)
@pytest.mark.parametrize(("fail_on", "code"), [("", 0), ("high", 3), ("critical", 0)])
async def test_a_change_is_reviewed_by_the_merged_configuration(runner: Runner, forge: str, fail_on: str, code: int) -> None:
    ended, model = await run(runner, forge, [say(findings("high"))], fail_on=fail_on)
    assert ended.code == code, ended.out
    asked = json.dumps(model.requests[0])
    assert "+two" in asked
    assert "127.0.0.1:9" in asked  # the change's configuration is reviewed, not obeyed
    result = runner.result(forge, ended)
    if forge == "github":
        assert json.loads(result)["version"] == "2.1.0"
    else:
        assert ElementTree.fromstring(result).get("tests") == "1"


@pytest.mark.slow
@pytest.mark.parametrize("forge", FORGES)
async def test_a_prompt_is_done_word_for_word(runner: Runner, forge: str) -> None:
    prompt = """review "this" `touch made` $(touch made); $HOME 'x'\n--help"""
    ended, model = await run(runner, forge, [say('{"ok": true}')], prompt=prompt, budget="requests=7")
    assert ended.code == 0, ended.out
    assert prompt in [message["content"] for message in model.requests[0]["messages"]]
    assert runner.result(forge, ended) == '{"ok": true}\n'
    assert not (runner.project / "made").exists()


@pytest.mark.slow
@pytest.mark.parametrize("forge", FORGES)
async def test_no_command_of_the_model_has_the_key(runner: Runner, forge: str) -> None:
    script = [call("shell", command=["sh", "-c", "env; cat /proc/$PPID/environ"]), say("Done.")]
    ended, model = await run(runner, forge, script, prompt="look around")
    assert ended.code == 0, ended.out
    assert "PATH=" in json.dumps(model.requests[1])
    assert KEY not in json.dumps(model.requests)
    assert KEY not in ended.out


@pytest.mark.slow
async def test_what_the_model_says_is_no_command_to_the_runner(runner: Runner) -> None:
    ended, _ = await run(runner, "github", [say("::add-mask::a\n::error::boo")], prompt="speak")
    guarded = re.search(GUARDED, ended.out, re.DOTALL)
    assert guarded is not None
    assert "::error::boo" in guarded[2]
    assert "::error::boo" not in ended.out.replace(guarded[0], "")


@pytest.mark.slow
async def test_a_link_of_the_change_leads_the_result_nowhere(runner: Runner) -> None:
    precious = runner.folder / "precious"
    precious.mkdir()
    async with ScriptedModel([say(findings())]) as model:
        runner.project.joinpath("understudy-result").symlink_to(precious)
        change(runner, model.url)
        ended = await asyncio.to_thread(runner.run, "gitlab", {"config": "understudy.toml"})
    assert ended.code == 0, ended.out
    assert list(precious.iterdir()) == []
    assert runner.result("gitlab", ended)


@pytest.mark.slow
@pytest.mark.parametrize("forge", FORGES)
async def test_the_install_step_installs_the_program(runner: Runner, forge: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheels = wheels_of(*project["project"]["dependencies"], *project["tool"]["uv"]["build-constraint-dependencies"])
    runner.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CACHE_DIR": str(runner.folder / "cache")}
    runner.env["PATH"] = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    ended, _ = await run(runner, forge, [say(findings())], installs=True)
    assert ended.code == 0, ended.out
    assert runner.result(forge, ended)


# -- where it refuses


@pytest.mark.parametrize(
    ("event", "inputs", "said"),
    [
        ("pull_request_target", {}, "on pull_request_target a stranger's change meets your secrets"),
        ("pull_request", {"base": "origin/gone"}, "give actions/checkout fetch-depth: 0"),
        ("pull_request", {"config": "new.toml"}, "origin/main has no new.toml"),
        ("pull_request", {"api_key": ""}, "pull requests from forks are given no secrets"),
        ("pull_request", {"key_name": "BASH_ENV"}, "ends in _KEY or _TOKEN"),
        ("push", {}, "there is nothing to compare with"),
    ],
)
def test_the_action_says_why_it_does_nothing(runner: Runner, event: str, inputs: dict[str, str], said: str) -> None:
    runner.event = event
    change(runner, "http://127.0.0.1:9/v1", files={"new.toml": 'sandbox_mode = "danger-full-access"\n'})
    ended = runner.run("github", inputs)
    assert ended.code == 1
    [error] = [line for line in ended.out.splitlines() if line.startswith("::error::understudy: ")]
    assert said in error


@pytest.mark.parametrize(
    ("event", "inputs", "said"),
    [
        ("pull_request", {"base": "gone"}, "there is no gone here; is GIT_DEPTH 0?"),
        ("pull_request", {"config": "new.toml"}, "has no new.toml; a merge request counts"),
        ("push", {}, "there is nothing to compare with"),
    ],
)
def test_the_job_says_why_it_does_nothing(runner: Runner, event: str, inputs: dict[str, str], said: str) -> None:
    runner.event = event
    change(runner, "http://127.0.0.1:9/v1", files={"new.toml": 'sandbox_mode = "danger-full-access"\n'})
    ended = runner.run("gitlab", inputs)
    assert ended.code == 1
    assert said in ended.out


def test_a_token_that_the_checkout_left_is_told_of(runner: Runner) -> None:
    change(runner, "http://127.0.0.1:9/v1")
    runner.git("config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic x")
    ended = runner.run("github", {"api_key": ""})
    assert "::warning::" in ended.out
    assert "persist-credentials: false" in ended.out
    assert "basic x" not in ended.out


# -- what the files may not do


def test_no_word_of_an_input_is_run() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    for script in (*JOB["before_script"], *JOB["script"]):
        assert "$[[" not in script


def test_each_input_is_used_and_explained() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
    assert all(about["description"] for about in ACTION["inputs"].values())
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "packaging" / "gitlab-review.yml").read_text()))
    assert used == set(HEADER["spec"]["inputs"])
    only_here = {"api-key", "key-name"}, {"source", "job", "stage"}
    assert set(ACTION["inputs"]) - only_here[0] == set(HEADER["spec"]["inputs"]) - only_here[1]
