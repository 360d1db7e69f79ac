"""The budget of counts: what is over a limit is found, and a limit goes up only with a reason in the commit that raised it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks.counting.budget import (
    ALLOWANCES,
    FILE,
    Budget,
    allowance,
    compare,
    dump,
    from_found,
    least_of,
    limit_of,
    load,
    merged,
    raised,
)
from benchmarks.counting.measure import NAMES
from benchmarks.counting.trace import Trace
from benchmarks.counting.trailers import PATH, raises, uncommitted

REPOSITORY = Path(__file__).resolve().parents[2]
FOUND = {"reply": {"python_calls": 600.0, "frames": 11.0, "sys.futex": 5.0}, "shell": {"sys.execve": 1.0}}

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed (apt-get install git)")


# -- our own history


def test_every_line_that_was_raised_gives_its_reason() -> None:
    """Reads what history there is here: none in an unpacked source tree, the last commits in a shallow clone."""
    found = raises(REPOSITORY)
    if found is None:
        pytest.skip("this is no git checkout: there is no history to look at")
    assert [str(each) for each in found if not each.reason] == []


def test_the_file_is_as_the_tool_writes_it_and_has_every_scenario() -> None:
    budget = load()
    assert FILE.read_text() == dump(budget)
    assert set(budget) == set(NAMES)
    assert all(budget[name].get("python_calls") and budget[name].get("c_calls") for name in NAMES)


# -- comparing


def test_what_costs_as_much_as_before_is_within_its_limits() -> None:
    budget = from_found(FOUND)
    assert compare(budget, FOUND) == ([], [])
    assert budget["reply"]["frames"] == {"limit": 11.0, "exact": True}
    assert budget["reply"]["python_calls"] == {"limit": 618, "exact": False}


@pytest.mark.parametrize(
    ("scenario", "count", "value"),
    [("reply", "python_calls", 619.0), ("reply", "frames", 12.0), ("shell", "sys.execve", 2.0), ("reply", "sys.futex", 15.0)],
)
def test_one_count_over_its_limit_is_named(scenario: str, count: str, value: float) -> None:
    [finding], lower = compare(from_found(FOUND), {scenario: {count: value}})
    assert str(finding).startswith(f"{scenario}.{count}: {value:g}, limit ")
    assert lower == []


@pytest.mark.parametrize(
    ("lower", "calls", "frames", "futex"),
    [(None, 721, 10.0, 9.2), (["*"], 618, 10.0, 9.2), (["python_calls", "sys.*"], 618, 11.0, 9.2)],
)
def test_limits_follow_what_was_counted_or_only_those_that_are_named_go_down(
    lower: list[str] | None, calls: int, frames: float, futex: float
) -> None:
    counted = from_found({"reply": {"python_calls": 700.0, "frames": 10.0, "sys.futex": 2.0}})
    after = merged(from_found(FOUND), counted, lower=lower)
    assert {count: limit["limit"] for count, limit in after["reply"].items()} == {
        "python_calls": calls,
        "frames": frames,
        "sys.futex": futex,
    }
    assert after["shell"] == from_found(FOUND)["shell"]


def test_what_the_scheduler_has_a_part_in_is_the_least_of_several_runs() -> None:
    budget = from_found(FOUND)
    busy = {"reply": {**FOUND["reply"], "sys.futex": 50.0, "frames": 12.0}}
    over, _ = compare(budget, busy)
    assert {each.count: each.may_be_chance for each in over} == {"sys.futex": True, "frames": False}
    over, _ = compare(budget, least_of(busy, FOUND))
    assert over == []
    assert least_of(busy, {}) == busy


def test_what_became_much_cheaper_is_said_and_is_no_failure() -> None:
    over, [lower] = compare(from_found(FOUND), {"reply": {"python_calls": 300.0}})
    assert (over, lower.count) == ([], "python_calls")


def test_a_throttle_is_over_the_limit_of_any_tool() -> None:
    """A rest of 10 ms after each 256 KB: four timers and 40 ms for each MB."""
    for tool in ("shell", "exec_command"):
        assert load()[f"output_10mb_{tool}"]["timers_a_mb"]["limit"] < 4
        assert load()[f"output_10mb_{tool}"]["timer_ms_a_mb"]["limit"] < 38


def test_each_allowance_is_needed_by_some_line() -> None:
    used = [allowance(scenario, count) for scenario, counts in load().items() for count in counts]
    assert [each for each in ALLOWANCES if each not in used] == []


def test_no_limit_of_calls_is_wider_than_it_says() -> None:
    wide = {each.scenario for each in ALLOWANCES if each.count == "*_calls" and each.factor > 1.08}
    assert wide == {"crowd_reply", "output_*"}


# -- the trace


def test_system_calls_are_counted_between_marks_and_without_the_thread_that_sets_them(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(
        '7  execve("/bin/x", [], 0x1) = 0\n'
        '9  recvfrom(3, "a", 1) = 1\n'
        '9  access("/budget/a", F_OK) = -1 ENOENT\n'
        "7  futex(0x1, FUTEX_WAIT <unfinished ...>\n"
        "8  fdatasync(4) = 0\n"
        "7  <... futex resumed>) = 0\n"
        '9  recvfrom(3, "b", 1) = 1\n'
        "+++ exited with 0 +++\n"
        '9  access("/budget/b", F_OK) = -1 ENOENT\n'
        "7  futex(0x1, FUTEX_WAKE) = 0\n"
    )
    read = Trace(trace)
    assert read.between("a", "b") == {"futex": 1, "fdatasync": 1}
    assert read.between("", "a") == {"execve": 1}


# -- history


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        (folder / "benchmarks").mkdir()

    def git(self, *words: str) -> str:
        names = {f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
        return subprocess.run(
            ["git", *words], cwd=self.folder, env=env, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def write(self, **limits: float | None) -> None:
        """`reply_frames=3`; None takes the line out."""
        file = self.folder / PATH
        budget: Budget = json.loads(file.read_text()) if file.exists() else {}
        for name, value in limits.items():
            scenario, _, count = name.partition("_")
            if value is None:
                del budget[scenario][count]
            else:
                budget.setdefault(scenario, {})[count] = {"limit": value, "exact": True}
        file.write_text(dump(budget))

    def commit(self, message: str, **limits: float | None) -> None:
        self.write(**limits)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def told(self, folder: Path | None = None) -> list[tuple[str, str]]:
        found = raises(folder or self.folder)
        assert found is not None
        return [(each.line, each.reason) for each in found]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout") if (tmp_path / "checkout").mkdir() is None else None
    assert made is not None
    made.commit("Begin", reply_frames=10, shell_frames=20)
    return made


@needs_git
def test_a_line_that_goes_up_needs_its_trailer(checkout: Checkout) -> None:
    checkout.commit("Say more", reply_frames=12)
    assert checkout.told() == [("reply.frames", "")]
    checkout.git("commit", "-q", "--amend", "-m", "Say more\n\nWhy.\n\nBudget: reply.frames clients asked for it")
    assert checkout.told() == [("reply.frames", "clients asked for it")]


@needs_git
@pytest.mark.parametrize(
    ("trailer", "covered"),
    [
        ("Budget: reply.* all of it", True),
        ("Budget: *.frames all of it", True),
        ("Budget: shell.frames another line", False),
        ("Budget: reply.frames", False),
        ("Budget: reply.frames   ", False),
        ("budget: reply.frames in small letters", False),
        ("  Budget: reply.frames not at the beginning of its line", False),
    ],
)
def test_a_trailer_names_the_line_and_gives_a_reason(checkout: Checkout, trailer: str, covered: bool) -> None:
    checkout.commit(f"Say more\n\n{trailer}", reply_frames=12)
    assert [bool(reason) for _, reason in checkout.told()] == [covered]


@needs_git
def test_what_goes_down_or_is_new_needs_none_and_what_goes_away_does(checkout: Checkout) -> None:
    checkout.commit("Say less", reply_frames=8, list_frames=3)
    assert checkout.told() == []
    checkout.commit("Count it no more", shell_frames=None)
    assert checkout.told() == [("shell.frames", "")]


@needs_git
def test_a_merge_raises_nothing_that_one_of_its_sides_had(checkout: Checkout) -> None:
    checkout.git("switch", "-q", "-c", "side")
    checkout.commit("Raise\n\nBudget: reply.frames a reason", reply_frames=12)
    checkout.git("switch", "-q", "main")
    checkout.commit("Go on", list_frames=3)
    checkout.git("merge", "-q", "--no-edit", "-X", "theirs", "side")
    assert checkout.told() == [("reply.frames", "a reason")]


@needs_git
def test_a_shallow_clone_and_a_source_tree_have_less_to_tell_and_do_not_fail(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("Say more", reply_frames=12)
    checkout.commit("Something else", list_frames=3)
    shallow = tmp_path / "shallow"
    checkout.git("clone", "-q", "--depth", "1", f"file://{checkout.folder}", str(shallow))
    assert checkout.told(shallow) == []
    whole = tmp_path / "whole"
    checkout.git("clone", "-q", f"file://{checkout.folder}", str(whole))
    assert checkout.told(whole) == [("reply.frames", "")]
    shutil.rmtree(whole / ".git")
    assert raises(whole) is None


@needs_git
def test_what_is_raised_and_not_committed_is_seen_too(checkout: Checkout) -> None:
    assert uncommitted(checkout.folder) == []
    checkout.write(reply_frames=11)
    assert uncommitted(checkout.folder) == ["reply.frames"]


def test_a_line_that_is_not_exact_any_more_is_raised() -> None:
    before: Budget = {"reply": {"frames": {"limit": 11, "exact": True}}}
    after: Budget = {"reply": {"frames": {"limit": 11, "exact": False}}}
    assert raised(before, after) == ["reply.frames"]
    assert raised(after, before) == []
    assert limit_of("reply", "modules", 300)["exact"]
