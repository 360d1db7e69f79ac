"""`understudy verify`: what it says of whole and broken conversations, to people and to programs."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.cli.program import Ended, Program
from tests.store.records import SUMMARY, new_id, opened
from understudy.protocol.records import ApprovalDecided, Entry
from understudy.store.log import Batch
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import HOLD, McpProcess, ScriptedModel, deltas


def change(program: Program, statement: str, *values: object) -> None:
    path = program.home / "understudy" / "conversations.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute(statement, values)


def told(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


def test_where_there_are_no_conversations_nothing_is_made(program: Program) -> None:
    ended = program.call("verify")
    assert (ended.code, ended.out) == (0, "There are no conversations yet.\n")
    assert program.call("verify", "0199").code == 2
    assert not list(program.home.iterdir())


async def test_what_the_program_wrote_is_whole_and_a_change_is_named(program: Program) -> None:
    program.script({"say": "Done."})
    one, other = await program.begin("One"), await program.begin("Other")
    whole = program.call("verify", one[:8], "--json")
    (fact,) = told(whole)
    assert (whole.code, fact["whole"], fact["broken"], fact["sealed"]) == (0, True, None, fact["records"])
    text = program.call("verify")
    assert text.code == 0
    assert f"{one}  whole, {fact['records']} records, sealed, head {fact['head']}\n" in text.out
    assert text.out.endswith("2 conversations: all whole\n")
    noted = program.call("verify", one, "--head", fact["head"].upper())
    assert (noted.code, f"the digest given is that of record {fact['records']}" in noted.out) == (0, True)

    change(program, "UPDATE records SET at = at + 1 WHERE seq = 3")
    broken = program.call("verify", other)
    assert (broken.code, broken.out) == (1, f"{other}  BROKEN at record 3: record 3 is not what was written\n")
    both = program.call("verify", "--json")
    assert both.code == 1
    assert {fact["conversation_id"]: fact["broken"]["kind"] for fact in told(both)} == {one: "changed", other: "changed"}


async def test_what_makes_no_sense_has_an_exit_code_of_its_own(program: Program) -> None:
    program.script({"say": "Done."})
    one = await program.begin("One")
    head = "0" * 64
    calls = (("verify", "ffffffff"), ("verify", "no id"), ("verify", "--head", head), ("verify", one, "--head", "12"))
    for words in calls:
        ended = program.call(*words)
        assert (ended.code, ended.out) == (2, ""), words
        assert ended.err.count("\n") >= 1
    assert program.call("verify", one, "--head", head).code == 1
    assert program.call("conversations", "delete", "--yes", one).code == 0
    assert program.call("verify", one).code == 2


@pytest.mark.slow
async def test_a_store_whose_key_is_elsewhere_can_be_sealed_anew(program: Program) -> None:
    program.script({"say": "Done."})
    one = await program.begin("One")
    (program.home / "understudy" / "audit.key").unlink()
    lost = program.call("verify", one)
    assert (lost.code, "was not made with this key" in lost.out) == (1, True)
    assert program.call("verify", "--seal").code == 0
    assert program.call("verify", one).code == 0
    change(program, "DELETE FROM records WHERE seq = 2")
    cut = program.call("verify", one, "--seal")
    assert (cut.code, "record 2 is missing" in cut.out) == (1, True), "only what is whole is sealed"


def test_show_names_the_caller_who_answered_unless_it_is_the_user_of_the_machine(program: Program) -> None:
    name = new_id()
    answers = [ApprovalDecided("c1", "approved", "client", by="alice\x1b[2J"), ApprovalDecided("c2", "denied", "client")]
    entries = tuple(Entry(seq, seq - 1, "1", 2.0, record) for seq, record in enumerate(answers, 2))
    with closing(SqliteLog(program.home / "understudy")) as log:
        log.append(opened(name), lambda _: None)
        log.append(Batch(name, 1, 1, entries, SUMMARY), lambda _: None)
    shown = program.call("show", name).out
    assert "└ approved by alice\\u{1b}[2J\n" in shown
    assert "└ denied\n" in shown


@pytest.mark.slow
async def test_records_whose_conversation_is_gone_are_told(program: Program) -> None:
    program.script({"say": "Done."})
    await program.begin("One")
    change(program, "DELETE FROM conversations")
    ended = program.call("verify")
    assert ended.code == 1
    assert "records of 1 conversation are there whose entry is gone" in ended.err


@pytest.mark.slow
async def test_a_store_that_a_server_writes_to_is_checked_as_it_is_at_that_moment(program: Program) -> None:
    async with (
        ScriptedModel([deltas(["one", HOLD, "two"])]) as model,
        McpProcess(model.url, cwd=program.cwd, home=program.home) as client,
    ):
        call = client.call_tool("codex", {"prompt": "Go", "cwd": str(program.cwd)})
        await client.event("agent_message_delta", call)  # shown once all before it is on disk
        during = await program.run_aside("verify", "--json")
        model.release()
        await call
        after = await program.run_aside("verify", "--json")
    assert (during.code, after.code) == (0, 0), during.err + after.err
    assert told(during)[0]["records"] < told(after)[0]["records"]
