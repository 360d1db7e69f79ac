"""`/healthz` and `/readyz`: for who starts and watches the server, without a token, and with one word as the answer."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.http_server import HttpClient, HttpServer


async def test_a_server_is_ready_while_it_can_read_its_store_and_says_no_more(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        client = HttpClient(server.port, None)
        for path in ("/healthz", "/readyz"):
            response = await client.request("GET", path=path)
            assert (response.status, await response.json()) == (200, {"status": "ok"})
        assert (await client.request("POST", path="/readyz")).status == 404
        with closing(sqlite3.connect(server.home.path / "understudy" / "conversations.db", isolation_level=None)) as raw:
            raw.execute("ALTER TABLE conversations RENAME TO elsewhere")
            refused = await client.request("GET", path="/readyz")
            assert (refused.status, await refused.json()) == (503, {"status": "not ready"})
            assert (await client.request("GET", path="/healthz")).status == 200, "it lives, and need not be restarted"
            raw.execute("ALTER TABLE elsewhere RENAME TO conversations")
        assert (await client.request("GET", path="/readyz")).status == 200


async def test_a_server_whose_store_was_deleted_is_not_ready_and_lists_nothing_as_if_it_were_kept(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        client = HttpClient(server.port, server.token)
        assert (await client.request("GET", path="/v1/conversations")).status == 200
        (server.home.path / "understudy" / "conversations.db").unlink()
        assert (await client.request("GET", path="/readyz")).status == 503
        assert (await client.request("GET", path="/healthz")).status == 200
        listed = await client.request("GET", path="/v1/conversations")
        assert listed.status == 503
        assert "restart the server" in (await listed.json())["error"]["message"]
