"""`keep_days` where a server was started while the clock of the machine was wrong."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.http.test_metrics import until
from tests.e2e.http.test_retention import DAY, DELETED, age, connected, database, listed, make
from tests.support.http_server import HttpServer
from understudy.testing import ScriptedModel, say

SHIFTED = """
import time
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + {seconds}
time.time_ns = lambda: real_ns() + {seconds} * 10**9
"""


def shifted_clock(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of a Python whose clock is so far ahead."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFTED.format(seconds=seconds), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
@pytest.mark.parametrize("days", [30, 400, 18_000])
async def test_what_is_begun_by_a_server_that_was_started_with_a_clock_set_back_is_kept(tmp_path: Path, days: int) -> None:
    env = shifted_clock(tmp_path / "shifted", -days * DAY)
    async with ScriptedModel([say("ok") for _ in range(4)]) as model:
        async with HttpServer(tmp_path, model) as server:
            client = await connected(server)
            old, before = await make(client), await make(client)
        async with HttpServer(tmp_path, model, env=env) as server:
            begun = await make(await connected(server))
        async with HttpServer(tmp_path, model, env=env) as server:
            again = await make(await connected(server))
        with closing(sqlite3.connect(database(server))) as raw:
            [earliest] = raw.execute("SELECT min(at) FROM records").fetchone()
        assert time.time() - earliest < DAY / 2
        age(server, {old: 8})
        async with HttpServer(tmp_path, model, config={"understudy.serve.keep_days": 7}) as server:
            client = await connected(server)
            await until(client, DELETED, 1, reason="age")
            assert await listed(client) == {before, begun, again}
