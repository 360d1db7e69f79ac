"""Long conversations for viewers who do not read, or ask for many at once: memory stays bounded, and a ping is answered."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.e2e.scenes import resident_bytes, scene
from tests.e2e.talking import Stream, create, send
from tests.e2e.test_rough_clients import MEGABYTE, MuteClient, tool
from tests.store.records import append, new_id, noticed, open_log, opened, position_of
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Noticed
from understudy.store.log import Batch
from understudy.testing import HOLD, ScriptedModel, deltas, say
from understudy.testing.waiting import WAIT_SECONDS


async def store_conversation(home: Path, records: int, size: int = 0) -> ConversationId:
    log = open_log(home / "understudy")
    name = new_id()
    await append(log, opened(name))
    for start in range(0, records, 5000):
        batch = noticed(name, 1, start + 2, count=min(5000, records - start))
        await append(log, padded(batch, size) if size else batch)
    log.close()
    return name


def padded(batch: Batch, size: int) -> Batch:
    entries: list[Entry] = []
    for entry in batch.entries:
        assert isinstance(entry.record, Noticed)
        entries.append(msgspec.structs.replace(entry, record=Noticed(entry.record.message + "x" * size)))
    return msgspec.structs.replace(batch, entries=tuple(entries))


@pytest.mark.slow
async def test_hundreds_of_streams_that_nobody_reads_cost_no_more_than_a_few(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model:
        client = await MuteClient.start(model, tmp_path)
        try:
            names = [await store_conversation(tmp_path / "home", 500, 8 * 1024) for _ in range(3)]
            await client.send({"id": 0, "method": "ping"})
            for number in range(300):
                await client.send(tool(number + 1, "conversationStream", conversation_id=names[number % 3], after=0))
            await client.send(tool(301, "conversationDelete", conversation_id=names[0]))  # on disk: it tells that all were taken
            largest = 0
            async with asyncio.timeout(WAIT_SECONDS):
                while is_stored(tmp_path / "home", names[0]):
                    largest = max(largest, resident_bytes(client.process.pid))
                    await asyncio.sleep(0.05)
            assert max(largest, resident_bytes(client.process.pid)) < 160 * MEGABYTE
            frames = await client.read_until("notifications/initial_state", 2)
        finally:
            await client.kill()
    answers = [frame["id"] for frame in frames if "result" in frame]
    assert answers[0] == 0
    assert sorted(answers[1:301]) == list(range(1, 301)), "every request is answered"
    for first in (1, 2, 3):  # the conversations take turns
        of_one = [answer for answer in answers[1:301] if answer % 3 == first % 3]
        assert of_one == list(range(first, 301, 3)), "those of one conversation in order"


MANY = 10_000


@pytest.mark.slow
async def test_ten_thousand_subscriptions_of_one_client_are_answered_with_pings_between_and_the_last_is_live(
    tmp_path: Path,
) -> None:
    async with scene([deltas(["o", "ne"])], tmp_path, check_frames=False) as (_, client):
        conversation = await create(client)
        before = resident_bytes(client.process.pid)
        lines: list[bytes] = []
        for number in range(MANY):
            lines.append(msgspec.json.encode(tool(f"s{number}", "conversationStream", conversation_id=conversation)) + b"\n")
            if number % 1000 == 999:
                lines.append(b'{"jsonrpc":"2.0","id":"ping %d","method":"ping"}\n' % number)
        for start in range(0, len(lines), 500):
            await client.send_raw(b"".join(lines[start : start + 500]))
        for number in range(999, MANY, 1000):
            assert await client.answer(f"ping {number}") == {}
        await send(client, conversation, "go")
        await client.wait_for_frame(lambda frame: frame.get("method") == "task_complete", "the end of the turn")
        assert resident_bytes(client.process.pid) - before < 40 * MEGABYTE
        live = [frame for frame in client.frames if frame.get("method") in ("agent_message", "task_complete")]
        assert [frame["method"] for frame in live] == ["agent_message", "task_complete"], "one subscription is live"
        answers = [frame["id"] for frame in client.frames if str(frame.get("id", "")).startswith("s")]
        assert answers == [f"s{number}" for number in range(MANY)]
        assert len(client.notifications("notifications/stream_disconnected")) == MANY - 1


@pytest.mark.slow
async def test_ten_thousand_subscriptions_that_nobody_reads_cost_little_and_hold_nobody_up(tmp_path: Path) -> None:
    async with ScriptedModel([deltas([f"{n} " for n in range(200)])]) as model:
        mute = await MuteClient.start(model, tmp_path)
        try:
            home = tmp_path / "home"
            name = await store_conversation(home, 500, 8 * 1024)
            last = await store_conversation(home, 1)
            await mute.send({"id": 0, "method": "ping"})
            for start in range(0, MANY, 500):
                requests = [tool(n + 1, "conversationStream", conversation_id=name) for n in range(start, start + 500)]
                await mute.send(*requests)
            await mute.send(
                tool(MANY + 1, "conversationSendMessage", conversation_id=name, content=[{"type": "text", "text": "go"}])
            )
            await mute.send(tool(MANY + 2, "conversationDelete", conversation_id=last))  # on disk: it tells that all were taken
            await model.next_request(1)  # what nobody reads does not keep a turn from running
            largest = 0
            async with asyncio.timeout(WAIT_SECONDS):
                while is_stored(home, last):
                    largest = max(largest, resident_bytes(mute.process.pid))
                    await asyncio.sleep(0.05)
            assert max(largest, resident_bytes(mute.process.pid)) < 160 * MEGABYTE
        finally:
            await mute.kill()


def is_stored(home: Path, name: str) -> bool:
    log = open_log(home / "understudy")
    try:
        return position_of(log, ConversationId(name)) is not None
    finally:
        log.close()


@pytest.mark.slow
async def test_a_ping_is_answered_while_a_long_conversation_is_put_together(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    count = 40_000
    name = await store_conversation(home, count)
    async with scene([], tmp_path, home=home, check_frames=False) as (_, client):
        asked = [
            tool("stream", "conversationStream", conversation_id=name),
            *({"id": f"ping {n}", "method": "ping"} for n in range(5)),
        ]
        await client.send_raw(b"".join(msgspec.json.encode(request) + b"\n" for request in asked))  # at once
        snapshot = await client.next_notification("notifications/initial_state")
        shown = [event["msg"]["message"] for event in snapshot["params"]["initial_state"]["events"]]
        assert shown == [f"note {n}" for n in range(2, count + 2)]
        before = [frame.get("id") for frame in client.frames[: client.frames.index(snapshot)]]
        assert {"stream", *(f"ping {n}" for n in range(5))} <= set(before)


@pytest.mark.slow
async def test_what_happens_while_a_snapshot_is_put_together_is_shown_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    count = 20_000
    name = await store_conversation(home, count)
    async with scene([say("one"), say("two")], tmp_path, home=home, check_frames=False) as (_, client):
        stream = Stream(client, name, after=0)
        await send(client, name, "go")
        await stream.until("task_complete")
        await send(client, name, "again")
        await stream.until("task_complete", 2)
        numbers = [event["_meta"]["seq"] for event in stream.events() if event["msg"]["type"] != "agent_message_delta"]
        assert numbers == sorted(set(numbers))
        assert stream.kinds("agent_message_delta")[-4:] == ["user_message", "task_started", "agent_message", "task_complete"]


@pytest.mark.slow
async def test_a_stream_cancelled_before_its_snapshot_was_ready_sends_none(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    name = await store_conversation(home, 20_000)
    async with scene([], tmp_path, home=home, check_frames=False) as (_, client):
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "first"}}
        asked = [tool("first", "conversationStream", conversation_id=name), cancel]
        await client.send_raw(b"".join(msgspec.json.encode(message) + b"\n" for message in asked))  # at once
        await client.answer("first")
        second = Stream(client, name, after=20_000)
        third = Stream(client, name, after=20_000)
        await third.call  # the second's snapshot, which looks alike, may come before it
        assert [event["_meta"]["seq"] for event in await third.snapshot()] == [20_001]
        await client.request("ping")
        snapshots = [frame for frame in client.frames if frame.get("method") == "notifications/initial_state"]
        assert len(snapshots) <= 2, "at most those of the two that were not cancelled"
        told = [frame["params"]["_meta"]["requestId"] for frame in client.notifications("notifications/stream_disconnected")]
        assert told == [second.call.id], "the one that was taken over"


async def test_after_a_number_beyond_the_end_it_goes_on_at_the_end(tmp_path: Path) -> None:
    async with scene([deltas(["o", HOLD, "ne"])], tmp_path) as (model, client):
        conversation = await create(client)
        stream = Stream(client, conversation, after=4711)
        assert await stream.snapshot() == []
        [snapshot] = client.notifications("notifications/initial_state")
        assert snapshot["params"]["_meta"] == {"conversationId": conversation, "seq": 1}, "and says where the end is"
        await send(client, conversation, "go")
        await stream.until("agent_message_delta")
        model.release()
        await stream.until("task_complete")
        assert stream.kinds("agent_message_delta") == ["user_message", "task_started", "agent_message", "task_complete"]
