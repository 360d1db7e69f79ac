"""A folder that is judged for a caller is the folder that is used, though a link on its way is swapped all the time."""

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import HttpClient, serving
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Opened, Pins, UserMessage
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import ScriptedModel, hang, say

TRIES = 150
AT_ONCE = 10


@contextmanager
def swapping(link: Path, *targets: Path) -> Generator[None]:
    """A link that points at each of these in turn, as fast as it goes."""
    ended = threading.Event()

    def swap() -> None:
        beside = link.with_name("beside")
        while not ended.is_set():
            for target in targets:
                os.symlink(target, beside)
                os.replace(beside, link)

    link.symlink_to(targets[0])
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def pins_of(home: Path, conversations: list[str]) -> list[Pins]:
    with closing(SqliteLog(home / "understudy")) as log:
        entries = [entry for each in conversations for entry in await log.read(ConversationId(each))]
    records = [entry.record for entry in entries]
    return [record.pins for record in records if isinstance(record, Opened | UserMessage) and record.pins is not None]


async def tried(client: HttpClient, tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for _ in range(TRIES // AT_ONCE):
        results += await asyncio.gather(*(client.result(tool, arguments) for _ in range(AT_ONCE)))
    return results


@pytest.mark.slow
async def test_a_link_that_is_swapped_between_the_check_and_the_use_leads_nowhere_else(tmp_path: Path) -> None:
    config = {"sandbox_mode": "workspace-write", "understudy.serve.rate": 100_000}
    async with ScriptedModel([]) as model, serving(tmp_path, model, config=config) as (server, _):
        inside, outside = server.cwd / "inside", tmp_path / "outside"
        inside.mkdir()
        outside.mkdir()
        alice = HttpClient(server.port, await server.add_token("alice", "--root", str(server.cwd)))
        await alice.initialize()
        with swapping(server.cwd / "link", inside, outside):
            results = await tried(alice, "conversationCreate", {"cwd": str(server.cwd / "link")})
        made = [result["structuredContent"]["conversation_id"] for result in results if not result.get("isError")]
        for pins in await pins_of(server.home.path, made):
            assert pins.places[0].path == str(inside)
        # and where the link stands still
        fine = await alice.result("conversationCreate", {"cwd": str(inside)})
        (server.cwd / "out").symlink_to(outside)
        refused = await alice.result("conversationCreate", {"cwd": str(server.cwd / "out")})
        assert (fine["isError"], refused["isError"]) == (False, True)


@pytest.mark.slow
async def test_nor_does_one_that_a_message_changes_to(tmp_path: Path) -> None:
    config = {"sandbox_mode": "workspace-write", "understudy.serve.rate": 100_000}
    async with ScriptedModel([hang()]) as model, serving(tmp_path, model, config=config) as (server, _):
        inside, outside = server.cwd / "inside", tmp_path / "outside"
        inside.mkdir()
        outside.mkdir()
        alice = HttpClient(server.port, await server.add_token("alice", "--root", str(server.cwd)))
        await alice.initialize()
        made = await alice.result("conversationCreate", {"cwd": str(inside)})
        thread = made["structuredContent"]["conversation_id"]
        message = {
            "conversation_id": thread,
            "content": [{"type": "text", "text": "x"}],
            "cwd": str(server.cwd / "link"),
        }
        with swapping(server.cwd / "link", inside, outside):
            results = await tried(alice, "conversationSendMessage", message)
        taken = [result for result in results if not result["isError"]]
        pinned = await pins_of(server.home.path, [thread])
        assert len(pinned) == 1 + len(taken)
        for pins in pinned:
            assert pins.places[0].path == str(inside)
        await alice.result("conversationInterrupt", {"conversation_id": thread})


@pytest.mark.slow
async def test_who_is_held_to_a_folder_cannot_go_back_to_where_a_conversation_worked_before(tmp_path: Path) -> None:
    config = {"sandbox_mode": "workspace-write"}
    async with (
        ScriptedModel([say("one"), say("two"), say("three")]) as model,
        serving(tmp_path, model, config=config) as (server, local),
    ):
        inside, outside = server.cwd / "inside", tmp_path / "outside"
        inside.mkdir()
        outside.mkdir()
        await local.initialize()
        first = await local.result("conversationCreate", {"cwd": str(outside)})
        thread = first["structuredContent"]["conversation_id"]
        text = [{"type": "text", "text": "x"}]

        async def send(who: HttpClient, **more: str) -> dict[str, Any]:
            result = await who.result("conversationSendMessage", {"conversation_id": thread, "content": text, **more})
            if not result["isError"]:
                await who.result("codex-reply", {"threadId": thread})  # until its turn is over
            return result

        earlier = (await send(local))["_meta"]["messageId"]
        await send(local, cwd=str(inside))
        bob = HttpClient(server.port, await server.add_token("bob", "--others", "run,read", "--root", str(server.cwd)))
        await bob.initialize()
        refused = await send(bob, parent_message_id=earlier)
        assert refused["isError"] is True
        assert "may not work in" in refused["content"][0]["text"]
        assert (await send(bob))["isError"] is False
