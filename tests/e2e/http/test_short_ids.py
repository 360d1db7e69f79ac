"""Ids of tasks and keys of questions: some clients take at most 128 printable characters, and gateways add some of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.http.test_issuer import issued
from tests.support.http_server import HttpClient
from tests.support.task_clients import HttpDoor, TaskClient
from understudy.testing import ScriptedModel, call, say

SHORT = re.compile(r"[\x21-\x7e]{1,48}")


@pytest.mark.quick(2)
@pytest.mark.parametrize("subject", ["x" * 127, "auth0|6e0f?realm=https://issuer.example/a&b=c%20d", "a", "~" * 64])
async def test_ids_are_short_whoever_asks_in_whatever_folder_and_mean_the_same_after_a_kill(tmp_path: Path, subject: str) -> None:
    deep = tmp_path / ("d" * 200) / ("e" * 200) / "work"
    deep.mkdir(parents=True)
    touch = call("shell", call_id="call_" + "c" * 400, command=["touch", "made.txt"])
    async with ScriptedModel([touch, say("done")]) as model, issued(tmp_path, model) as (issuer, server):
        client = TaskClient(HttpDoor(HttpClient(server.port, issuer.token(sub=subject))))
        task = await client.begin(cwd=str(deep), sandbox="workspace-write", **{"approval-policy": "untrusted"})
        asked = await client.asked(task)
        assert SHORT.fullmatch(task)
        assert all(SHORT.fullmatch(key) for key in asked)
        await server.kill()
        await server.start()
        other = TaskClient(HttpDoor(HttpClient(server.port, issuer.token(sub=subject + "x"))))  # 128 is the most
        assert (await other.message("tasks/get", {"taskId": task}))["error"]["code"] == -32602
        again = await client.asked(task)
        assert set(again) == set(asked)
        await client.update(task, {key: {"action": "accept"} for key in again})
        end = await client.over(task)
        assert end["result"]["structuredContent"]["content"] == "done"
        assert (deep / "made.txt").exists()
