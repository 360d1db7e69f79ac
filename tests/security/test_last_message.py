"""`exec -o FILE`: the model writes the words, and tries to choose the file as well."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.exec_runs import Exec, Run
from tests.security.house import House, house
from understudy.testing import CodexHome, ScriptedModel, call, say

EVIL = "EVIL WORDS OF THE MODEL"
BOX = ("exec", "--sandbox", "workspace-write", "--skip-git-repo-check", "-o")


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        yield found


async def run(place: House, script: str, target: str, *more: str) -> Run:
    answers = [call("shell", command=["sh", "-c", script]), say(EVIL)]
    async with ScriptedModel(answers) as model:
        home = CodexHome(place.settings, model)
        return await Exec(home, place.project).run(*BOX, target, *more, "go")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("script", "target"),
    [
        ("ln -sf {outside}/kept.txt last.md", "last.md"),
        ("ln -sf {outside}/new.txt last.md", "last.md"),
        ("ln -s {outside} out", "out/kept.txt"),
        ("mkdir a && ln -s ../../outside a/out", "a/../a/out/new.txt"),
        ("ln -s {outside} sub; ln -s sub out", "{project}/out/new.txt"),
        ("mkfifo last.md", "last.md"),
        ("mkdir last.md", "last.md"),
    ],
)
async def test_no_link_of_the_model_leads_the_last_message_astray(place: House, script: str, target: str) -> None:
    names = {"outside": place.outside, "project": place.project}
    before = {path.name: path.read_text() for path in place.outside.iterdir()}
    ended = await run(place, script.format(**names), target.format(**names))
    assert {path.name: path.read_text() for path in place.outside.iterdir()} == before
    assert ended.code == 1
    assert "the last message cannot be written to" in ended.err
    assert "Traceback" not in ended.err


async def test_a_second_name_of_a_file_outside_is_cut_off_from_it(place: House) -> None:
    os.link(place.outside / "kept.txt", place.project / "last.md")
    ended = await run(place, "true", "last.md")
    assert ended.code == 0, ended.err
    assert (place.outside / "kept.txt").read_text() == "kept\n"
    assert (place.project / "last.md").read_text() == EVIL


@pytest.mark.slow
async def test_the_user_s_own_links_are_followed_and_files_keep_their_mode(place: House, tmp_path: Path) -> None:
    (place.home / "mine").symlink_to(place.outside)
    assert (await run(place, "true", f"{place.home}/mine/said.md")).code == 0
    assert (place.outside / "said.md").read_text() == EVIL
    file = place.project / "said.md"
    file.write_text("from before")
    file.chmod(0o640)
    (place.home / "here").symlink_to(place.project)
    assert (await run(place, "true", f"{place.home}/here/said.md")).code == 0
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (EVIL, 0o640)
    assert (await run(place, "true", "/dev/null")).code == 0
    assert not [path for path in os.listdir(place.project) if path.endswith("last-message")]
