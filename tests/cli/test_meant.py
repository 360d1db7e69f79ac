"""Which conversation a command means: an id, or --last for the one that was active last in this folder."""

import os
from pathlib import Path

import pytest

from tests.cli.program import Program
from understudy.cli.commands import GROUPS, build_parser


@pytest.mark.slow
async def test_last_is_the_newest_conversation_of_this_folder(program: Program, tmp_path: Path) -> None:
    program.script({"say": "First."}, {"say": "Second."})
    mine = await program.begin("Mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    await program.begin("Elsewhere", cwd=str(elsewhere))
    assert mine in program.call("show", "--last").out
    assert mine in program.call("export", "--last").out
    by_id = program.run("undo", mine, "1")
    assert by_id.code == 1
    assert program.run("undo", "--last", "1") == by_id
    assert program.run("resume", "--last", "Once more").code == 0
    assert "Once more" in program.call("show", mine).out


@pytest.mark.parametrize("command", ["show", "undo", "resume", "export", "compact"])
def test_without_an_id_or_with_both_it_says_what_to_give(program: Program, command: str) -> None:
    ended = program.call(command)
    assert (ended.code, f"{command}: which conversation? Give its id, or --last" in ended.err) == (2, True), ended.err
    ended = program.call(command, "--last")
    assert (ended.code, f"no conversation has worked in {os.path.realpath(program.cwd)} yet" in ended.err) == (1, True), ended.err
    words = ["6d53", "1"] if command in ("undo", "resume") else ["6d53"]
    ended = program.call(command, "--last", *words)
    assert (ended.code, f"{command}: give an id or --last, not both" in ended.err) == (2, True), ended.err


def test_every_command_stands_under_one_heading() -> None:
    named = [name for names in GROUPS.values() for name in names]
    parser = build_parser()
    assert sorted(named) == sorted({one.prog.split()[-1] for one in parser.commands().values()})
    text = parser.format_help()
    assert "\ncommands:\n" not in text
    assert [heading for heading in GROUPS if f"\n{heading}:\n" in text] == list(GROUPS)


def test_version_is_a_word_too(program: Program) -> None:
    assert program.call("version") == program.call("--version")


async def test_a_patch_that_did_not_apply_is_shown_as_a_patch(program: Program) -> None:
    patch = "*** Begin Patch\n*** Update File: nope.txt\n@@\n-a\n+b\n*** End Patch"
    program.script({"call": "apply_patch", "arguments": {"input": patch}, "id": "c1"}, {"say": "It is not there."})
    shown = program.call("show", await program.begin("Change it")).out
    assert "± apply_patch\n  │ *** Begin Patch\n  │ *** Update File: nope.txt\n" in shown
    assert '{"input"' not in shown
