"""Clients and commands that do too much or too little: very long lines, garbage, no reading, endless output, a full disk."""

import asyncio
import json
import os
import random
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, kinds, resident_bytes, scene, text_of, thread_of, told_to_model
from tests.e2e.talking import Stream, create, listed, send
from tests.support.obliging_model import ObligingModel
from understudy.testing import SERVER_COMMAND, McpProcess, ScriptedModel, call, deltas, provider_settings, say, write_config
from understudy.testing.waiting import WAIT_SECONDS

MEGABYTE = 2**20


@pytest.mark.slow
async def test_a_line_of_64_megabytes_is_taken_and_the_next_one_too(tmp_path: Path) -> None:
    async with scene([say("read it"), say("and that")], tmp_path, check_frames=False) as (model, client):
        prompt = "x" * (64 * MEGABYTE)
        line = json.dumps({"id": 7, "method": "tools/call", "params": {"name": "codex", "arguments": {"prompt": prompt}}}).encode()
        await client.send_raw(line + b"\n")
        result = await client.answer(7)
        assert text_of(result) == "read it"
        assert len(model.requests[0]["messages"][-1]["content"]) == len(prompt)
        assert text_of(await client.call_tool("codex", prompt="short")) == "and that"


@pytest.mark.slow
async def test_a_very_long_first_line_is_no_worse(tmp_path: Path) -> None:
    async with McpProcess(cwd=tmp_path, initialize=False, check_frames=False) as client:
        await client.send_raw(b'{"id":1,"method":"ping","params":{"x":"' + b"y" * (32 * MEGABYTE) + b'"}}\n')
        assert await client.answer(1) == {}


@pytest.mark.slow
async def test_ten_thousand_garbage_lines_are_survived(tmp_path: Path) -> None:
    async with scene([say("still here")], tmp_path, check_frames=False) as (_, client):
        before = resident_bytes(client.process.pid)
        for start in range(0, 10_000, 500):
            await client.send_raw(b"".join(b"garbage %d {[\x00\n" % n for n in range(start, start + 500)))
        await client.frames_until(10_001)
        refused = [frame for frame in client.frames if frame.get("error", {}).get("code") == -32700]
        assert len(refused) == 10_000
        assert text_of(await client.call_tool("codex", prompt="hello?")) == "still here"
        assert resident_bytes(client.process.pid) - before < 40 * MEGABYTE
        assert client.stderr == ""


@pytest.mark.slow
async def test_a_command_that_prints_without_end_is_cut_and_marked_everywhere(tmp_path: Path) -> None:
    run = ["sh", "-c", "i=0; while [ $i -lt 200 ]; do head -c 65536 /dev/zero | tr '\\0' 'a'; echo; i=$((i+1)); done; echo the end"]
    async with scene([call("shell", command=run, timeout=100_000), say("ok")], tmp_path) as (model, client):
        before = resident_bytes(client.process.pid)
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "ok"
        events = client.events(call_)
        live = b"".join(bytes(event["chunk"]) for event in events if event["type"] == "exec_command_output_delta")
        assert MEGABYTE - 16 * 1024 <= len(live) <= MEGABYTE + 16 * 1024
        assert live.endswith(b"not shown live ...]\n")
        end = next(event for event in events if event["type"] == "exec_command_end")
        assert len(end["stdout"]) <= 48 * 1024 + 100
        assert end["stdout"].startswith("aaa")
        assert end["stdout"].endswith("the end\n")
        assert re.search(r"\n\[\.\.\. omitted \d+ of 13107408 bytes \.\.\.\]\n", end["stdout"])
        told = json.loads(told_to_model(model.requests[1]))["output"]
        assert len(told.encode()) <= 10 * 1024
        assert told.endswith("the end\n")
        assert "omitted" in told
        assert resident_bytes(client.process.pid) - before < 60 * MEGABYTE


@pytest.mark.slow
async def test_many_thousand_deltas_come_in_order_and_none_is_lost(tmp_path: Path) -> None:
    pieces = [f"{n} " for n in range(10_000)]
    async with scene([deltas(pieces)], tmp_path, check_frames=False) as (_, client):
        call_ = client.call_tool("codex", prompt="count")
        await client.until(lambda: call_.done or None, "the end", 60)
        events = client.events(call_)
        assert "".join(event["delta"] for event in events if event["type"] == "agent_message_delta") == "".join(pieces)
        assert text_of(await call_) == "".join(pieces)
        assert kinds(events)[-2:] == ["agent_message", "task_complete"]


class MuteClient:
    """A server whose output is not read until it is asked for."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, model: ScriptedModel, folder: Path) -> "MuteClient":
        home = folder / "home"
        home.mkdir()
        write_config(home / "config.toml", provider_settings(model.url))
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "CODEX_HOME": str(home)}
        process = await asyncio.create_subprocess_exec(
            *SERVER_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=folder, limit=1
        )
        return cls(process)

    async def send(self, *messages: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def kill(self) -> None:
        if self.process.returncode is not None:
            return
        self.process.kill()
        transport = getattr(self.process, "_transport")  # noqa: B009  # its unread output would keep us waiting
        transport.close()
        await self.process.wait()

    async def read_until(self, method: str, count: int) -> list[dict[str, Any]]:
        """All that was said, down to the `count`-th notification of that method; then the end."""
        assert self.process.stdin
        assert self.process.stdout
        frames: list[dict[str, Any]] = []
        rest = b""
        async with asyncio.timeout(WAIT_SECONDS * 2):
            while len([frame for frame in frames if frame.get("method") == method]) < count:
                *lines, rest = (rest + await self.process.stdout.read(MEGABYTE)).split(b"\n")
                frames += [json.loads(line) for line in lines]
            self.process.stdin.close()
            while await self.process.stdout.read(MEGABYTE):
                pass
            await self.process.wait()
        return frames


def tool(request_id: int | str, name: str, **arguments: object) -> dict[str, object]:
    return {"id": request_id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.mark.slow
async def test_a_client_that_never_reads_costs_bounded_memory_and_holds_up_no_turn(tmp_path: Path) -> None:
    """Far more is said to it than the pipe and the bound take; the turns end all the same, and are on record."""
    words = ["0123456789abcdef" * 64] * 400  # 400 KiB an answer, in both schemas
    async with ScriptedModel([deltas(words)] * 12) as model:
        client = await MuteClient.start(model, tmp_path)
        try:
            for number in range(12):
                await client.send(tool(number, "codex", prompt=f"turn {number}"))
            async with asyncio.timeout(WAIT_SECONDS * 6):
                for number in range(12):
                    assert await model.outcome(number + 1) == "answered"
            assert resident_bytes(client.process.pid) < 200 * MEGABYTE
            home = tmp_path / "home"
            async with McpProcess(model.url, cwd=tmp_path, home=home) as other:
                async with asyncio.timeout(WAIT_SECONDS * 2):
                    while [entry["status"] for entry in await listed(other)] != ["idle"] * 12:
                        pass
                [entry, *_] = await listed(other)
                snapshot = await Stream(other, entry["conversation_id"]).snapshot()
                assert snapshot[-1]["msg"]["last_agent_message"] == "".join(words)
        finally:
            await client.kill()


@pytest.mark.slow
async def test_a_client_that_asks_on_and_never_reads_is_not_listened_to_for_a_while(tmp_path: Path) -> None:
    """Its answers would fill the memory: 20,000 lists of tools are more than 150 MB."""
    count = 20_000
    async with ScriptedModel([]) as model:
        client = await MuteClient.start(model, tmp_path)
        assert client.process.stdin
        client.process.stdin.write(b"".join(b'{"id":%d,"method":"tools/list"}\n' % n for n in range(count)))
        largest = 0
        for _ in range(40):
            largest = max(largest, resident_bytes(client.process.pid))
            await asyncio.sleep(0.05)  # nothing tells that it has stopped to listen
        assert largest < 180 * MEGABYTE
        assert client.process.stdout
        answers = bytearray()
        async with asyncio.timeout(WAIT_SECONDS * 4):
            while answers.count(b"\n", -200_000) == 0 or b'{"id":%d,' % (count - 1) not in answers[-200_000:]:
                answers += await client.process.stdout.read(MEGABYTE)
        assert [int(found) for found in re.findall(rb'^{"id":(\d+),"jsonrpc"', answers, re.MULTILINE)] == [*range(count)]
        await client.kill()


@pytest.mark.slow
async def test_a_slow_client_that_reads_in_the_end_gets_every_record_in_order(tmp_path: Path) -> None:
    words = ["0123456789abcdef" * 256] * 1000
    turns = 6
    async with ScriptedModel([call("shell", command=["echo", "hi"]), deltas(words)] * turns) as model:
        client = await MuteClient.start(model, tmp_path)
        await client.send(tool(1, "conversationCreate"))
        home = tmp_path / "home"
        async with McpProcess(model.url, cwd=tmp_path, home=home) as other:

            async def entry_when(status: str, messages: int) -> dict[str, Any]:
                async with asyncio.timeout(WAIT_SECONDS * 2):
                    while True:
                        entries = await listed(other)
                        if entries and (entries[0]["status"], entries[0]["message_count"]) == (status, messages):
                            return entries[0]
                        await asyncio.sleep(0.02)

            conversation = (await entry_when("idle", 0))["conversation_id"]
            await client.send(tool(2, "conversationStream", conversation_id=conversation, after=0))
            content = [{"type": "text", "text": "go"}]
            for number in range(turns):
                await client.send(tool(10 + number, "conversationSendMessage", conversation_id=conversation, content=content))
                await entry_when("idle", 2 * (number + 1))
            whole = await Stream(other, conversation, after=0).snapshot()
        frames = await client.read_until("task_complete", turns)
    [snapshot] = [frame for frame in frames if frame.get("method") == "notifications/initial_state"]
    events: list[dict[str, Any]] = snapshot["params"]["initial_state"]["events"]
    events += [frame["params"] for frame in frames if "msg" in frame.get("params", {})]
    assert [event for event in events if not event["msg"]["type"].endswith("_delta")] == whole
    told, merged = "", False
    for event in (event["msg"] for event in events):
        if event["type"] == "agent_message_delta":
            told += event["delta"]
        elif event["type"] == "agent_message":
            assert event["message"].startswith(told), "deltas, however merged, are a beginning of the text"
            merged = merged or len(told) < len(event["message"])
            told = ""
    assert merged, "it was slow enough to be spared some"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"a small disk can be mounted by root only: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
async def test_a_full_disk_fails_the_call_with_the_reason_and_all_goes_on_once_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    incompressible = random.Random(1).randbytes(1_000_000).hex()  # long records are kept compressed
    script = [say("one"), say(incompressible), say("three"), say("four")]
    async with scene(script, work, home=small_disk) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="1"))
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * 700_000)
        watcher = Stream(client, thread)
        await watcher.snapshot()
        full = await client.call_tool("codex-reply", threadId=thread, prompt="2")
        assert full["isError"] is True
        assert "is full; free some space" in text_of(full)
        ended = await client.next_notification("notifications/stream_disconnected")
        assert "is full" in ended["params"]["reason"]
        ballast.unlink()
        assert await client.call_tool("codex-reply", threadId=thread, prompt="3") == answered("three", thread)
        stream = Stream(client, thread, after=0)
        await send(client, thread, "4")
        await stream.until("task_complete", 4)
        numbers = [event["_meta"]["seq"] for event in stream.events()]
        assert numbers == sorted(numbers)
        kept = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "assistant"]
        assert kept[0] == "one"
        assert kept[-1] == "three"


async def test_a_store_that_cannot_be_written_fails_each_call_with_the_reason(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "understudy").write_text("a file where a folder should be")
    async with scene([say("ok")], tmp_path, home=home) as (_, client):
        for name, arguments in (("codex", {"prompt": "x"}), ("conversationCreate", {}), ("conversationsList", {})):
            result = await client.call_tool(name, arguments)
            assert result["isError"] is True, name
            assert "CODEX_HOME" in text_of(result), name
        (home / "understudy").unlink()
        assert text_of(await client.call_tool("codex", prompt="x")) == "ok", "it is tried again with each call"


@pytest.mark.slow
async def test_a_damaged_conversation_fails_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with ScriptedModel([say("one"), say("two"), say("three")]) as model:
        async with McpProcess(model.url, cwd=tmp_path, home=home) as client:
            bad = thread_of(await client.call_tool("codex", prompt="1"))
            good = thread_of(await client.call_tool("codex", prompt="2"))
        raw = sqlite3.connect(home / "understudy" / "conversations.db")
        raw.execute("UPDATE records SET data = X'00' WHERE conversation = (SELECT number FROM conversations WHERE id = ?)", (bad,))
        raw.commit()
        raw.close()
        async with McpProcess(model.url, cwd=tmp_path, home=home) as client:
            result = await client.call_tool("codex-reply", threadId=bad, prompt="x")
            assert result["isError"] is True
            assert bad in text_of(result)
            assert "cannot be read" in text_of(result)
            assert (await client.call_tool("conversationStream", conversation_id=bad))["isError"] is True
            assert await client.call_tool("codex-reply", threadId=good, prompt="3") == answered("three", good)
            assert {entry["conversation_id"] for entry in await listed(client)} == {bad, good}


@pytest.mark.slow
async def test_a_hundred_conversations_at_once(tmp_path: Path) -> None:
    async with scene([say("ok")] * 60, tmp_path, check_frames=False) as (_, client):
        made = [await create(client, prompt=f"{n}") for n in range(30)]
        calls = [client.call_tool("codex", prompt=f"{n}") for n in range(30)]
        for call_ in calls:
            assert text_of(await call_) == "ok"
        for conversation in made:
            await Stream(client, conversation).until("task_complete")


@pytest.mark.slow
async def test_turns_beyond_the_files_that_may_be_open_fail_for_that_reason_and_the_next_one_works(tmp_path: Path) -> None:
    few_files = ("sh", "-c", 'ulimit -n 48; exec "$@"', "sh", *SERVER_COMMAND)
    model = ObligingModel()
    async with model.serving(), McpProcess(model.url, cwd=tmp_path, command=few_files) as client:
        threads = [await create(client) for _ in range(60)]
        calls = [client.call_tool("codex-reply", threadId=thread, prompt="echo") for thread in threads]
        results = [await call for call in calls]
        refused = [text_of(result) for result in results if result.get("isError")]
        assert refused
        assert [text for text in refused if "oo many" not in text] == [], "each says why"
        for thread in threads[:3]:
            later = client.call_tool("codex-reply", threadId=thread, prompt="echo")
            assert text_of(await later) == "done"
            assert (await client.event("exec_command_end", later))["stdout"] == "hi\n"
        assert "Traceback" not in client.stderr
