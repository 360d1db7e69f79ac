"""`keep_days` and `max_store_mb` of the real server: what is deleted, what never is, and that the file gets smaller meanwhile."""

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.http.test_metrics import until, value
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

DAY = 86_400
DELETED = "understudy_conversations_deleted_total"


def database(server: HttpServer) -> Path:
    return server.home.path / "understudy" / "conversations.db"


def age(server: HttpServer, days: dict[str, float]) -> None:
    """As if they had not been used for so many days."""
    with closing(sqlite3.connect(database(server), isolation_level=None)) as raw:
        for conversation, number in days.items():
            raw.execute("UPDATE conversations SET updated_at = ? WHERE id = ?", (time.time() - number * DAY, conversation))


async def make(client: HttpClient, **arguments: Any) -> str:
    result = await client.result("codex", {"prompt": "x", **arguments})
    return result["structuredContent"]["threadId"]


async def reply(client: HttpClient, conversation: str) -> str:
    result = await client.result("codex-reply", {"threadId": conversation, "prompt": "x"})
    return result["structuredContent"]["content"]


async def listed(client: HttpClient, **arguments: Any) -> set[str]:
    found = (await client.result("conversationsList", {"limit": 100, **arguments}))["structuredContent"]["conversations"]
    return {row["conversation_id"] for row in found}


async def connected(server: HttpServer) -> HttpClient:
    client = HttpClient(server.port, server.token)
    await client.initialize()
    return client


@pytest.mark.slow
async def test_what_nobody_used_for_so_many_days_goes_whole_and_what_waits_or_runs_stays(tmp_path: Path) -> None:
    script = [*[say("ok") for _ in range(3)], call("shell", command=["touch", "made.txt"]), deltas(["a", HOLD, "b"])]
    config = {**FORBIDDING, "understudy.unasked": "wait"}
    async with ScriptedModel(script) as model:
        async with HttpServer(tmp_path, model, config=config) as server:
            client = await connected(server)
            old, archived, young = await make(client), await make(client), await make(client)
            await client.result("conversationArchive", {"conversation_id": archived})
            made = await client.result("conversationCreate", {"prompt": "make it"})
            waiting = made["structuredContent"]["conversation_id"]
            await model.next_request(4)
            await until(client, "understudy_questions_open", 1)
        age(server, {old: 8, archived: 8, young: 6, waiting: 30})
        kept_tmp = server.home.path / "understudy" / "tmp" / old
        kept_tmp.mkdir(parents=True, exist_ok=True)
        (kept_tmp / "left.txt").write_text("x")
        async with HttpServer(tmp_path, model, config={**config, "understudy.serve.keep_days": 7}) as server:
            client = await connected(server)
            samples = await until(client, DELETED, 2, reason="age")
            assert value(samples, DELETED, reason="size") == 0
            assert await listed(client) == {young, waiting}
            assert await listed(client, archived=True) == set()
            assert (await client.result("codex-reply", {"threadId": old, "prompt": "x"}))["isError"] is True
            for conversation in (old, archived):
                await server.until_told(f"conversation {conversation} of local, last used ")
            await server.until_told("`keep_days` is 7")
            with closing(sqlite3.connect(database(server))) as raw:
                assert raw.execute("SELECT count(DISTINCT conversation) FROM records").fetchone() == (2,)
            async with asyncio.timeout(WAIT_SECONDS):
                while kept_tmp.exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            done = await client.result("conversationApprove", {"conversation_id": waiting, "call_id": "call1", "decision": "abort"})
            assert done["structuredContent"] == {"status": "ok"}, "it waited for a month, and still does"
            running = (await client.result("conversationCreate", {"prompt": "go"}))["structuredContent"]["conversation_id"]
            await model.next_request(5)
            assert running in await listed(client)
            model.release()


def big() -> str:
    return os.urandom(300_000).hex()  # of no use to compress


@pytest.mark.slow
async def test_beyond_its_size_the_oldest_go_and_the_file_gets_smaller_while_others_are_served(tmp_path: Path) -> None:
    script = [say("ok") for _ in range(10)]
    async with ScriptedModel(script) as model:
        async with HttpServer(tmp_path, model) as server:
            client = await connected(server)
            made = [await make(client, prompt=big()) for _ in range(8)]
            await client.result("conversationArchive", {"conversation_id": made[7]})
        before = database(server).stat().st_size
        age(server, {conversation: 20 - number for number, conversation in enumerate(made)})
        async with HttpServer(tmp_path, model, config={"understudy.serve.max_store_mb": 2}) as server:
            client = await connected(server)
            async with asyncio.timeout(WAIT_SECONDS):
                while database(server).stat().st_size > 2 << 20:
                    assert (await client.post("ping")).status == 200
            left = await listed(client)
            assert made[7] not in left | await listed(client, archived=True), "archived ones go first"
            kept = [conversation in left for conversation in made[:7]]
            assert kept == sorted(kept), "then the oldest"
            assert kept[6]
            assert before > 4 << 20
            samples = await until(client, DELETED, 8 - sum(kept), reason="size")
            assert value(samples, "understudy_store_bytes") > 0
            await server.until_told("`max_store_mb`")
            assert (await client.result("codex-reply", {"threadId": made[6], "prompt": "x"}))["structuredContent"][
                "content"
            ] == "ok"
            again = await make(client)
            assert again in await listed(client)


@pytest.mark.slow
async def test_where_nothing_may_go_no_new_conversation_is_begun_and_those_that_are_there_go_on(tmp_path: Path) -> None:
    script = [say("ok") for _ in range(4)]
    async with ScriptedModel(script) as model:
        async with HttpServer(tmp_path, model) as server:
            client = await connected(server)
            made = [await make(client, prompt=big()) for _ in range(3)]
        async with HttpServer(tmp_path, model, config={"understudy.serve.max_store_mb": 1}) as server:
            client = await connected(server)
            await server.until_told("no new conversation is begun")
            refused = await client.result("codex", {"prompt": "x"})
            assert refused["isError"] is True
            assert "the store is full" in refused["content"][0]["text"]
            assert "max_store_mb" in refused["content"][0]["text"]
            assert (await client.result("conversationCreate", {"prompt": "x"}))["isError"] is True
            assert (await client.result("conversationFork", {"conversation_id": made[0]}))["isError"] is True
            assert (await client.result("codex-reply", {"threadId": made[0], "prompt": "x"}))["structuredContent"][
                "content"
            ] == "ok"
            assert await listed(client) == set(made), "what was used today stays"
