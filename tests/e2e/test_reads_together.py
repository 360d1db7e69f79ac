"""Calls that only read run together; effects wait for them, and all that is recorded keeps the order of the calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import is_alive, scene, text_of, thread_of, told_to_model
from tests.sandbox.stage import until
from understudy.testing import HOLD, Answer, McpProcess, call, cut_after, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

NEVER: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
SLOW = "(a+)+$"  # backtracks until the limit for a file, which is seconds away
BEGIN, END = "mcp_tool_call_begin", "mcp_tool_call_end"
PATCH = ("patch_apply_begin", "patch_apply_end")


def reads(count: int, name: str = "read_file", **arguments: Any) -> Answer:
    answer = Answer(())
    for number in range(1, count + 1):
        answer = answer + call(name, call_id=f"call{number}", **(arguments or {"path": f"{number}.txt"}))
    return answer


def shown_calls(client: McpProcess) -> list[tuple[str, str]]:
    return [(event["type"], event["call_id"]) for event in client.events() if event["type"] in (BEGIN, END)]


def outputs_in(request: dict[str, Any]) -> list[str]:
    """The ids of calls, in the order in which a Responses request has their outputs."""
    return [item["call_id"] for item in request["input"] if item.get("type") == "function_call_output"]


def searchers(client: McpProcess) -> list[int]:
    """The processes that search for this server."""
    pid = client.process.pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in children if "look_worker" in command_line(child)]


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["responses", "chat", "anthropic"])
async def test_reads_of_one_answer_begin_before_the_first_of_them_ends(tmp_path: Path, wire: str) -> None:
    for number in range(1, 6):
        (tmp_path / f"{number}.txt").write_text(f"file {number}\n")
    async with scene([reads(5), say("done")], tmp_path, config=NEVER, wire=wire) as (model, client):
        assert text_of(await client.codex("go")) == "done"
        shown = shown_calls(client)
        request = model.requests[1]
    ids = [f"call{number}" for number in range(1, 6)]
    assert shown == [(BEGIN, each) for each in ids] + [(END, each) for each in ids]
    if wire == "responses":
        assert outputs_in(request) == ids
    if wire == "chat":
        assert [told_to_model(request, each) for each in ids] == [f"     1\tfile {number}" for number in range(1, 6)]


def slow_to_search(folder: Path) -> None:
    """For the limit of many files, so that a search goes on for as long as a test needs."""
    for number in range(10):
        (folder / f"a{number}.txt").write_text("a" * 60 + "!\n")


@pytest.mark.slow
async def test_searches_of_one_answer_are_at_work_at_the_same_time(tmp_path: Path) -> None:
    slow_to_search(tmp_path)
    async with scene([reads(2, "search", pattern=SLOW)], tmp_path, config=NEVER) as (_, client):
        call_ = client.codex("go")
        await until(lambda: len(searchers(client)) == 2, WAIT_SECONDS)
        await client.cancel(call_)
        await call_


@pytest.mark.slow
async def test_an_effect_waits_for_the_reads_before_it_and_those_behind_it_for_the_effect(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    answer = (
        call("read_file", call_id="before1", path="a.txt")
        + call("search", call_id="before2", pattern="old", path="a.txt")
        + call("edit_file", call_id="edit", path="a.txt", old_text="old", new_text="new")
        + call("read_file", call_id="after1", path="a.txt")
        + call("search", call_id="after2", pattern="new", path="a.txt")
    )
    async with scene([answer, say("done")], tmp_path, config=NEVER) as (model, client):
        await client.codex("go")
        request = model.requests[1]
        kinds = [
            event["type"] for event in client.events() if event["type"] in (BEGIN, END, "patch_apply_begin", "patch_apply_end")
        ]
    assert kinds == [BEGIN, BEGIN, END, END, "patch_apply_begin", "patch_apply_end", BEGIN, BEGIN, END, END]
    assert told_to_model(request, "before1") == "     1\told"
    assert "1:old" in told_to_model(request, "before2")
    assert told_to_model(request, "after1") == "     1\tnew"
    assert "1:new" in told_to_model(request, "after2")


async def test_no_more_than_eight_run_at_once(tmp_path: Path) -> None:
    for number in range(1, 20):
        (tmp_path / f"{number}.txt").write_text("x\n")
    async with scene([reads(19), say("done")], tmp_path, config=NEVER, wire="responses") as (model, client):
        await client.codex("go")
        shown = [kind for kind, _ in shown_calls(client)]
        assert outputs_in(model.requests[1]) == [f"call{number}" for number in range(1, 20)]
    assert shown == [BEGIN] * 8 + [END] * 8 + [BEGIN] * 8 + [END] * 8 + [BEGIN] * 3 + [END] * 3


async def test_a_read_that_fails_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("one\n")
    (tmp_path / "4.txt").write_text("four\n")
    answer = (
        call("read_file", call_id="call1", path="1.txt")
        + call("read_file", call_id="call2", path="missing.txt")
        + call("read_file", call_id="call3", arguments_text="{")
        + call("read_file", call_id="call4", path="4.txt")
    )
    async with scene([answer, say("done")], tmp_path, config=NEVER) as (model, client):
        await client.codex("go")
        request = model.requests[1]
    assert told_to_model(request, "call1") == "     1\tone"
    assert told_to_model(request, "call2") == "missing.txt cannot be read: No such file or directory"
    assert told_to_model(request, "call3")
    assert told_to_model(request, "call4") == "     1\tfour"


@pytest.mark.slow
async def test_two_reads_with_the_same_id_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("one\n")
    (tmp_path / "2.txt").write_text("two\n")
    answer = call("read_file", path="1.txt") + call("read_file", path="2.txt")
    async with scene([answer, say("done")], tmp_path, config=NEVER, wire="responses") as (model, client):
        await client.codex("go")
        shown = [kind for kind, _ in shown_calls(client)]
        outputs = [item["output"] for item in model.requests[1]["input"] if item.get("type") == "function_call_output"]
    assert shown == [BEGIN, END] * 2
    assert outputs == ["     1\tone", "     1\ttwo"]


@pytest.mark.slow
async def test_reads_before_a_break_are_part_of_the_next_request(tmp_path: Path) -> None:
    for number in range(1, 4):
        (tmp_path / f"{number}.txt").write_text("x\n")
    config = {**NEVER, "model_providers.mock.stream_max_retries": 1}
    async with scene([cut_after(reads(3)), say("done")], tmp_path, config=config, wire="responses") as (model, client):
        assert text_of(await client.codex("go")) == "done"
        assert outputs_in(model.requests[1]) == ["call1", "call2", "call3"]


async def test_an_interrupt_stops_the_searches_and_says_so_of_each(tmp_path: Path) -> None:
    slow_to_search(tmp_path)
    answer = reads(2, "search", pattern=SLOW) + call("shell", call_id="effect", command=["touch", "made"])
    async with scene([answer, say("after")], tmp_path, config=NEVER, wire="responses") as (model, client):
        call_ = client.codex("go")
        await until(lambda: len(searchers(client)) == 2, WAIT_SECONDS)
        pids = searchers(client)
        await client.cancel(call_)
        result = await call_
        assert text_of(result) == "Turn interrupted"
        assert not any(map(is_alive, pids))
        assert shown_calls(client) == [(BEGIN, "call1"), (BEGIN, "call2"), (END, "call1"), (END, "call2")]
        assert text_of(await client.reply(thread_of(result), "and?")) == "after"
        outputs = [item for item in model.requests[1]["input"] if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in outputs] == ["call1", "call2"]
    assert all("interrupted" in item["output"] for item in outputs)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
async def test_an_interrupt_while_the_answer_goes_on_leaves_every_read_answered(tmp_path: Path) -> None:
    slow_to_search(tmp_path)
    answer = call("search", pattern=SLOW) + deltas(["more", HOLD])
    async with scene([answer, say("after")], tmp_path, config=NEVER, wire="responses") as (model, client):
        call_ = client.codex("go")
        await client.event("agent_message_delta", call_)
        await client.cancel(call_)
        result = await call_
        assert shown_calls(client) == [(BEGIN, "call1"), (END, "call1")]
        assert text_of(await client.reply(thread_of(result), "and?")) == "after"
        assert outputs_in(model.requests[1]) == ["call1"]


@pytest.mark.slow
async def test_reads_that_a_kill_cut_off_are_answered_when_the_conversation_goes_on(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    slow_to_search(work)
    script = [reads(2, "search", pattern=SLOW), say("after")]
    async with scene(script, work, config=NEVER, wire="responses", home=home) as (model, first):
        call_ = first.codex("go")
        thread = str((await first.event("session_configured", call_))["session_id"])
        await first.event(BEGIN, call_, 2)
        await first.kill()
        async with McpProcess(model.url, cwd=work, home=home, config=NEVER, wire="responses") as second:
            assert text_of(await second.reply(thread, "and?")) == "after"
        assert outputs_in(model.requests[1]) == ["call1", "call2"]
