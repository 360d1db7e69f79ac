"""A token of an issuer (JWT) that expires while a stream is open: the stream ends unless its owner has come with a newer one."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.e2e.http.test_issuer import issued
from tests.e2e.http.test_rights_in_use import is_let_go
from tests.support.http_server import HttpClient
from understudy.servers.http.issuer import LEEWAY_SECONDS
from understudy.testing import HOLD, ScriptedModel, deltas
from understudy.testing.waiting import WAIT_SECONDS

LIVES = 12  # seconds: a busy machine needs some of them to begin


def nearly_over() -> int:
    """When a token has expired that is still accepted for a while."""
    return int(time.time()) - LEEWAY_SECONDS + LIVES


@pytest.mark.slow
async def test_streams_end_with_the_token_and_the_turn_goes_on_for_whoever_comes_with_the_next(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, issued(tmp_path, model) as (issuer, server):
        alice = HttpClient(server.port, issuer.token(exp=nearly_over()))
        await alice.initialize()
        waiting = await alice.listen()
        running = await alice.call("codex", {"prompt": "x"})
        await model.next_request(1)
        assert await is_let_go(waiting, running)
        assert (await alice.post("ping")).status == 401
        model.release()
        later = HttpClient(server.port, issuer.token())
        await later.initialize()
        [row] = (await later.result("conversationsList", {}))["structuredContent"]["conversations"]
        thread = row["conversation_id"]
        assert (await later.result("codex-reply", {"threadId": thread}))["structuredContent"]["content"] == "ab"


@pytest.mark.slow
async def test_a_stream_outlives_its_token_where_its_owner_has_shown_a_newer_one(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, issued(tmp_path, model) as (issuer, server):
        alice = HttpClient(server.port, issuer.token(exp=nearly_over()))
        await alice.initialize()
        running = await alice.call("codex", {"prompt": "x"})
        await model.next_request(1)
        newer = HttpClient(server.port, issuer.token())
        await newer.initialize()
        async with asyncio.timeout(LIVES + WAIT_SECONDS):
            while (await alice.post("ping")).status != 401:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        model.release()
        shown = [event["data"] async for event in running.events() if event.get("data")]
        assert shown[-1]["result"]["structuredContent"]["content"] == "ab"
