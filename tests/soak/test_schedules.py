"""Random schedules, kills, harm to files and failing disks against the real program. `python -m tests.soak` runs more."""

import pytest

from tests.soak.child_kills import run_child_kills
from tests.soak.disk_faults import STRACE, run_disk_faults
from tests.soak.harms import run_harms
from tests.soak.kills import run_kills
from tests.soak.network_faults import run_network_faults
from tests.soak.schedule import run_schedules


@pytest.mark.slow
async def test_snapshot_and_live_are_the_projection_of_the_log_in_random_schedules() -> None:
    await run_schedules(first_seed=1, count=25, steps=14, at_once=5)


@pytest.mark.slow
async def test_more_random_schedules() -> None:
    await run_schedules(first_seed=1000, count=60, at_once=4)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_by_kills_at_random_moments() -> None:
    await run_kills(first_seed=1, count=60, at_once=2)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_by_harm_to_files_of_the_home() -> None:
    await run_harms(first_seed=1, count=20, at_once=2)


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None, reason="no strace to make system calls fail: apt install strace")
async def test_nothing_acknowledged_is_lost_by_a_disk_that_fails_at_one_moment() -> None:
    await run_disk_faults(first_seed=1, count=20, at_once=2)


@pytest.mark.slow
async def test_a_server_goes_on_whichever_of_its_processes_is_killed_or_stopped() -> None:
    await run_child_kills(first_seed=1, count=20, at_once=2)


@pytest.mark.slow
async def test_a_call_is_answered_whole_or_with_an_error_over_a_network_that_fails() -> None:
    await run_network_faults(first_seed=1, count=30, at_once=3)
