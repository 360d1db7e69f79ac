"""What `make release` writes beside the archives: each is judged by a program that reads it for others."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.release import provenance
from scripts.release.homebrew import formula
from scripts.release.locked import EXTRAS, installed_with
from scripts.release.sbom import bill_of_materials

from tests.support.environments import ROOT, python_with

SECONDS = 60
JUDGE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) or "valid")
"""


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "understudy_codex-1.2-py3-none-any.whl", tmp_path / "understudy_codex-1.2.tar.gz"]
    for archive in made:
        archive.write_text(f"the bytes of {archive.name}")
    return made


def run(*command: str, cwd: Path, stdin: str = "") -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout + done.stderr


def test_what_is_installed_is_what_the_lock_says() -> None:
    always, extras = {each.name for each in installed_with()}, {each.name for each in installed_with(EXTRAS)}
    assert {"msgspec", "rpds-py", "mdurl"} <= always < extras
    assert {"psycopg-binary", "starlette"} <= extras
    assert not {"colorama", "pywin32-ctypes", "pytest", "hatchling"} & extras


@pytest.mark.slow
def test_the_bill_of_materials_is_valid_and_complete(archives: list[Path], tmp_path: Path) -> None:
    bill = bill_of_materials("1.2", archives)
    judge = python_with("cyclonedx-python-lib[json-validation]==11.12.0")
    assert run(str(judge), "-c", JUDGE, cwd=tmp_path, stdin=bill) == (0, "valid\n")
    wrong = '{"bomFormat": "Something", "specVersion": "1.6"}'
    assert run(str(judge), "-c", JUDGE, cwd=tmp_path, stdin=wrong)[1] != "valid\n"
    told = json.loads(bill)
    named = {each["name"]: each for each in told["components"]}
    assert {"dompurify", "marked", "htm", *(archive.name for archive in archives)} < set(named)
    assert named["msgspec"]["scope"] == "required"
    assert named["pillow"]["scope"] == "optional"
    refs = {each["ref"]: each["dependsOn"] for each in told["dependencies"]}
    known = {each["bom-ref"] for each in told["components"]}
    assert all(set(needs) <= known for needs in refs.values())
    assert bill == bill_of_materials("1.2", archives)


def test_the_digests_are_those_of_the_files(archives: list[Path], tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text(provenance.digests(archives))
    assert run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=tmp_path) == (0, "")
    archives[0].write_text("other bytes")
    assert run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=tmp_path)[0] == 1


def test_the_provenance_names_the_files_the_commit_and_the_builder(archives: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_BUILDER", "https://forge.example/release.yml")
    told = json.loads(provenance.statement(archives))
    assert [each["name"] for each in told["subject"]] == sorted(archive.name for archive in archives)
    predicate = told["predicate"]
    assert predicate["runDetails"]["builder"]["id"] == "https://forge.example/release.yml"
    assert re.fullmatch(r"hatchling==[\d.]+", predicate["buildDefinition"]["internalParameters"]["builder"])
    head = run("git", "rev-parse", "HEAD", cwd=ROOT)[1].strip()
    if re.fullmatch("[0-9a-f]{40}", head):
        assert predicate["buildDefinition"]["resolvedDependencies"][0]["digest"] == {"gitCommit": head}


def test_a_signature_holds_for_the_file_that_was_signed_and_no_other(
    archives: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(provenance.KEY, raising=False)
    assert provenance.sign(archives[0]) is None
    monkeypatch.setenv(provenance.KEY, str(tmp_path / "no-key"))
    with pytest.raises(SystemExit, match="there is no such file: name a key of OpenSSH, or unset it"):
        provenance.sign(archives[0])
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed, so nothing can be signed (apt-get install openssh-client)")
    assert run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key", cwd=tmp_path)[0] == 0
    monkeypatch.setenv(provenance.KEY, str(tmp_path / "key"))
    signature = provenance.sign(archives[0])
    assert signature is not None
    (tmp_path / "signers").write_text("us@example.org " + (tmp_path / "key.pub").read_text())
    verify = (
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        "signers",
        "-I",
        "us@example.org",
        "-n",
        provenance.SIGNED_AS,
        "-s",
        str(signature),
    )
    assert run(*verify, cwd=tmp_path, stdin=archives[0].read_text())[0] == 0
    assert run(*verify, cwd=tmp_path, stdin="other bytes")[0] != 0


def test_the_formula_has_the_locked_sdists_of_all_that_is_installed(archives: list[Path]) -> None:
    text = formula("1.2", archives[1])
    assert "@" not in text.replace('"python@3.13"', "")
    assert text.startswith("class UnderstudyCodex < Formula\n")
    assert '/understudy_codex-1.2.tar.gz"\n' in text
    assert re.findall(r'resource "([^"]+)" do', text) == [each.name for each in installed_with()]
    assert len(re.findall(r'sha256 "[0-9a-f]{64}"', text)) == len(installed_with()) + 1


@pytest.mark.slow
def test_ruby_reads_the_formula(archives: list[Path], tmp_path: Path) -> None:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("ruby is not installed, so the formula cannot be read by it (apt-get install ruby)")
    (tmp_path / "formula.rb").write_text(formula("1.2", archives[1]))
    assert run(ruby, "-wc", "formula.rb", cwd=tmp_path) == (0, "Syntax OK\n")
