"""The workflows that release may do no more than they have to, and their steps do what they say, as far as no hoster is needed."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.environments import ROOT
from understudy import __version__

GITHUB = ROOT / ".github" / "workflows" / "release.yml"
GITLAB = ROOT / "packaging" / "gitlab-release.yml"
MAKES_A_RELEASE = "make release"


def github() -> dict[Any, Any]:
    return yaml.safe_load(GITHUB.read_text())


def gitlab() -> dict[str, Any]:
    return yaml.safe_load(GITLAB.read_text())


def steps() -> dict[str, list[str]]:
    """What each of the four jobs runs."""
    jobs = {f"github {name}": [step["run"] for step in job["steps"] if "run" in step] for name, job in github()["jobs"].items()}
    return jobs | {f"gitlab {name}": job["script"] for name, job in gitlab().items() if name != "stages"}


def run(step: str, cwd: Path, **env: str) -> int:
    done = subprocess.run(
        ["bash", "-ec", step], cwd=cwd, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, timeout=60, check=False
    )
    return done.returncode


def test_a_job_may_do_what_it_has_to_and_no_more() -> None:
    workflow = github()
    assert workflow["permissions"] == {}
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as a truth
    build, upload = workflow["jobs"]["build"], workflow["jobs"]["upload"]
    assert build["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert upload["permissions"] == {"contents": "write", "id-token": "write"}
    assert (upload["environment"], upload["needs"], upload["steps"][0]["uses"].split("@")[0]) == (
        "release",
        "build",
        "actions/download-artifact",
    )
    assert gitlab()["release:upload"]["rules"][0]["when"] == "manual"
    assert not re.search(r"secrets\.|password|TWINE|UV_PUBLISH_TOKEN", GITHUB.read_text() + GITLAB.read_text())


def test_whatever_is_not_an_upload_is_make_release() -> None:
    for name, commands in steps().items():
        assert (MAKES_A_RELEASE in commands) == name.endswith("build")
        assert not [step for step in commands if name.endswith("build") and re.search("publish|upload|gh ", step)]


@pytest.mark.parametrize("job", [name for name in steps() if name.endswith("build")])
def test_a_tag_that_is_not_the_version_or_a_changelog_without_a_date_stops_it(job: str, tmp_path: Path) -> None:
    checks = [step for step in steps()[job] if "grep" in step]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version == __version__
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for heading, tag, codes in (
        (f"## {version}, 3 May", f"v{version}", [0, 0]),
        (f"## {version}, not released yet", f"v{version}", [0, 1]),
        (f"## {version}, 3 May", "v9.9.9", [1, 0]),
    ):
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
        assert [run(step, tmp_path, GITHUB_REF_NAME=tag, CI_COMMIT_TAG=tag) for step in checks] == codes


@pytest.mark.parametrize("job", [name for name in steps() if name.endswith("upload")])
def test_what_is_uploaded_is_what_was_built(job: str, tmp_path: Path) -> None:
    (check,) = [step for step in steps()[job] if "sha256sum" in step]
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "a.whl").write_text("a")
    digest = subprocess.run(["sha256sum", "a.whl"], cwd=tmp_path / "dist", capture_output=True, text=True, timeout=60, check=True)
    (tmp_path / "dist" / "SHA256SUMS").write_text(digest.stdout)
    assert run(check, tmp_path) == 0
    (tmp_path / "dist" / "a.whl").write_text("b")
    assert run(check, tmp_path) != 0
