"""What the user's program is told of a turn, and how many of them run for how long."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.scenes import is_alive
from understudy.engine.services.notifying import (
    AT_ONCE,
    MOST_WAITING,
    CompletedTurn,
    Notifier,
    NotifyProgram,
    argument_for,
    find_program,
)
from understudy.testing.waiting import WAIT_SECONDS

LONGEST_ARGUMENT = 128 * 1024  # of Linux


# Texts as what they repeat and how often: hypothesis does not like to show long ones.
texts = st.tuples(st.text(max_size=8), st.sampled_from((1, 100, 40_000)))


@settings(deadline=None, max_examples=40)
@given(st.lists(texts, max_size=6), texts | st.none())
def test_the_argument_is_json_that_fits_and_has_the_newest_message(
    said: list[tuple[str, int]], answered: tuple[str, int] | None
) -> None:
    inputs = [unit * count for unit, count in said]
    answer = None if answered is None else answered[0] * answered[1]
    argument = argument_for(CompletedTurn("thread", "1", "/work", tuple(inputs), answer))
    told = json.loads(argument)
    assert len(argument) < LONGEST_ARGUMENT
    assert b"\0" not in argument
    assert bool(told["input-messages"]) == bool(inputs)
    if sum(map(len, inputs)) + len(answer or "") < 10_000:
        assert (told["input-messages"], told["last-assistant-message"]) == (inputs, answer)
    elif inputs:
        assert told["input-messages"][-1][:100] == inputs[-1][:100]


def test_a_secret_is_hidden_before_anything_is_cut() -> None:
    text = "x" * 16_370 + "the-very-secret-word" + "y" * 40_000
    turn = CompletedTurn("thread", "1", "/work", (text,), text)
    argument = argument_for(turn, lambda said: said.replace("the-very-secret-word", "[redacted]")).decode()
    assert "the-very" not in argument
    assert "secret-word" not in argument


def script(tmp_path: Path, body: str) -> NotifyProgram:
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return NotifyProgram((str(path),), tmp_path, lambda: ())


def numbers_in(folder: Path) -> set[int]:
    return {int(name) for name in os.listdir(folder) if name.isdigit()}


def wait_until(folder: Path, count: int) -> set[int]:
    end = time.monotonic() + WAIT_SECONDS
    while len(found := numbers_in(folder)) < count:
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def test_few_run_at_once_and_what_is_too_much_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = script(tmp_path, f"touch {tmp_path}/$$; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 1")
    turn = CompletedTurn("thread", "1", "/work", (), None)
    notifier = Notifier(os.environ)
    for _ in range(AT_ONCE):
        notifier.tell(program, turn)
    wait_until(tmp_path, AT_ONCE)
    for _ in range(MOST_WAITING + 3):
        notifier.tell(program, turn)
    notifier.close(0)
    assert len(numbers_in(tmp_path)) == AT_ONCE
    [complaint] = caplog.records
    assert complaint.message == f"`notify` was not called every time: {AT_ONCE} calls of such programs are still running"
    (tmp_path / "go").touch()
    wait_until(tmp_path, AT_ONCE + MOST_WAITING)
    notifier.close()


def test_a_program_is_ended_with_all_it_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = script(tmp_path, f"trap '' TERM; sh -c 'touch {tmp_path}/$$; exec sleep 1000' & touch {tmp_path}/$$; wait")
    for seconds in (0.5, 5, 50):  # until the program has begun before its time is over: on a busy machine that takes longer
        Notifier(os.environ, seconds=seconds).tell(program, CompletedTurn("thread", "1", "/work", (), None))
        end = time.monotonic() + seconds + WAIT_SECONDS
        while not caplog.records:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert caplog.records[0].message == f"`notify` was ended after {seconds} seconds"
        if numbers_in(tmp_path):
            break
        caplog.clear()
    while any(map(is_alive, numbers_in(tmp_path))):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert numbers_in(tmp_path)


def test_programs_are_found_where_the_user_has_them(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    program = there / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program("program", tmp_path, f".::{there}") == str(program)
    assert find_program("there/program", tmp_path, "") == str(program)
    assert find_program(str(program), Path("/"), "") == str(program)
    assert find_program("there", Path("/"), str(tmp_path)) is None
    assert find_program("program", there, ".:") is None
    assert find_program("", there, str(there)) is None
