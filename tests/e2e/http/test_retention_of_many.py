"""`keep_days` where a great many conversations are too old: they go in groups, all of them, and nothing else does."""

import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.http.test_metrics import until
from tests.e2e.http.test_retention import DAY, DELETED, connected, database, listed, make
from tests.support.http_server import HttpServer
from understudy.store.sqlite.event_log import number_of
from understudy.testing import ScriptedModel, say

MANY = 600  # more than are deleted together


def copy(path: Path, conversation: str, days: list[float]) -> list[str]:
    """As many copies of it, not used for so many days."""
    ids = [str(uuid.uuid4()) for _ in days]
    with closing(sqlite3.connect(path)) as raw, raw:
        rows = list(raw.execute("SELECT * FROM records WHERE conversation = ?", (number_of(conversation),)))
        [head] = raw.execute("SELECT * FROM conversations WHERE id = ?", (conversation,))
        for copied, age in zip(ids, days, strict=True):
            values = (number_of(copied), copied, *head[2:5], time.time() - age * DAY, *head[6:])
            raw.execute(f"INSERT INTO conversations VALUES ({','.join('?' * len(values))})", values)
            for row in rows:
                raw.execute(f"INSERT INTO records VALUES ({','.join('?' * len(row))})", (number_of(copied), *row[1:]))
    return ids


@pytest.mark.slow
async def test_all_that_are_too_old_go_and_no_other(tmp_path: Path) -> None:
    async with ScriptedModel([say("ok")]) as model:
        async with HttpServer(tmp_path, model) as server:
            client = await connected(server)
            used = await make(client)
            await client.result("conversationsSearch", {"query": "x"})  # from now on each has to be forgotten by the index, too
        old = [20 - number / MANY for number in range(MANY)]
        young = copy(database(server), used, [*old, 6.9, 6.8])[MANY:]
        async with HttpServer(tmp_path, model, config={"understudy.serve.keep_days": 7}) as server:
            client = await connected(server)
            await until(client, DELETED, MANY, reason="age")
            assert await listed(client) == {used, *young}
            with closing(sqlite3.connect(database(server))) as raw:
                assert raw.execute("SELECT count(DISTINCT conversation) FROM records").fetchone() == (3,)
