"""docs/ci.md: its YAML is read, and what its jobs run is run, beside a scripted model and without a network."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
import yaml

from tests.docs.blocks import ROOT, Block, all_blocks
from understudy.testing.waiting import WAIT_SECONDS

REVIEW = {
    "findings": [
        {
            "title": "Wrong",
            "body": "It is.",
            "severity": "low",
            "file": "app.py",
            "line": 1,
            "end_line": 1,
            "confidence": 0.5,
        }
    ],
    "overall_correctness": "patch is correct",
    "overall_explanation": "Fine.",
    "overall_confidence_score": 0.5,
}
SUMMARY = {"risky": False, "summary": "One line changed."}


def of_page(language: str) -> list[Block]:
    return [block for block in all_blocks() if block.language == language and block.page == ROOT / "docs" / "ci.md"]


def scripts(job: dict[str, Any]) -> Iterator[str]:
    """What a job of either forge runs, in order."""
    for step in cast(list[dict[str, Any]], job.get("steps", [])):
        if "run" in step:
            yield step["run"]
    yield from job.get("before_script", [])
    yield from job.get("script", [])


def jobs(text: str) -> Iterator[dict[str, Any]]:
    tree = cast(dict[str, Any], yaml.safe_load(text))
    yield from tree["jobs"].values() if "jobs" in tree else tree.values()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a branch to compare with, and the two files of the page."""
    folder = tmp_path / "project"
    (folder / "ci").mkdir(parents=True)
    [configuration], [schema] = of_page("toml"), of_page("json")
    (folder / "ci" / "understudy.toml").write_text(configuration.text)
    (folder / "ci" / "summary.schema.json").write_text(schema.text)
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main")
    (folder / "app.py").write_text("one\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first"), ("update-ref", "refs/remotes/origin/main", "HEAD")):
        subprocess.run([*git, *words], cwd=folder, check=True, timeout=WAIT_SECONDS)
    (folder / "app.py").write_text("two\n")
    subprocess.run([*git, "commit", "-qam", "second"], cwd=folder, check=True, timeout=WAIT_SECONDS)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("block", of_page("yaml"), ids=lambda block: block.name)
def test_what_the_jobs_run_works(block: Block, project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "CODEX_HOME": str(home),
        "GITHUB_BASE_REF": "main",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }
    ran: list[str] = []
    for job in jobs(block.text):
        for script in scripts(job):
            if script.startswith("pip install"):
                continue  # it is installed
            ran.append(script)
            if (home / "config.toml").exists():
                answers = tmp_path / "answers.json"
                answers.write_text(json.dumps([{"say": json.dumps(REVIEW if "review" in script else SUMMARY)}]))
                scripted = f'model_provider = "scripted"\nunderstudy.scripted_model = {json.dumps(str(answers))}\n'
                (home / "config.toml").write_text(scripted + (project / "ci" / "understudy.toml").read_text())
            done = subprocess.run(
                ["bash", "-e", "-c", script],
                cwd=project,
                env=env,
                capture_output=True,
                text=True,
                timeout=4 * WAIT_SECONDS,
                check=False,
            )
            assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    assert sum("understudy review" in script for script in ran) == 1
    assert json.loads((project / "summary.json").read_text()) == SUMMARY
    if (project / "review.sarif").exists():
        assert json.loads((project / "review.sarif").read_text())["version"] == "2.1.0"
    else:
        assert ElementTree.fromstring((project / "review.xml").read_text()).get("tests") == "1"
