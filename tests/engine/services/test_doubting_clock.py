"""A clock that was set forward deletes nothing before somebody could have noticed."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.services.retention import AWAY_SECONDS, DOUBT_SECONDS, JUMP_SECONDS, DoubtingClock

DAY = 86_400.0
BEGIN = 1_700_000_000.0


class Machine:
    """Time that passes, and a clock that may be set."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "last"
        self.passed = 0.0
        self.set_by = 0.0
        self.boots = 1
        self.booted_at = 0.0
        self.kept = self.started()

    def started(self) -> DoubtingClock:
        """Another server, on the machine that has run all the time."""
        boot = f"boot {self.boots}"
        return DoubtingClock(
            self.path, lambda: BEGIN + self.passed + self.set_by, lambda: self.passed - self.booted_at, lambda: boot
        )

    def booted(self) -> DoubtingClock:
        """Another server, on the machine that was just switched on."""
        self.boots += 1
        self.booted_at = self.passed
        return self.started()

    def after(self, seconds: float) -> float:
        """The time that is kept, since the beginning."""
        self.passed += seconds
        return self.kept.now() - BEGIN


def test_time_that_passes_is_believed_however_long_nobody_looks(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert [machine.after(seconds) for seconds in (1, 60, 100 * DAY)] == [1, 61, 61 + 100 * DAY]


def test_a_clock_set_forward_is_believed_after_an_hour_and_one_put_right_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.after(60)
    machine.set_by = 365 * DAY
    assert machine.after(60) == 120
    assert machine.after(DOUBT_SECONDS - 61) == DOUBT_SECONDS + 59
    machine.set_by = 0
    assert machine.after(0) == DOUBT_SECONDS + 59
    machine.set_by = 365 * DAY
    assert machine.after(1) == DOUBT_SECONDS + 60
    assert machine.after(DOUBT_SECONDS) == 2 * DOUBT_SECONDS + 60 + 365 * DAY


def test_a_machine_that_starts_with_a_wrong_clock_is_noticed_and_again_after_another_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.after(60)
    machine.set_by = 365 * DAY
    for number in (1, 2):
        machine.kept = machine.booted()
        assert machine.after(60) == pytest.approx(60 + 60 * number), number  # from the last look on
    assert machine.after(DOUBT_SECONDS) > 365 * DAY


def test_a_machine_that_was_off_for_a_while_goes_on_at_once_or_after_an_hour(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.after(60)
    machine.passed += AWAY_SECONDS - 60
    machine.kept = machine.booted()
    assert machine.after(1) == AWAY_SECONDS + 1
    machine.passed += 30 * DAY
    machine.kept = machine.booted()
    assert machine.after(1) < 2 * DAY
    assert machine.after(DOUBT_SECONDS) > 30 * DAY


def test_a_server_that_was_off_while_its_machine_ran_goes_on_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for _ in range(5):
        machine.kept = machine.started()
        assert machine.after(60) == machine.passed
        machine.passed += 30 * DAY
    machine.set_by = 2 * DAY
    machine.kept = machine.started()
    assert machine.after(0) == machine.passed


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [1, 10, 59])
def test_the_minutes_add_up_for_which_a_server_runs_on_a_machine_that_is_off_for_days(tmp_path: Path, minutes: int) -> None:
    machine = Machine(tmp_path)
    machine.after(60)
    behind: list[float] = []
    for _ in range(300):
        machine.passed += 2 * DAY
        machine.kept = machine.booted()
        for _ in range(minutes):
            machine.after(60)
        kept = machine.after(60)
        behind.append(machine.passed - kept)
    runs_for_an_hour = 60 // minutes + 2
    assert max(behind) <= 2 * runs_for_an_hour * 2.1 * DAY
    assert min(behind) >= 0


def test_a_clock_that_jumps_again_has_to_stand_by_that_for_an_hour_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.after(60)
    machine.set_by = 30 * DAY
    assert machine.after(0) == 60
    machine.after(DOUBT_SECONDS - 60)
    machine.set_by = 365 * DAY
    machine.kept = machine.booted()
    assert machine.after(0) == DOUBT_SECONDS
    assert machine.after(60) == DOUBT_SECONDS + 60 + 30 * DAY
    assert machine.after(DOUBT_SECONDS - 1) == pytest.approx(2 * DOUBT_SECONDS + 59 + 30 * DAY)
    assert machine.after(1) == 2 * DOUBT_SECONDS + 60 + 365 * DAY


def test_what_an_earlier_version_kept_is_understood(tmp_path: Path) -> None:
    (tmp_path / "last").write_text(f"{BEGIN - 100 * DAY:.0f}")
    assert Machine(tmp_path).after(5) == pytest.approx(5 - 100 * DAY)


def test_a_file_that_is_none_or_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "last").write_bytes(b"\xff nonsense")
    machine = Machine(tmp_path)
    machine.path.unlink()
    machine.path.mkdir()
    assert machine.after(5) == 5


step = st.tuples(st.floats(0, 2 * DOUBT_SECONDS), st.floats(-10 * DAY, 1000 * DAY), st.sampled_from(["", "", "started", "booted"]))


@pytest.mark.slow
@given(st.lists(step, max_size=30))
def test_whatever_is_done_to_the_clock_the_time_is_never_ahead_of_what_the_clock_has_stood_by_for_an_hour(
    steps: list[tuple[float, float, str]],
) -> None:
    with TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        machine.after(0)
        believed = 0.0  # by how much the time was ahead of the real one, at the last look
        looks: list[tuple[float, float]] = [(0.0, 0.0)]
        for seconds, set_by, before in steps:
            machine.set_by = set_by
            if before:
                machine.kept = machine.started() if before == "started" else machine.booted()
            at_once = AWAY_SECONDS if before == "booted" else JUMP_SECONDS
            ahead = machine.after(seconds) - machine.passed
            looks.append((machine.passed, set_by))
            an_hour_ago = machine.passed - DOUBT_SECONDS + 1
            stood_by = [min(by for _, by in looks[n:]) for n, (at, _) in enumerate(looks) if at <= an_hour_ago]
            assert ahead <= max(believed + at_once, *stood_by, believed) + JUMP_SECONDS + 1
            assert ahead <= max(set_by, believed) + 1
            believed = ahead
