"""The slash commands of `understudy chat`, and what is kept of a queue."""

import os

import pytest

from tests.cli.chat.screens import ENTER, ESC, TAB, Terminal
from tests.cli.program import Program

READY = "  scripted ·"
WAITS = {"call": "shell", "arguments": {"command": ["sh", "-c", "echo begun; read x < go"]}}


def conversations(program: Program) -> list[str]:
    return [entry["conversation_id"] for entry in program.json("conversations", "--json")]


def test_model_and_approvals_change_what_the_next_message_runs_with(program: Program) -> None:
    program.script({"say": "One."}, {"say": "Two."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("/approvals" + ENTER)
        terminal.wait("asked: on-request")
        terminal.type("/approvals never read-only" + ENTER)
        terminal.wait("read-only · never")
        terminal.type("/model other-model" + ENTER)
        terminal.wait("  other-model ·")
        terminal.type("Hello" + ENTER)
        terminal.wait_for_turn("● One.")
        terminal.wait("  other-model · read-only · never")
        terminal.type("/approvals sometimes" + ENTER)
        terminal.wait("sometimes is none of")


@pytest.mark.slow
def test_a_plan_is_told_and_shown_again(program: Program) -> None:
    plan = [{"step": "Look", "status": "completed"}, {"step": "Mend", "status": "in_progress"}]
    program.script({"call": "update_plan", "arguments": {"plan": plan}}, {"say": "Planned."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Plan" + ENTER)
        terminal.wait_for_turn("● Planned.")
        terminal.type("/plan" + ENTER)
        terminal.wait(lambda text: text.count("▸ Mend") == 2)


@pytest.mark.slow
def test_tokens_are_told_in_the_status_and_by_cost(program: Program) -> None:
    program.script([{"say": "Hello."}, {"usage": {"input": 1200, "output": 34}}])
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Hello" + ENTER)
        terminal.wait("  scripted · 1.2k tokens")
        terminal.type("/cost" + ENTER)
        terminal.wait("1.2k tokens (1.2k in, 34 out)")


@pytest.mark.slow
def test_one_goes_on_in_a_copy_in_another_conversation_and_in_a_new_one(program: Program) -> None:
    program.script({"say": "One."}, {"say": "Two."})  # in each conversation
    with Terminal(program, "chat", lines=60) as terminal:
        terminal.wait(READY)
        terminal.type("Hello" + ENTER)
        terminal.wait_for_turn("● One.")
        first = conversations(program)[0]
        terminal.type("/fork" + ENTER)
        terminal.wait("this is a copy")
        terminal.type("in the copy" + ENTER)
        terminal.wait_for_turn("❯ in the copy\n\n● Two.")
        terminal.type("/resume" + ENTER)
        terminal.wait(f"   1  {first[:8]}  Hello")
        terminal.type("/resume 1" + ENTER)
        terminal.wait(f"this is conversation {first}")
        terminal.type("in the first" + ENTER)
        terminal.wait_for_turn("❯ in the first\n\n● Two.")
        terminal.type("/new" + ENTER)
        terminal.wait("a new conversation")
        terminal.type("in a new one" + ENTER)
        terminal.wait_for_turn("❯ in a new one\n\n● One.")
        terminal.type("/quit" + ENTER)
        assert terminal.wait_for_end() == 0
        assert f"To go on: understudy chat {conversations(program)[0]}" in terminal.text, "the one that was left"
    assert len(conversations(program)) == 3
    assert "in the copy" not in program.run("show", first).out
    assert "in the first" in program.run("show", first).out


@pytest.mark.slow
def test_a_conversation_is_summed_up(program: Program) -> None:
    program.script({"say": "One."}, {"say": "All that was."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Hello" + ENTER)
        terminal.wait_for_turn("● One.")
        terminal.type("/compact" + ENTER)
        terminal.wait("context compacted")


@pytest.mark.slow
def test_a_budget_asks_before_a_turn_uses_more(program: Program) -> None:
    program.script({"call": "shell", "arguments": {"command": ["echo", "one"]}}, {"say": "Over it."})
    with Terminal(program, "chat", "--budget", "requests=1") as terminal:
        terminal.wait(READY)
        terminal.type("Go" + ENTER)
        terminal.wait("[y] yes, raise it")
        terminal.type("y")
        terminal.wait("● Over it.")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_what_is_queued_is_not_lost_and_waits_for_a_word(program: Program, how: str) -> None:
    program.script(WAITS, {"say": "Now it came."})
    os.mkfifo(program.cwd / "go")
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("First" + ENTER)
        terminal.wait("│ begun")
        terminal.type("Later" + TAB)
        terminal.wait("queued: Later")
        if how == "interrupted":
            terminal.type(ESC)
            terminal.wait("Enter on an empty line sends it")
            terminal.type(ENTER)
            terminal.wait("● Now it came.", gone="queued:")
            return
        terminal.kill()
    with Terminal(program, "chat", "--last") as terminal:
        terminal.wait("queued: Later", gone="working")
        terminal.wait("Enter on an empty line sends it")
        terminal.type(ENTER)
        terminal.wait("● Now it came.", gone="queued:")
    assert list((program.home / "understudy" / "chat-queue").iterdir()) == []


@pytest.mark.slow
def test_a_command_that_outlives_its_turn_is_told_when_it_goes_on_and_when_it_ends(program: Program) -> None:
    command = {"cmd": "echo begun; read x < go; echo over", "yield_time_ms": 250}
    program.script({"call": "exec_command", "arguments": command}, {"say": "It runs."})
    os.mkfifo(program.cwd / "go")
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Start it" + ENTER)
        terminal.wait_for_turn("● It runs.")
        assert "└ goes on, as session" in terminal.text
        (program.cwd / "go").write_text("on\n")
        terminal.wait("│ over")
        terminal.wait("└ exit 0")


@pytest.mark.slow
def test_undo_takes_back_what_a_turn_has_patched(program: Program) -> None:
    patch = "*** Begin Patch\n*** Update File: old.txt\n@@\n-one\n+two\n*** End Patch\n"
    program.script({"call": "apply_patch", "arguments": {"input": patch}}, {"say": "Patched."})
    (program.cwd / "old.txt").write_text("one\n")
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Patch it" + ENTER)
        terminal.wait_for_turn("● Patched.")
        assert (program.cwd / "old.txt").read_text() == "two\n"
        terminal.type("/undo" + ENTER)
        terminal.wait("took back the changes of turn")
        assert (program.cwd / "old.txt").read_text() == "one\n"
        terminal.type("/undo" + ENTER)
        terminal.wait("✗ ")
