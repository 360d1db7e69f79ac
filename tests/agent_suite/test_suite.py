"""The task suite: solvers solve, repairs work after their mistakes, and success is never reported where hidden tests fail."""

from pathlib import Path

import pytest

from tests.agent_suite.__main__ import complaints
from tests.agent_suite.playing import play_all
from tests.agent_suite.scripts import load_scripts

EACH = 60  # of the tasks, one in so many is in the default tier
FEWEST = 60
PARTS = 12  # of the whole suite: several processes can share them


def test_there_are_enough_tasks_each_with_a_mistake_of_its_own() -> None:
    scripts = [one for one in load_scripts() if one.variant == "repairs"]
    assert len(scripts) >= FEWEST
    assert len({one.how for one in scripts}) == len(scripts)


async def test_some_tasks_of_the_suite_hold(tmp_path: Path) -> None:
    names = sorted({one.task.name for one in load_scripts()})[::EACH]
    played = await play_all([one for one in load_scripts() if one.task.name in names], tmp_path, at_once=2)
    assert not complaints(played)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_the_whole_suite_holds(tmp_path: Path, part: int) -> None:
    names = sorted({one.task.name for one in load_scripts()})
    tried = set(names[part::PARTS]) - set(names[::EACH])  # those are tried by the test above
    played = await play_all([one for one in load_scripts() if one.task.name in tried], tmp_path, at_once=1)
    assert not complaints(played)
