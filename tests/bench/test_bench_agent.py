"""`understudy bench-agent`: the real program on small folders of tasks, with the scripted model and with commands as agents."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import LONGEST, Ended, Program

HELLO = 'prompt = "Write hello to hello.txt."\ncheck = "grep -qx hello hello.txt && test -f hidden"\n[hidden]\n"hidden" = "x"\n'
NEVER = 'prompt = "Do what cannot be done."\ncheck = "false"\n'
WRITES: dict[str, Any] = {"call": "shell", "arguments": {"command": ["sh", "-c", "echo hello > hello.txt"]}}
USED = {"usage": {"input": 100, "output": 20}}
SH = "writer=sh -c 'cat > prompt.txt; echo hello > hello.txt'"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    home, project = tmp_path / "home" / ".codex", tmp_path / "project"
    home.mkdir(parents=True)
    (project / "tasks").mkdir(parents=True)
    program = Program(home, project)
    program.script([WRITES, USED], {"say": "Written."})
    write(program, hello=HELLO, never=NEVER)
    return program


def write(program: Program, **tasks: str) -> None:
    for name, text in tasks.items():
        (program.cwd / "tasks" / f"{name}.toml").write_text(text)


def bench(program: Program, *words: str) -> Ended:
    return program.run("bench-agent", "--tasks", "tasks", *words)


def results(program: Program) -> dict[str, Any]:
    return json.loads((program.cwd / "results.json").read_text())


def solved(program: Program) -> dict[tuple[str, str, int], bool]:
    return {(run["agent"], run["task"], run["repetition"]): run["solved"] for run in results(program)["runs"]}


@pytest.mark.slow
def test_ours_and_another_agent_are_judged_in_pairs(program: Program) -> None:
    ended = bench(program, "--agent", SH, "--json", "results.json", "--jobs", "2")
    assert ended.code == 0, ended.err
    ours, theirs = "understudy", "writer"
    assert solved(program) == {
        (ours, "hello", 1): True,
        (theirs, "hello", 1): True,
        (ours, "never", 1): False,
        (theirs, "never", 1): False,
    }
    first, second = results(program)["summary"]["agents"]
    assert (first["tokens"], first["solved_runs"], first["interval"]) == (240, 1, [0.0945, 0.9055])
    assert "tokens" not in second
    (compared,) = results(program)["summary"]["comparisons"]
    assert (compared["tasks"], compared["difference"], compared["p_value"]) == (2, 0.0, 1.0)
    assert "understudy  1 of 2  50%" in ended.out
    assert "Newcombe" in ended.out


@pytest.mark.slow
def test_results_are_continued_and_what_is_in_them_is_not_run_again(program: Program) -> None:
    counted = f"count=sh -c 'echo run >> {program.cwd}/count'"
    words = ("--without-ours", "--agent", counted, "--json", "results.json")
    assert bench(program, *words, "--only", "never").code == 0
    assert bench(program, *words).code == 0
    again = bench(program, *words, "--repetitions", "2")
    assert again.code == 0
    assert "2 of 4 runs are in" in again.err
    assert (program.cwd / "count").read_text().count("run") == 4
    assert len(results(program)["runs"]) == 4


@pytest.mark.slow
def test_a_task_that_has_changed_is_not_continued(program: Program) -> None:
    words = ("--without-ours", "--agent", SH, "--json", "results.json")
    assert bench(program, *words).code == 0
    write(program, hello=HELLO.replace("Write", "Please write"))
    ended = bench(program, *words)
    assert ended.code == 1
    assert "the task hello has changed" in ended.err
    other = bench(program, "--without-ours", "--agent", "writer=cat", "--json", "results.json")
    assert "the agent writer was" in other.err


@pytest.mark.slow
def test_our_agent_cannot_read_hidden_tests(program: Program) -> None:
    look = f"cat {program.cwd}/tasks/hello.toml > seen.txt 2> error.txt; echo hello > hello.txt"
    program.script({"call": "shell", "arguments": {"command": ["sh", "-c", look]}}, {"say": "Looked."})
    ended = bench(program, "--only", "hello", "--keep", "kept")
    assert ended.code == 0, ended.err
    work = program.cwd / "kept" / "understudy" / "hello-1" / "work"
    assert ((work / "hello.txt").read_text(), (work / "seen.txt").read_text()) == ("hello\n", "")
    assert "hidden" not in [path.name for path in work.iterdir()]
    assert (work.parent / "judged" / "hidden").exists()
    assert program.run("conversations").out == program.run("conversations", "--archived").out, "nothing is in the store"


@pytest.mark.slow
def test_a_prompt_goes_in_as_an_argument_or_on_standard_input(program: Program) -> None:
    command = "writer=sh -c 'printf %s \"$1\" > prompt.txt; echo hello > hello.txt' sh {prompt}"
    for agent, name in ((command, "by argument"), (SH, "by input")):
        kept = program.cwd / name
        assert bench(program, "--without-ours", "--agent", agent, "--only", "hello", "--keep", str(kept)).code == 0
        assert (kept / "writer" / "hello-1" / "work" / "prompt.txt").read_text() == "Write hello to hello.txt."


@pytest.mark.slow
def test_a_task_that_runs_out_of_time_is_not_solved_and_leaves_nothing_running(program: Program) -> None:
    write(program, slow='prompt = "Wait."\ncheck = "true"\nseconds = 1\n')
    program.script([WRITES, USED], {"hang": True})
    sleeper = f"sleeper=sh -c 'echo $$ > {program.cwd}/pid; sleep 600 & wait'"
    ended = bench(program, "--only", "slow", "--agent", sleeper, "--json", "results.json")
    assert ended.code == 0, ended.err
    runs = {run["agent"]: run for run in results(program)["runs"]}
    assert [(run["ending"], run["solved"]) for run in runs.values()] == [("timeout", False)] * 2
    if (program.cwd / "pid").exists():  # it was started just before its time was up, on a machine that is very slow
        assert not Path("/proc", (program.cwd / "pid").read_text().strip()).exists()
    assert "1 ran out of time" in ended.out


@pytest.mark.slow
def test_a_model_that_fails_is_told_with_its_reason(program: Program) -> None:
    program.script({"fail": "the key is wrong"})
    ended = bench(program, "--only", "hello", "--json", "-")
    assert ended.code == 0
    run = json.loads(ended.out)["runs"][0]
    assert (run["ending"], run["solved"]) == ("failed", False)
    assert "the key is wrong" in run["reason"]
    assert "1 failed, mostly: the key is wrong" in ended.err


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_done(program: Program) -> None:
    """The second task waits for ever; the first is in the file when Ctrl-C comes."""
    waits = f"waits=sh -c 'grep -q cannot && touch {program.cwd}/waiting && sleep 600'"
    words = ["bench-agent", "--tasks", "tasks", "--without-ours", "--agent", waits, "--json", "results.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", *words], cwd=program.cwd, env=program.environment(), stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + LONGEST
        while not (program.cwd / "waiting").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST) == 130
    finally:
        process.kill()
        process.communicate()
    assert solved(program) == {("waits", "hello", 1): False}


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("--tasks", "none"), 1, "cannot read the tasks"),
        (("--repetitions", "0"), 2, "at least 1"),
        (("--jobs", "x"), 2, "not a whole number"),
        (("--without-ours",), 2, "leaves nobody"),
        (("--agent", "no-such-program {prompt}"), 1, "'no-such-program' is not there"),
        (("--agent", "cat 'x"), 1, "not a command that a shell would understand"),
        (("--agent", "cat {model}"), 1, "name one with --model"),
        (("--agent", "cat", "--agent", "cat"), 1, "two agents are called cat"),
        (("--agent", "understudy=cat"), 1, "two agents are called understudy"),
        (("--only", "x*"), 1, "no task is called 'x*'"),
        (("--keep", "tasks/kept"), 1, "within the folder of the tasks"),
        (("--json", "tasks"), 1, "it is a folder"),
        (("--json", "tasks/hello.toml"), 1, "holds no results"),
        (("-c", "sandbox_mode=none"), 1, "sandbox_mode"),
        (("-c", "model_provider=nobody"), 1, "nobody"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_so(program: Program, words: tuple[str, ...], code: int, complaint: str) -> None:
    ended = program.call("bench-agent", "--tasks", "tasks", *words)
    assert ended.code == code
    assert complaint in ended.err
    assert ended.out == ""


def test_the_tasks_are_listed(program: Program) -> None:
    assert program.call("bench-agent", "--tasks", "tasks", "--list").out == "hello\nnever\n"
