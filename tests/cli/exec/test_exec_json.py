"""`understudy exec --json`: its events, its items, and what is on standard output besides: nothing."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.exec_runs import LONGEST, Exec, finish, item, next_event, place
from understudy.testing import ScriptedModel, call, cut_after, hang, say, status

BASH = ["bash", "-lc"]


async def test_a_prompt_is_answered_with_the_events_of_one_turn(tmp_path: Path) -> None:
    async with ScriptedModel([say("Hello.", usage=(30, 4))]) as model:
        run = await place(model, tmp_path).json("Greet me")
    assert (run.code, run.err) == (0, "")
    usage = {"input_tokens": 30, "cached_input_tokens": 0, "cache_write_input_tokens": 0, "output_tokens": 4}
    assert run.events == [
        {"type": "thread.started", "thread_id": run.thread},
        {"type": "turn.started"},
        {"type": "item.completed", "item": item(0, "agent_message", text="Hello.")},
        {"type": "turn.completed", "usage": {**usage, "reasoning_output_tokens": 0}},
    ]


async def test_a_command_begins_and_ends_as_one_item_with_both_streams(tmp_path: Path) -> None:
    script = "echo one; echo two >&2; echo three; exit 3"
    async with ScriptedModel([call("shell", command=[*BASH, script]), say("done")]) as model:
        run = await place(model, tmp_path).json("-s", "workspace-write", "go")
    command = f"bash -lc '{script}'"
    begun = item(0, "command_execution", command=command, aggregated_output="", exit_code=None, status="in_progress")
    assert run.events[2] == {"type": "item.started", "item": begun}
    (ended,) = run.items[:1]
    assert sorted(ended["aggregated_output"].split()) == ["one", "three", "two"], (
        "in the order read: two pipes have no order of their own"
    )
    assert ended == {**begun, "aggregated_output": ended["aggregated_output"], "exit_code": 3, "status": "failed"}


async def test_a_command_that_is_refused_is_an_item_too_with_the_reason(tmp_path: Path) -> None:
    asked = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="please")
    async with ScriptedModel([asked, say("no")]) as model:
        run = await place(model, tmp_path).json("-a", "on-request", "go")
    assert run.code == 0
    began, ended = [event for event in run.events if event.get("item", {}).get("type") == "command_execution"]
    assert (began["type"], began["item"]["status"]) == ("item.started", "in_progress")
    assert (ended["item"]["status"], ended["item"]["exit_code"]) == ("failed", -1)
    assert ended["item"]["aggregated_output"]


async def test_what_the_sandbox_refuses_is_an_item_and_the_default_sandbox_is_read_only(tmp_path: Path) -> None:
    async with ScriptedModel([call("shell", command=[*BASH, "echo x > f.txt"]), say("no")]) as model:
        place_ = place(model, tmp_path)
        run = await place_.json("go")
    assert run.items[0]["status"] == "failed"
    assert "Read-only file system" in run.items[0]["aggregated_output"]
    assert not (place_.cwd / "f.txt").exists()


PATCH = """*** Begin Patch
*** Add File: new.txt
+one
*** Update File: a.txt
@@
-old
+new
*** Delete File: b.txt
*** Update File: c.txt
*** Move to: d/moved.txt
@@
-c
+C
*** End Patch
"""


async def test_a_patch_is_one_completed_item_with_sorted_absolute_paths(tmp_path: Path) -> None:
    async with ScriptedModel([call("apply_patch", input=PATCH), say("patched")]) as model:
        where = place(model, tmp_path)
        for name, text in (("a.txt", "old\n"), ("b.txt", "bye\n"), ("c.txt", "c\n")):
            (where.cwd / name).write_text(text)
        run = await where.json("-s", "workspace-write", "go")
    at = str(where.cwd)
    changes = [
        {"path": f"{at}/a.txt", "kind": "update"},
        {"path": f"{at}/b.txt", "kind": "delete"},
        {"path": f"{at}/c.txt", "kind": "update", "move_path": f"{at}/d/moved.txt"},
        {"path": f"{at}/d/moved.txt", "kind": "add"},
        {"path": f"{at}/new.txt", "kind": "add"},
    ]
    assert run.items[0] == item(0, "file_change", changes=changes, status="completed")
    assert "item.started" not in run.types
    assert (where.cwd / "d" / "moved.txt").read_text() == "C\n"


@pytest.mark.slow
async def test_a_patch_that_is_refused_or_does_not_match_is_a_failed_item(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-nowhere\n+new\n*** End Patch\n"
    for mode in ("read-only", "workspace-write"):
        async with ScriptedModel([call("apply_patch", input=patch), say("no")]) as model:
            where = place(model, tmp_path)
            (where.cwd / "a.txt").write_text("old\n")
            run = await where.json("-s", mode, "go")
        change = {"path": f"{where.cwd}/a.txt", "kind": "update"}
        assert run.items[0] == item(0, "file_change", changes=[change], status="failed"), mode


@pytest.mark.slow
async def test_the_plan_is_an_item_that_is_completed_at_the_end(tmp_path: Path) -> None:
    steps = [{"step": "look", "status": "in_progress"}, {"step": "write", "status": "pending"}]
    later = [{"step": "look", "status": "completed"}, {"step": "write", "status": "completed"}]
    plan = [call("update_plan", plan=steps), call("update_plan", call_id="call2", plan=later)]
    async with ScriptedModel([*plan, say("planned")]) as model:
        run = await place(model, tmp_path).json("go")
    todo = [{"text": "look", "completed": False}, {"text": "write", "completed": False}]
    done = [{"text": "look", "completed": True}, {"text": "write", "completed": True}]
    assert [event for event in run.events if event.get("item", {}).get("type") == "todo_list"] == [
        {"type": "item.started", "item": item(0, "todo_list", items=todo)},
        {"type": "item.updated", "item": item(0, "todo_list", items=done)},
        {"type": "item.completed", "item": item(0, "todo_list", items=done)},
    ]
    assert run.types[-2:] == ["item.completed", "turn.completed"]


async def test_a_failed_turn_ends_with_the_reason_twice_and_exit_code_1(tmp_path: Path) -> None:
    async with ScriptedModel([status(401, {"error": {"message": "Incorrect API key"}})]) as model:
        run = await place(model, tmp_path).json("go")
    assert run.code == 1
    assert run.types == ["thread.started", "turn.started", "error", "turn.failed"]
    assert run.events[2]["message"] == run.failure
    assert "Incorrect API key" in run.failure
    assert "401" in run.failure


@pytest.mark.slow
async def test_what_is_tried_again_is_an_item_and_no_error_of_the_run(tmp_path: Path) -> None:
    retries = {"model_providers.mock.stream_max_retries": 2}
    async with ScriptedModel([cut_after(say("Hal")), say("Hello.")]) as model:
        run = await place(model, tmp_path, retries).json("go")
    assert run.code == 0
    assert "error" not in run.types
    assert [each["type"] for each in run.items if each["type"] == "error"] == ["error"]
    assert "stream disconnected before completion" in next(each for each in run.items if each["type"] == "error")["message"]


@pytest.mark.slow
async def test_no_line_is_longer_than_sixty_thousand_bytes(tmp_path: Path) -> None:
    noise = [*BASH, r"for i in $(seq 3000); do printf '\001\002ä€%s\n' $i; done; head -c 300000 /dev/zero | tr '\0' '\033'"]
    async with ScriptedModel([call("shell", command=noise), say("x" * 200_000)]) as model:
        run = await place(model, tmp_path).json("go")
    assert run.code == 0
    assert max(len(line) for line in run.out.encode().splitlines(keepends=True)) <= 60_000
    output, message = run.items[0]["aggregated_output"], run.items[1]["text"]
    assert output.startswith("\x01\x02ä€1\n")
    assert output.endswith("\x1b")
    assert "omitted" in output
    assert message.startswith("xxx")
    assert "omitted" in message


@pytest.mark.slow
async def test_the_usage_is_that_of_the_whole_thread_and_the_thread_keeps_its_id(tmp_path: Path) -> None:
    async with ScriptedModel([say("one", usage=(10, 1)), say("two", usage=(20, 2))]) as model:
        where = place(model, tmp_path)
        first = await where.json("first")
        second = await where.json("resume", first.thread, "second")
        texts = [part["text"] for part in _contents(model.requests[1])]
    assert second.thread == first.thread
    assert second.events[-1]["usage"]["input_tokens"] == 30
    assert [text for text in texts if text in ("first", "one", "second")] == ["first", "one", "second"]


@pytest.mark.slow
async def test_a_fork_is_another_thread_with_the_same_history(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two"), say("three")]) as model:
        where = place(model, tmp_path)
        first = await where.json("first")
        copy = await where.json("fork", first.thread, "second")
        again = await where.json("resume", first.thread, "third")
        asked = [[part["text"] for part in _contents(request)] for request in model.requests[1:]]
    assert copy.thread != first.thread
    assert again.thread == first.thread
    said = ("first", "one", "two", "second", "third")
    told = [[text for text in texts if text in said] for texts in asked]
    assert told == [["first", "one", "second"], ["first", "one", "third"]]


def _contents(request: dict[str, object]) -> list[dict[str, str]]:
    items = request["input"]
    assert isinstance(items, list)
    return [part for entry in cast(list[dict[str, Any]], items) for part in entry.get("content", [])]


@pytest.mark.slow
async def test_both_interrupting_signals_end_the_turn_the_command_and_the_items(tmp_path: Path) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)):
        sleeper = f"echo begun; exec sleep 6{number.value}"
        async with ScriptedModel([call("shell", command=[*BASH, sleeper]), say("again")]) as model:
            where = place(model, tmp_path)
            process = await where.start("exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "go")
            thread = (await next_event(process, "thread.started"))["thread_id"]
            await next_event(process, "command_execution")
            process.send_signal(number)
            run = await finish(process)
            assert run.code == code
            assert run.types == ["item.completed", "turn.failed"]
            assert (run.items[0]["status"], run.items[0]["exit_code"] == 0) == ("failed", False)
            assert run.failure == "interrupted"
            again = await where.json("resume", thread, "what happened?")
            assert again.code == 0
            assert again.items[-1]["text"] == "again"


async def test_a_silent_model_is_left_at_once(tmp_path: Path) -> None:
    async with ScriptedModel([hang()]) as model:
        process = await place(model, tmp_path).start("exec", "--json", "--skip-git-repo-check", "go")
        await next_event(process, "turn.started")
        process.send_signal(signal.SIGINT)
        run = await finish(process)
    assert (run.code, run.types) == (130, ["turn.failed"])


@pytest.mark.slow
async def test_a_reader_that_goes_away_ends_the_run(tmp_path: Path) -> None:
    async with ScriptedModel([call("shell", command=["sleep", "63"])]) as model:
        where = place(model, tmp_path)
        async with piped(where) as (process, reading):
            with os.fdopen(reading, "rb") as lines:
                while b"command_execution" not in await asyncio.to_thread(lines.readline):
                    pass
            async with asyncio.timeout(LONGEST):
                _, told = await process.communicate()
    assert (process.returncode, told) == (1, b"understudy: nobody reads standard output any more, so the turn was ended\n")


@pytest.mark.slow
async def test_a_reader_that_is_slow_holds_nothing_up_and_gets_everything(tmp_path: Path) -> None:
    noise = [call("shell", command=[*BASH, "yes | head -c 50000"], call_id=f"c{number}") for number in range(20)]
    async with ScriptedModel([*noise, say("end")]) as model, piped(place(model, tmp_path)) as (process, reading):
        await model.next_request(21)  # the turn does not wait for its reader
        with os.fdopen(reading, "rb") as lines:
            events = [json.loads(line) for line in await asyncio.to_thread(lines.readlines)]
        async with asyncio.timeout(LONGEST):
            assert await process.wait() == 0
    assert [event["type"] for event in events].count("item.completed") == 21
    assert events[-1]["type"] == "turn.completed"


@pytest.mark.slow
async def test_a_reader_that_takes_nothing_keeps_no_run_alive_that_was_told_to_end(tmp_path: Path) -> None:
    noise = [call("shell", command=[*BASH, "yes | head -c 50000"], call_id=f"c{number}") for number in range(20)]
    async with ScriptedModel([*noise, say("end")]) as model, piped(place(model, tmp_path)) as (process, reading):
        await model.next_request(21)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LONGEST):
            assert await process.wait() == -signal.SIGTERM
        os.close(reading)


@pytest.mark.slow
async def test_a_command_that_began_before_a_message_joined_its_turn_is_a_whole_item(tmp_path: Path) -> None:
    script = "until test -e go; do sleep 0.05; done; echo ended"
    answers = [say("ready"), call("shell", command=[*BASH, script]), say("done")]
    async with ScriptedModel(answers) as model:
        where = place(model, tmp_path)
        thread = (await where.json("hello")).thread
        first = await where.start("exec", "--json", "--skip-git-repo-check", "resume", thread, "begin")
        await next_event(first, "item.started")
        second = await where.start("exec", "--json", "--skip-git-repo-check", "resume", thread, "join us")
        async with asyncio.timeout(LONGEST):
            while "join us" not in (await where.run("show", thread)).out:
                pass
        (where.cwd / "go").touch()
        began, ended = await next_event(second, "command_execution"), await next_event(second, "command_execution")
        assert (await finish(first)).code == (await finish(second)).code == 0
    assert (began["type"], ended["type"]) == ("item.started", "item.completed")
    assert began["item"]["id"] == ended["item"]["id"]
    assert ended["item"]["command"] == began["item"]["command"] == f"bash -lc '{script}'"
    assert (ended["item"]["aggregated_output"], ended["item"]["status"]) == ("ended\n", "completed")


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["no", "abort"])
@pytest.mark.parametrize("kind", ["command_execution", "file_change"])
async def test_what_is_refused_after_a_message_joined_its_turn_is_a_whole_item(tmp_path: Path, kind: str, answer: str) -> None:
    patch = "*** Begin Patch\n*** Add File: made\n+one\n*** End Patch\n"
    asks = call("shell", command=["touch", "made"]) if kind == "command_execution" else call("apply_patch", input=patch)
    async with ScriptedModel([say("ready"), asks, *([say("done")] if answer == "no" else [])]) as model:
        config = {"approval_policy": "untrusted", "understudy": {"unasked": "wait"}}
        where = place(model, tmp_path, config)
        thread = (await where.json("hello")).thread
        first = await where.start("exec", "--json", "--skip-git-repo-check", "resume", thread, "begin")
        async with asyncio.timeout(LONGEST):
            while json.loads((await where.run("approvals", "--json")).out) == []:
                pass
        second = await where.start("exec", "--json", "--skip-git-repo-check", "resume", thread, "join us")
        async with asyncio.timeout(LONGEST):
            while "join us" not in (await where.run("show", thread)).out:
                pass
        assert (await where.run("approvals", "answer", thread, answer)).code == 0
        began, joined = await finish(first), await finish(second)
    assert (began.code, joined.code) == ((0, 0) if answer == "no" else (1, 1)), (began, joined)
    for run in (began, joined):
        told = [event for event in run.events if event.get("item", {}).get("type") == kind]
        assert [event["type"] for event in told] == ["item.started", "item.completed"][-1 if kind == "file_change" else -2 :], (
            run.out
        )
        assert (told[-1]["item"]["status"], told[-1]["item"]["id"]) == ("failed", told[0]["item"]["id"])
    assert not (where.cwd / "made").exists()


@pytest.mark.slow
async def test_a_session_that_died_with_its_process_is_a_whole_item_of_the_next_turn(tmp_path: Path) -> None:
    answers = [call("exec_command", cmd="echo began; sleep 1000", yield_time_ms=250), hang(), say("Gone.")]
    async with ScriptedModel(answers) as model:
        where = place(model, tmp_path)
        process = await where.start("exec", "--json", "--skip-git-repo-check", "begin")
        thread = (await next_event(process, "thread.started"))["thread_id"]
        async with asyncio.timeout(LONGEST):
            while (await where.run("export", thread)).out.count('"request_sent"') < 2:  # what the model has may not be on disk yet
                pass
        process.kill()
        await finish(process)
        run = await where.json("resume", thread, "go on")
    began, ended = [event["item"] for event in run.events if event.get("item", {}).get("type") == "command_execution"]
    assert began["command"] == ended["command"] == "bash -lc 'echo began; sleep 1000'"
    assert (began["status"], ended["status"], began["id"]) == ("in_progress", "failed", ended["id"])


@asynccontextmanager
async def piped(where: Exec) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int]]:
    """A run whose standard output is read by hand."""
    reading, writing = os.pipe()
    process = await where.start("exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "go", stdout=writing)
    os.close(writing)
    try:
        yield process, reading
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
