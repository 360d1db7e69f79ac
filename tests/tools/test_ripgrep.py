"""`search` with ripgrep: the same results in the same order as without, and it is handed nothing that we would not read."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.environments import node_with
from tests.tools.test_file_tools import Host, run
from understudy.tools.acts.ripgrep import FEWEST_BYTES, find_ripgrep

FILLER = b"nothing to see here\n" * (FEWEST_BYTES // 20 + 1)
NAMES = st.sampled_from(["a", "b", ".hidden", "c.py", "link"])
CONTENTS = st.sampled_from([
    b"needle\n",
    b"one\r\nneedle two\r\n",
    b"a needle\n" * 3,
    b"\0needle\n",
    b"caf\xe9 needle\n",
    "ünï needle \ufffd\n".encode(),
    "needle sixteen\n".encode("utf-16"),
    b"needl",
    b"",
])  # fmt: skip
FILES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), CONTENTS, max_size=8)
PATTERNS = st.sampled_from(["needle", r"nee\w+ two", "^a needle$", "(needle|nothing)x?", "eedle$", "ünï", "(?i)NEEDLE", "\ufffd"])


def planted(folder: Path, files: dict[str, bytes]) -> Path:
    """A tree of these files. One that stands where another has a folder is left out."""
    for name, content in {"filler": FILLER, **files}.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    return folder


@pytest.fixture(scope="module")
def ripgrep() -> str:
    if found := shutil.which("rg"):
        return found
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("ripgrep is not installed (apt-get install ripgrep)")
    return str(node_with("@vscode/ripgrep-linux-x64@1.18.0") / "node_modules/@vscode/ripgrep-linux-x64/bin/rg")


@pytest.mark.slow
@pytest.mark.xdist_group("ripgrep")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(files=FILES, pattern=PATTERNS)
async def test_the_results_are_the_same_with_it_and_without(
    monkeypatch: pytest.MonkeyPatch, ripgrep: str, files: dict[str, bytes], pattern: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = planted(Path(folder).resolve(), files)
        host = Host(project)
        monkeypatch.setenv("PATH", os.path.dirname(ripgrep))
        with_it = await run(host, "search", pattern=pattern)
        monkeypatch.setenv("PATH", "/nonexistent")
        assert with_it == await run(host, "search", pattern=pattern)


async def test_it_is_handed_only_files_that_are_for_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Here it only tells what it was given, and fails: then our own search goes through all."""
    project = planted(
        tmp_path / "project", {"open": b"needle\n", "secret": b"needle\n", "safe/key": b"needle\n", ".hidden": b"needle\n"}
    )
    (project / "link").symlink_to("secret")
    os.link(project / "safe/key", project / "other-name")
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("ignored\n")
    (project / "ignored").write_text("needle\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    os.mkfifo(tools / "told")
    (tools / "rg").write_text(f'#!/bin/sh\nfor each do /usr/bin/readlink "$each"; done >{tools}/told\nexit 2\n')
    (tools / "rg").chmod(0o755)
    told = os.open(tools / "told", os.O_RDWR | os.O_NONBLOCK)
    try:
        monkeypatch.setenv("PATH", str(tools))
        host = Host(project, project / "secret", project / "safe")
        assert await run(host, "search", pattern="needle") == "open:1:needle"
        assert os.read(told, 65536).decode().split() == [str(project / "filler"), str(project / "open")]
    finally:
        os.close(told)


def test_one_that_the_project_brings_is_not_taken(tmp_path: Path) -> None:
    project, tools = tmp_path / "project", tmp_path / "tools"
    for folder in (project / "bin", tools):
        folder.mkdir(parents=True)
        (folder / "rg").write_text("#!/bin/sh\n")
        (folder / "rg").chmod(0o755)
    (tmp_path / "linked").symlink_to(project / "bin")
    roots = [str(project)]
    assert find_ripgrep(f"{project}/bin:{tmp_path}/linked:bin::{tools}", roots) == str(tools / "rg")
    assert find_ripgrep(f"{project}/bin:{tmp_path}/linked:bin:", roots) is None
    (tools / "rg").unlink()
    (tools / "rg").symlink_to(project / "bin" / "rg")
    assert find_ripgrep(str(tools), roots) is None
    assert find_ripgrep(None, roots) is None
