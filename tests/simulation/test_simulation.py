"""The engine keeps its rules under every schedule tried. Run as a program: the order of sets is fixed when one starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.faults import FAULTS
from tests.simulation.playing import kept

SECONDS = 550


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_rules_hold_under_a_hundred_schedules() -> None:
    played = simulate("--seeds", "100")
    assert played.returncode == 0, played.stdout[-20_000:] + played.stderr


@pytest.mark.slow
@pytest.mark.parametrize("which", [("--seeds", "2000"), ("--seeds", "500", "--first", "random")], ids=["2000", "500 at random"])
def test_the_rules_hold_under_many_schedules(which: tuple[str, ...]) -> None:
    played = simulate(*which)
    assert played.returncode == 0, played.stdout[-20_000:] + played.stderr


@pytest.mark.quick(8)
@pytest.mark.parametrize("name", [path.stem for path in kept()])
def test_what_has_failed_once_holds(name: str) -> None:
    played = simulate("--seed", name)
    assert played.returncode == 0, played.stdout[-20_000:] + played.stderr


def test_a_fault_that_is_put_in_by_hand_is_found() -> None:
    found = simulate("--fault", "forget-a-letter")
    assert (found.returncode, found.stdout[:29]) == (0, "forget-a-letter is found by S"), found.stdout[-20_000:] + found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_that_is_put_in_by_hand_is_found_within_two_thousand_schedules(fault: str) -> None:
    found = simulate("--fault", fault, "--seeds", "2000")
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr


def test_a_seed_is_one_schedule() -> None:
    first, second = simulate("--seed", "5", "--history"), simulate("--seed", "5", "--history")
    assert len(first.stdout.splitlines()) > 50
    assert first.stdout == second.stdout
