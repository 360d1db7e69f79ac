"""`understudy undo`: the patches of a turn taken back by the real program, whoever has the conversation."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Ended, Program
from tests.e2e.scenes import told_to_model, users_in
from tests.e2e.talking import Stream
from tests.tools.patch.tree import patch_text, tree_of, write_files
from understudy.engine.log.recovery import OUTCOME_UNKNOWN
from understudy.engine.ops.undoing import TURN_RUNS, TURN_WAITS
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

PATCH = patch_text("*** Update File: a.txt", "@@", "-one", "+two", "*** Add File: new/b.txt", "+b", "*** Delete File: c.txt")
ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
FILES = {"a.txt": "one\nmore\n", "c.txt": b"\xff\x00binary"}


def patching(*lines: str, **more: Any) -> Any:
    return call("apply_patch", input=patch_text(*lines), **more)


@pytest.fixture
def work(program: Program) -> Path:
    write_files(program.cwd, FILES)
    return program.cwd


async def begin(program: Program, *answers: Any, **arguments: str) -> str:
    program.script(*answers)
    return await program.begin("Go", **arguments)


def patch_call(patch: str = PATCH, name: str = "c1") -> dict[str, Any]:
    return {"call": "apply_patch", "arguments": {"input": patch}, "id": name}


@pytest.mark.slow
async def test_a_turn_is_taken_back_and_told_once(program: Program, work: Path) -> None:
    before = tree_of(work)
    one = await begin(program, patch_call(), {"say": "Done."}, {"say": "Fine."})
    assert tree_of(work) != before
    ended = program.run("undo", one[:8])
    a, b, c = (work / name for name in ("a.txt", "new/b.txt", "c.txt"))
    assert ended == Ended(0, f"undid turn 1\n  taken back  {a}\n  taken back  {b}\n  taken back  {c}\n", "")
    assert tree_of(work) == before
    again = program.run("undo", one)
    assert (again.code, again.out, again.err) == (1, "", "understudy: every turn that changed files is undone\n")
    assert program.run("undo", one, "1").err == "understudy: turn 1 is undone already\n"
    assert program.run("undo", one, "2").err == "understudy: 2 is an undo, and an undo cannot be undone\n"
    assert "no such turn" in program.run("undo", one, "9").err
    shown = program.run("show", one)
    assert f"undo: took back the changes of turn 1 to {a}, {b}, {c}" in " ".join(shown.out.split())
    events = [json.loads(line) for line in program.run("show", one, "--json").out.splitlines()]
    told = [event["msg"]["message"] for event in events if event["msg"]["type"] == "background_event"]
    assert told == [f"undo: took back the changes of turn 1 to {a}, {b}, {c}"]


@pytest.mark.slow
async def test_the_last_turn_that_changed_files_is_meant_and_then_the_one_before(program: Program, work: Path) -> None:
    edit = {"path": "a.txt", "old_text": "two", "new_text": "three"}
    one = await begin(
        program, patch_call(), {"say": "1"}, {"call": "edit_file", "arguments": edit, "id": "c2"}, {"say": "2"}, {"say": "3"}
    )
    for prompt in ("edit", "talk"):
        assert program.run("resume", one, prompt).code == 0
    assert (work / "a.txt").read_text() == "three\nmore\n"
    assert program.run("undo", one).out.startswith("undid turn 2\n")
    assert (work / "a.txt").read_text() == "two\nmore\n"
    assert program.run("undo", one).out.startswith("undid turn 1\n")
    assert (work / "a.txt").read_text() == "one\nmore\n"


@pytest.mark.slow
async def test_an_earlier_turn_is_not_taken_back_under_a_later_one(program: Program, work: Path) -> None:
    later = patch_text("*** Update File: a.txt", "@@", "-two", "+three")
    one = await begin(program, patch_call(), {"say": "1"}, patch_call(later), {"say": "2"})
    assert program.run("resume", one, "again").code == 0
    ended = program.run("undo", one, "1")
    assert ended.code == 1
    assert f"  left alone  {work / 'a.txt'}: it was changed since\n" in ended.out
    assert (work / "a.txt").read_text() == "three\nmore\n"
    assert not (work / "new").exists()
    assert (work / "c.txt").exists()


async def test_a_conversation_without_patches_has_nothing_to_undo(program: Program) -> None:
    one = await begin(program, {"say": "Hello."})
    ended = program.run("undo", one)
    assert (ended.code, ended.err) == (1, "understudy: no turn of this conversation has changed files by a patch\n")


@pytest.mark.slow
async def test_files_that_were_changed_since_are_left_alone_and_named(program: Program, work: Path) -> None:
    one = await begin(program, patch_call(), {"say": "Done."})
    (work / "a.txt").write_text("mine\n")
    (work / "c.txt").write_text("mine too\n")
    ended = program.run("undo", one)
    assert ended.code == 1
    assert ended.out == (
        f"undid turn 1 in part\n  taken back  {work / 'new/b.txt'}\n"
        f"  left alone  {work / 'a.txt'}: it was changed since\n  left alone  {work / 'c.txt'}: it was changed since\n"
    )
    assert [(work / name).read_text() for name in ("a.txt", "c.txt")] == ["mine\n", "mine too\n"]
    assert not (work / "new").exists()


@pytest.mark.quick(1)
@pytest.mark.parametrize("attack", ["file", "folder", "root"])
async def test_nothing_is_written_where_something_else_was_put_in_the_way(program: Program, work: Path, attack: str) -> None:
    away = work.parent / "away"
    write_files(away, {"a.txt": "two\nmore\n"})
    inside = patch_text("*** Update File: dir/a.txt", "@@", "-one", "+two")
    write_files(work, {"dir/a.txt": "one\nmore\n"})
    one = await begin(program, patch_call(inside), {"say": "Done."})
    match attack:
        case "file":
            (work / "dir/a.txt").unlink()
            (work / "dir/a.txt").symlink_to(away / "a.txt")
        case "folder":
            (work / "dir").rename(work / "was")
            (work / "dir").symlink_to(away)
        case _:
            work.rename(work.parent / "was")
            write_files(work, {"dir/a.txt": "two\nmore\n"})
    ended = program.run("undo", one)
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert "symbolic link" in ended.out or "not what stood there" in ended.err, f"{ended}"
    assert (away / "a.txt").read_text() == "two\nmore\n"
    if attack == "root":
        assert (work / "dir/a.txt").read_text() == "two\nmore\n"


@pytest.mark.slow
async def test_what_was_approved_outside_the_project_goes_back_too(program: Program, work: Path) -> None:
    outside = work.parent / "outside.txt"
    script = [patching(f"*** Add File: {outside}", "+out"), say("Done.")]
    async with server(program, script, config=ASKING) as (_, client):
        running = client.call_tool("codex", prompt="go", cwd=str(work))
        await client.respond(await client.next_request("elicitation/create"), {"action": "accept"})
        thread = (await running)["structuredContent"]["threadId"]
        assert outside.exists()
    assert program.run("undo", thread).code == 0
    assert not outside.exists()


@asynccontextmanager
async def server(program: Program, script: Any, **options: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=program.cwd, home=program.home, **options) as client:
        yield model, client


@pytest.mark.slow
async def test_the_model_is_told_with_the_next_request_and_viewers_at_once(program: Program, work: Path) -> None:
    async with server(program, [call("apply_patch", input=PATCH), say("Done."), say("I see."), say("Yes.")]) as (model, client):
        thread = (await client.call_tool("codex", prompt="go", cwd=str(work)))["structuredContent"]["threadId"]
        stream = Stream(client, thread, after=0)
        await stream.snapshot()
        ended = await program.run_aside("undo", thread)
        assert ended.code == 0, ended
        event = await stream.until("background_event")
        assert event["message"].startswith("undo: took back the changes of turn 1 to ")
        for prompt in ("and now?", "again"):
            await client.call_tool("codex-reply", threadId=thread, prompt=prompt)
        told = users_in(model.requests[-1])
        assert [text for text in told if "undone your patches" in text] == [told[1]]
        assert str(work / "a.txt") in told[1]
        assert told[2:] == ["and now?", "again"]


@pytest.mark.slow
async def test_the_modern_wire_has_events_of_its_own(program: Program, work: Path) -> None:
    config = {"understudy.wire": "modern"}
    async with server(program, [call("apply_patch", input=PATCH), say("Done.")], config=config) as (_, client):
        thread = (await client.call_tool("codex", prompt="go", cwd=str(work)))["structuredContent"]["threadId"]
        assert (await program.run_aside("undo", thread)).code == 0
        told = [event["msg"] for event in await Stream(client, thread, after=0).snapshot()]
        began, completed = told[-2:]
        assert began == {"type": "undo_started", "message": "undoing turn 1"}
        assert (completed["type"], completed["success"], "took back" in completed["message"]) == ("undo_completed", True, True)


@pytest.mark.slow
async def test_while_a_turn_runs_it_is_refused_by_every_process(program: Program, work: Path) -> None:
    script = [call("apply_patch", input=PATCH), say("Done."), deltas(["speaks", HOLD])]
    async with server(program, script) as (model, client):
        thread = (await client.call_tool("codex", prompt="go", cwd=str(work)))["structuredContent"]["threadId"]
        reply = client.call_tool("codex-reply", threadId=thread, prompt="more")
        await client.event("agent_message_delta", reply)
        ended = await program.run_aside("undo", thread)
        assert (ended.code, ended.err) == (1, f"understudy: {TURN_RUNS}\n")
        model.release()
        await reply
        assert (await program.run_aside("undo", thread)).code == 0


@pytest.mark.slow
async def test_a_turn_that_waits_for_an_answer_is_not_cut_off(program: Program, work: Path) -> None:
    asking = call("shell", command=["touch", "made.txt"], with_escalated_permissions=True, justification="x")
    async with server(program, [call("apply_patch", input=PATCH), say("Done."), asking], config=ASKING) as (_, client):
        thread = (await client.call_tool("codex", prompt="go", cwd=str(work)))["structuredContent"]["threadId"]
        client.call_tool("codex-reply", threadId=thread, prompt="more")
        await client.next_request("elicitation/create")
        await client.kill()
    ended = program.run("undo", thread)
    assert (ended.code, ended.err) == (1, f"understudy: {TURN_WAITS}\n")


@pytest.mark.slow
async def test_a_process_that_keeps_the_conversation_for_a_running_command_does_it(program: Program, work: Path) -> None:
    before = tree_of(work)
    start = call("exec_command", cmd="cat", tty=True, yield_time_ms=250, call_id="call2")
    script = [call("apply_patch", input=PATCH), start, say("Done."), say("I see.")]
    async with server(program, script) as (model, client):
        thread = (await client.call_tool("codex", prompt="go", cwd=str(work)))["structuredContent"]["threadId"]
        assert "session ID" in told_to_model(model.requests[2], "call2")
        ended = await program.run_aside("undo", thread)
        assert ended.code == 0, ended
        assert tree_of(work) == before
        again = await program.run_aside("undo", thread, "1")
        assert (again.code, again.err) == (1, "understudy: turn 1 is undone already\n")
        await client.call_tool("codex-reply", threadId=thread, prompt="and?")
        assert any("undone your patches" in text for text in users_in(model.requests[-1]))


@pytest.mark.slow
async def test_killed_in_the_middle_it_says_so_and_can_be_asked_for_again(program: Program, work: Path) -> None:
    many = [line for number in range(150) for line in (f"*** Add File: many/{number}", "+x")]
    before = tree_of(work)
    async with server(program, [call("apply_patch", input=patch_text(*many)), say("Done."), say("I see.")]) as (model, client):
        thread = (await client.call_tool("codex", prompt="go", cwd=str(work)))["structuredContent"]["threadId"]
        stream = Stream(client, thread, after=0)
        await stream.snapshot()
        process = await asyncio.to_thread(
            subprocess.Popen, [sys.executable, "-m", "understudy", "undo", thread], cwd=work, env=program.environment()
        )
        try:
            await _until_some_are_gone(work / "many")
        finally:
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        ended = await program.run_aside("undo", thread)
        cut = "is undone" in ended.err  # it had been quick
        assert (ended.code, cut) in ((0, False), (1, True)), ended
        assert tree_of(work) == before
        await client.call_tool("codex-reply", threadId=thread, prompt="and?")
        if not cut:
            told = (await stream.until("background_event"))["message"]
            assert told == f"undo: {OUTCOME_UNKNOWN}"
            assert any(OUTCOME_UNKNOWN in text for text in users_in(model.requests[-1]))


async def _until_some_are_gone(folder: Path) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while folder.exists() and len(os.listdir(folder)) == 150:  # noqa: ASYNC110  # files have no event
            await asyncio.sleep(0)


@pytest.mark.slow
async def test_a_record_of_an_earlier_version_cannot_be_taken_back_and_says_so(program: Program, work: Path) -> None:
    one = await begin(program, patch_call(), {"say": "Done."})
    exported = program.run("export", one).out
    lines = [json.loads(line) for line in exported.splitlines()]
    for line in lines:
        record = line.get("record", {})
        if record.get("type") == "patch_ended":
            record.pop("files")
            record.pop("folders", None)
    (work.parent / "old.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert program.run("conversations", "delete", "-y", one).code == 0
    imported = program.run("import", str(work.parent / "old.jsonl"), "--keep-settings")
    assert imported.code == 0, imported
    ended = program.run("undo", one)
    assert ended.code == 1
    assert "earlier version" in ended.out
    assert (work / "a.txt").read_text() == "two\nmore\n"


@pytest.mark.slow
async def test_a_command_that_is_kept_from_a_file_is_ended_before_the_file_is_taken_back(program: Program, work: Path) -> None:
    hostile = "echo here; while :; do echo HOSTILE > .envrc; done 2>/dev/null"
    start = call("exec_command", cmd=hostile, yield_time_ms=1000, call_id="call2")
    script = [call("apply_patch", input=patch_text("*** Add File: .envrc", "+x")), start, say("Done."), say("I see.")]
    before = tree_of(work)
    async with server(program, script) as (model, client):
        going = client.call_tool("codex", prompt="go", cwd=str(work), config=ASKING)
        question = await client.next_request("elicitation/create")
        await client.respond(question, {"decision": "approved"})
        thread = (await going)["structuredContent"]["threadId"]
        assert "session ID" in told_to_model(model.requests[2], "call2")
        ended = await program.run_aside("undo", thread)
        assert ended.code == 0, ended
        await client.call_tool("codex-reply", threadId=thread, prompt="and?")
        assert "does not run any more: changes were taken back at a path that it was kept from." in str(model.requests[-1])
    assert tree_of(work) == before
