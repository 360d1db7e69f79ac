"""`understudy chat` as one more viewer: of what is over, of what runs elsewhere, and after a process was killed."""

import asyncio
import os

import pytest

from tests.cli.chat.screens import ENTER, Terminal
from tests.cli.chat.test_questions import ASKING, asked
from tests.cli.program import Program
from understudy.testing import McpProcess

READY = "  scripted ·"
READS = {"call": "shell", "arguments": {"command": ["sh", "-c", "echo begun; read x < go"]}}


async def test_a_conversation_is_taken_up_with_all_that_was_said(program: Program) -> None:
    program.script({"say": "Hello **you**."}, {"say": "Again."})
    one = await program.begin("Greet me")
    with Terminal(program, "chat", one[:8]) as terminal:
        terminal.wait("● Hello you.")
        terminal.wait(READY)
        terminal.type("And again" + ENTER)
        terminal.wait_for_turn("● Again.")
    assert program.json("conversations", "--json")[0]["message_count"] == 4


@pytest.mark.slow
async def test_a_turn_of_another_process_is_watched_live_and_steered(program: Program) -> None:
    program.script(READS, {"say": "All done."})
    os.mkfifo(program.cwd / "go")
    async with McpProcess(cwd=program.cwd, home=program.home) as client:
        call = client.call_tool("codex", {"prompt": "Begin", "cwd": str(program.cwd)})
        await client.event("exec_command_begin", call)
        thread = await asyncio.to_thread(_first_conversation, program)
        with Terminal(program, "chat", thread) as terminal:
            await asyncio.to_thread(terminal.wait, "$ sh -c")
            await asyncio.to_thread(terminal.wait, "working")
            terminal.type("And this" + ENTER)
            await asyncio.to_thread(terminal.wait_until_sent, "And this")
            (program.cwd / "go").write_text("on\n")
            await asyncio.to_thread(terminal.wait, "● All done.")
        await call


@pytest.mark.slow
def test_two_chats_on_one_conversation_see_the_same_and_one_of_them_answers(program: Program) -> None:
    program.script(ASKING, {"say": "It is made."})
    with Terminal(program, "chat") as first:
        asked(first)
        with Terminal(program, "chat", _first_conversation(program)) as second:
            second.wait("[y] yes")
            second.type("y")
            second.wait("● It is made.")
            first.wait("● It is made.", gone="[y]")
            second.type("From the second" + ENTER)
            first.wait("❯ From the second")
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_after_kill_9_of_the_chat_everything_is_there_and_the_question_is_asked_again(program: Program) -> None:
    program.script({"say": "Hello."}, ASKING, {"say": "It is made."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Greet me" + ENTER)
        terminal.wait("● Hello.")
        asked(terminal)
        terminal.kill()
    with Terminal(program, "chat", "--last") as terminal:
        terminal.wait("[y] yes")
        assert "● Hello." in terminal.text
        assert terminal.text.count("Allow the agent to run") == 1
        terminal.type("y")
        terminal.wait("● It is made.")
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_a_turn_whose_process_is_killed_is_taken_over_by_the_chat_that_watches(program: Program) -> None:
    program.script(ASKING, {"say": "It is made."})
    with Terminal(program, "chat") as owner:
        asked(owner)
        with Terminal(program, "chat", _first_conversation(program)) as watcher:
            watcher.wait("[y] yes")
            owner.kill()
            watcher.type("y")
            watcher.wait("● It is made.")
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_a_command_cut_off_by_the_death_of_its_process_is_closed_as_interrupted(program: Program) -> None:
    program.script(READS, {"say": "I know."})
    os.mkfifo(program.cwd / "go")
    with Terminal(program, "chat") as owner:
        owner.wait(READY)
        owner.type("Begin" + ENTER)
        owner.wait("│ begun")
        with Terminal(program, "chat", _first_conversation(program)) as watcher:
            watcher.wait("working")
            owner.kill()
            watcher.wait(READY, gone="working")
            watcher.type("What happened?" + ENTER)
            watcher.wait("● I know.")


@pytest.mark.slow
def test_a_conversation_that_is_deleted_while_it_is_watched_ends_the_chat_with_a_word(program: Program) -> None:
    program.script({"say": "Hello."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Greet me" + ENTER)
        terminal.wait_for_turn("● Hello.")
        assert program.run("conversations", "delete", "-y", _first_conversation(program)).code == 0
        assert terminal.wait_for_end() == 1
        assert "understudy: the conversation was deleted" in terminal.text


def _first_conversation(program: Program) -> str:
    return program.json("conversations", "--json")[0]["conversation_id"]
