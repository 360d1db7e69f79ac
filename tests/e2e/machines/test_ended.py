"""What ends at one front end ends at all, though each would take it for valid: they have the same keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.http_server import HttpClient
from tests.support.machines import Machines, machines
from tests.support.rest_client import RestClient, log_in, printed_link
from tests.support.task_clients import HttpDoor, TaskClient
from understudy.testing import HOLD, deltas
from understudy.testing.waiting import WAIT_SECONDS


async def until(found: Callable[[], Awaitable[object]], wanted: object) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while await found() != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def at_other(those: Machines, browser: RestClient, name: str) -> RestClient:
    """The same browser at another front end: behind one proxy both have one port, which is in the cookie's name."""
    assert browser.cookie is not None
    port = those.servers[name].port
    return RestClient(port, cookie=f"understudy-{port}={browser.cookie.partition('=')[2]}")


@pytest.mark.slow
async def test_a_browser_that_logs_out_at_one_front_end_is_logged_out_at_all(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["half ", HOLD])], workers=("a",)) as those:
        name = (await those.rest("x").create(those.work("w"), "begin"))["id"]
        code = await printed_link(those.servers["x"])
        here = await log_in(those.servers["x"])
        there = at_other(those, here, "y")
        assert (await there.request("POST", "/login", {"code": code}, {"Origin": there.origin})).status == 401, "a link works once"
        stream = await there.stream(name)
        assert (await here.request("POST", "/logout", headers={"Origin": here.origin})).status == 204
        assert await stream.is_over()
        await until(lambda: there.status("GET", "/v1/conversations"), (401, "unauthorized"))
        await those.servers["y"].stop()
        await those.servers["y"].start()
        assert (await there.status("GET", "/v1/conversations"))[0] == 401


@pytest.mark.slow
async def test_a_session_that_a_client_ends_is_over_at_all_front_ends(tmp_path: Path) -> None:
    async with machines(tmp_path, [], workers=()) as those:
        x = await those.client("x")
        y = HttpClient(those.servers["y"].port, x.token)
        y.session = x.session

        async def status() -> int:
            return (await y.post("ping")).status

        assert await status() == 200
        assert (await x.request("DELETE", x.session_headers())).status in (200, 204)
        await until(status, 404)


@pytest.mark.slow
async def test_a_task_that_leaves_a_turn_has_left_it_at_all_front_ends(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["half ", HOLD, "whole"])], workers=("a",)) as those:
        x, y = (TaskClient(HttpDoor(HttpClient(those.servers[name].port, those.servers[name].token))) for name in ("x", "y"))
        await x.begin(cwd=str(those.work("w")))
        await those.model.next_request(1)
        [listed] = (await y.call("conversationsList"))["structuredContent"]["conversations"]
        waits = (await x.call("codex-reply", threadId=listed["conversation_id"]))["taskId"]
        assert (await y.get(waits))["status"] == "working"
        await x.cancel(waits)
        assert (await y.over(waits))["status"] == "cancelled"
        those.model.release()
