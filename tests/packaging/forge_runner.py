"""A machine of GitHub or GitLab, which runs the steps of our action and of our job as the hosters do."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.environments import ROOT
from understudy.testing.waiting import WAIT_SECONDS

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HEADER, JOBS = yaml.safe_load_all((ROOT / "packaging" / "gitlab-review.yml").read_text())
[JOB] = JOBS.values()
KEY = "sk-the-key-of-the-job"
PLAIN_USER = 1000  # root's own files are refused where the sandbox has no user namespaces
FORGES = ("github", "gitlab")


def findings(*severities: str) -> str:
    found = [
        {"title": "Wrong", "body": "It is.", "severity": severity, "file": "app.py", "line": 1, "end_line": 1, "confidence": 0.5}
        for severity in severities
    ]
    rest = {"overall_correctness": "patch is correct", "overall_explanation": "Fine.", "overall_confidence_score": 0.5}
    return json.dumps({"findings": found, **rest})


@dataclass
class Ended:
    code: int
    out: str
    outputs: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Runner:
    """A machine of a forge, at the checkout of a change."""

    folder: Path
    event: str = "pull_request"
    env: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def git(self, *words: str) -> None:
        known = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main", "-c", "safe.directory=*")
        subprocess.run(["git", *known, *words], cwd=self.project, check=True, capture_output=True, timeout=WAIT_SECONDS)

    def commit(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.project / name).write_text(text)
        self.git("add", ".")
        self.git("commit", "-qm", "a change")

    def bash(self, script: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """As GitHub's runner starts it; GitLab's does the same without `pipefail`."""
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder / "temp"), **self.env}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.project,
            env={**own, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=4 * WAIT_SECONDS,
            check=False,
        )

    def run(self, forge: str, inputs: Mapping[str, str], *, installs: bool = False) -> Ended:
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return self._action(given, installs=installs) if forge == "github" else self._job(given, installs=installs)

    def _action(self, given: Mapping[str, str], *, installs: bool) -> Ended:
        assert set(given) <= set(ACTION["inputs"])
        values = {name: given.get(name, about.get("default", "")) for name, about in ACTION["inputs"].items()}
        values = {**values, "api-key": given.get("api-key", KEY)}
        outputs, temp = self.folder / "outputs", self.folder / "temp"
        surroundings = {"RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": str(outputs), "GITHUB_EVENT_NAME": self.event}
        surroundings |= {"GITHUB_BASE_REF": "main"} if self.event.startswith("pull_request") else {}
        outputs.touch()
        said, code = "", 0
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or code:
                continue
            if step["name"] == "Install" and not installs:
                _program(temp / "understudy" / "program" / "bin")
                continue
            env = {name: _filled(text, values) for name, text in step["env"].items()}
            done = self.bash(step["run"], {**surroundings, **env})
            said, code = said + done.stdout, done.returncode
        return Ended(code, said, dict(line.split("=", 1) for line in outputs.read_text().splitlines()))

    def _job(self, given: Mapping[str, str], *, installs: bool) -> Ended:
        inputs = HEADER["spec"]["inputs"]
        assert set(given) <= {*inputs, "api-key"}
        values = {name: given.get(name, about.get("default", str(ROOT))) for name, about in inputs.items()}
        assert all(values[name] in about["options"] for name, about in inputs.items() if "options" in about)
        filled = {
            name: re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: values[found[1]], _plain(value))
            for name, value in JOB["variables"].items()
        }
        merge = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "origin/main"} if self.event == "pull_request" else {}
        before = JOB["before_script"]
        if not installs:
            _program(self.folder / "temp" / "installed" / "program" / "bin")
            before = [f"place={self.folder / 'temp' / 'installed'}"]
        done = self.bash("\n".join([*before, *JOB["script"]]), {**filled, **merge, "OPENAI_API_KEY": given.get("api-key", KEY)})
        return Ended(done.returncode, done.stdout)

    def result(self, forge: str, ended: Ended) -> str:
        if forge == "github":
            return Path(ended.outputs["result"]).read_text()
        [file] = (self.project / "understudy-result").iterdir()
        assert file.name in ("answer.txt", "review.xml")
        return file.read_text()


def _plain(value: str | dict[str, Any]) -> str:
    if isinstance(value, str):
        return value
    assert value["expand"] is False  # a dollar in an input is a dollar
    return value["value"]


def _filled(text: str, inputs: Mapping[str, str]) -> str:
    named = re.fullmatch(r"\$\{\{ (inputs|github)\.([\w-]+) \}\}", text)
    assert named is not None
    return str(ROOT) if named[1] == "github" else inputs[named[2]]


def _program(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "understudy").write_text(f'#!/bin/sh\nexec {sys.executable} -m understudy "$@"\n')
    (folder / "understudy").chmod(0o755)


@contextmanager
def machine() -> Generator[Runner]:
    """Not below pytest's folder, which is closed to others: as root, commands have the rights of the project's owner."""
    with tempfile.TemporaryDirectory(prefix="understudy-jobs-") as folder:
        runner = Runner(Path(folder))
        runner.folder.chmod(0o755)
        for place in (runner.project, runner.folder / "temp"):
            place.mkdir()
        runner.git("init", "-q")
        (runner.folder / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
        yield runner


def configuration(url: str, settings: str) -> str:
    return f"""model_provider = "mock"
{settings}
[model_providers.mock]
name = "Mock"
base_url = "{url}"
wire_api = "chat"
env_key = "OPENAI_API_KEY"
"""


def change(
    runner: Runner, url: str, files: Mapping[str, str] | None = None, at: str = "understudy.toml", settings: str = 'model = "gpt-5"'
) -> None:
    """A branch that is merged already, and on it a change, which also rewrites the configuration."""
    (runner.project / at).parent.mkdir(exist_ok=True)
    runner.commit({"app.py": "one\n", at: configuration(url, settings)})
    runner.git("update-ref", "refs/remotes/origin/main", "HEAD")
    runner.commit({"app.py": "two\n", at: configuration("http://127.0.0.1:9/v1", settings), **(files or {})})
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{PLAIN_USER}:{PLAIN_USER}", str(runner.project)], check=True, timeout=WAIT_SECONDS)
