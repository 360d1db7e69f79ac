"""docs/ci.md: the jobs that it shows give the action and the job what these know, and are run, with a model on loopback."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.docs.blocks import ROOT, Block, all_blocks
from tests.packaging.forge_runner import HEADER, change, findings, machine
from understudy import __version__
from understudy.testing import ScriptedModel, say

SUMMARY = {"risky": False, "summary": "One line changed."}
NOT_OF_THE_RUNNER = ("api-key", "source")  # a secret, and where it is installed from


def of_page(language: str) -> list[Block]:
    return [block for block in all_blocks() if block.language == language and block.page == ROOT / "docs" / "ci.md"]


def uses() -> Iterator[tuple[str, str, dict[str, str]]]:
    """What the page gives ours: the forge, which version, and the inputs."""
    for block in of_page("yaml"):
        tree = yaml.safe_load(block.text)
        if "jobs" in tree:
            steps: list[dict[str, Any]] = [step for job in tree["jobs"].values() for step in job["steps"]]
            yield from (("github", step["uses"], step["with"]) for step in steps if "/understudy@" in step["uses"])
        else:
            yield from (("gitlab", f"{each['project']}@{each['ref']}", each["inputs"]) for each in tree["include"])


def test_the_page_shows_a_review_and_a_prompt_at_each_forge() -> None:
    shown = [(forge, "prompt" in inputs) for forge, _, inputs in uses()]
    assert shown == [("github", False), ("github", True), ("gitlab", False), ("gitlab", True)]
    assert {version for _, version, _ in uses()} == {f"YOUR-TEAM/understudy@v{__version__}"}
    [included] = {each["file"] for block in of_page("yaml") for each in yaml.safe_load(block.text).get("include", [])}
    assert (ROOT / included.removeprefix("/")).exists()


def test_every_input_is_on_the_page() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    named = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    assert named == set(HEADER["spec"]["inputs"]) | {"api-key", "key-name"}


def test_the_checkout_keeps_no_token_and_has_what_a_review_compares_with() -> None:
    [block] = [block for block in of_page("yaml") if "jobs" in yaml.safe_load(block.text)]
    [job] = yaml.safe_load(block.text)["jobs"].values()
    assert job["steps"][0]["with"] == {"fetch-depth": 0, "persist-credentials": False}


@pytest.mark.slow
@pytest.mark.parametrize(("forge", "inputs"), [(forge, inputs) for forge, _, inputs in uses()])
async def test_what_the_jobs_run_works(forge: str, inputs: dict[str, str]) -> None:
    [settings], [schema] = of_page("toml"), of_page("json")
    answer = json.dumps(SUMMARY) if "prompt" in inputs else findings("low")
    given = {name: value for name, value in inputs.items() if name not in NOT_OF_THE_RUNNER}
    with machine() as runner:
        async with ScriptedModel([say(answer)]) as model:
            change(runner, model.url, {"ci/summary.schema.json": schema.text}, "ci/understudy.toml", settings.text)
            ended = await asyncio.to_thread(runner.run, forge, given)
            assert model.requests, ended.out
        assert ended.code == 0, ended.out
        result = runner.result(forge, ended)
    if "prompt" in inputs:
        assert json.loads(result) == SUMMARY
    elif forge == "github":
        assert json.loads(result)["version"] == "2.1.0"
    else:
        assert ElementTree.fromstring(result).get("tests") == "1"
