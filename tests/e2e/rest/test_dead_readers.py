"""Clients that open a stream and never read it."""

import socket
from pathlib import Path

import pytest

from tests.support.rest_client import serving_rest
from understudy.testing import ScriptedModel, deltas


@pytest.mark.slow
async def test_the_server_ends_without_a_word_though_somebody_does_not_read_what_they_are_sent(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["y" * 200_000] * 20)]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "go", sandbox="danger-full-access")
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        stream.close()
        head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
        readers: list[socket.socket] = []
        for _ in range(3):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(f"GET /v1/conversations/{row['id']}/events?stream=1 HTTP/1.1\r\n{head}\r\n".encode())
            assert reader.recv(12, socket.MSG_PEEK)  # it was begun; there is far more than this connection holds
            readers.append(reader)
        assert await server.stop() == 0
        assert "Exception" not in server.stderr
        for reader in readers:
            reader.close()
