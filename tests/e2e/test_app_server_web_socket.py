"""`app-server --listen ws://…`: for several clients, who are let in by their user or a token, and never from a page."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.web_socket_client import CLOSE, PING, PONG, TEXT, Closed, WebSocketClient
from understudy.servers.app_server.door_keeper import is_same_user
from understudy.servers.app_server.web_socket import FrameReader
from understudy.testing import CodexHome, ScriptedModel, call, hang, say
from understudy.testing.waiting import WAIT_SECONDS

ANY_PORT = "ws://127.0.0.1:0"
TOKEN = "a-token-that-is-long-enough"


class Listening:
    def __init__(self, process: asyncio.subprocess.Process, address: str, folder: Path) -> None:
        self.process = process
        self.address = address
        self.folder = folder
        self.clients: list[WebSocketClient] = []

    async def client(self, **headers: str) -> WebSocketClient:
        client = await WebSocketClient.connect(self.address, **headers)
        self.clients.append(client)
        return client

    async def met(self, **headers: str) -> WebSocketClient:
        client = await self.client(**headers)
        assert client.status == 101, client.body
        assert "result" in await client.initialize()
        return client

    async def stop(self) -> int:
        if self.process.returncode is None:
            self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)


@asynccontextmanager
async def listening(
    tmp_path: Path, model: Any = None, *, at: str = ANY_PORT, args: Sequence[str] = (), **config: Any
) -> AsyncGenerator[Listening]:
    home = CodexHome(tmp_path / "user" / ".codex", model, config=config)
    command = (sys.executable, "-m", "understudy", "app-server", "--listen", at, *args)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=home.environment(), stdout=pipe, stderr=pipe)
    assert process.stderr is not None
    said = ""
    while "listening on: " not in said:
        line = (await asyncio.wait_for(process.stderr.readline(), WAIT_SECONDS)).decode()
        assert line, said
        said += line
    server = Listening(process, said.partition("listening on: ")[2].strip(), tmp_path)
    try:
        yield server
        assert await server.stop() == 0
    finally:
        for client in server.clients:
            client.abort()
        await asyncio.sleep(0)
        if process.returncode is None:
            process.kill()
        _, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
        assert b"Traceback" not in err, err.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say whose a TCP connection is")
def test_whoever_has_sent_all_and_gone_is_not_taken_for_root() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(WAIT_SECONDS)
        with socket.socket() as stays, socket.socket() as goes:
            for client in (stays, goes):
                client.connect(door.getsockname())
            goes.sendall(b"GET / HTTP/1.1\r\n\r\n")
            goes.close()
            first, second = door.accept()[0], door.accept()[0]
            with first, second:
                assert is_same_user(first)
                second.settimeout(WAIT_SECONDS)
                while second.recv(100):  # until its end has come
                    pass
                assert not is_same_user(second)


def test_the_parts_of_a_message_take_no_more_room_than_it_has() -> None:
    reader = FrameReader(1 << 20)
    assert reader.feed(b"\x01\x80" + bytes(4)) == []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(100):  # of 1,000 empty parts each, and 100 that have one byte
            assert reader.feed((b"\x00\x80" + bytes(4)) * 1000 + (b"\x00\x81" + bytes(4) + b"x") * 100) == []
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
    assert reader.feed(b"\x80\x81" + bytes(4) + b"y") == [(TEXT, b"x" * 10_000 + b"y")]
    assert reader.feed(b"\x81\x81" + bytes(4) + b"z") == [(TEXT, b"z")]


def ended(message: Any) -> bool:
    return message.get("method") == "turn/completed"


async def begin(client: WebSocketClient, folder: Path, text: str, **settings: Any) -> str:
    thread = (await client.call("thread/start", cwd=str(folder), **settings))["result"]["thread"]["id"]
    await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
    return thread


async def test_a_turn_and_a_second_client_that_reads_it(tmp_path: Path) -> None:
    async with ScriptedModel([say("Over a WebSocket. é")]) as model, listening(tmp_path, model) as server:
        first, second = await server.met(), await server.met()
        thread = await begin(first, tmp_path, "hello")
        await first.until(ended)
        assert "Over a WebSocket. é" in str(first.notices)
        read = await second.call("thread/read", threadId=thread, includeTurns=True)
        assert "Over a WebSocket. é" in str(read)
        first.send_frame(PING, b"there?")
        assert await first.frame() == (PONG, b"there?")
        first.send_frame(CLOSE, (1000).to_bytes(2, "big"))
        with pytest.raises(Closed, match="1000"):
            await first.message()
        assert "result" in await second.call("thread/loaded/list")


async def test_a_question_is_asked_and_answered(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("Made.")]
    config = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
    async with ScriptedModel(script) as model, listening(tmp_path, model, **config) as server:
        client = await server.met()
        client.asked = lambda request: {"decision": "accept"}
        await begin(client, tmp_path, "make it")
        await client.until(ended)
        assert (tmp_path / "made.txt").exists()


async def test_who_leaves_does_not_end_the_turn_or_the_server(tmp_path: Path) -> None:
    async with ScriptedModel([hang()]) as model, listening(tmp_path, model) as server:
        first = await server.met()
        thread = await begin(first, tmp_path, "wait")
        first.abort()
        second = await server.met()
        assert "result" in await second.call("thread/resume", threadId=thread)
        turns = (await second.call("thread/read", threadId=thread, includeTurns=True))["result"]["thread"]["turns"]
        assert turns[-1]["status"] == "inProgress"


async def test_the_end_of_the_server_is_told_with_what_is_open(tmp_path: Path) -> None:
    async with ScriptedModel([hang()]) as model, listening(tmp_path, model) as server:
        client = await server.met()
        await begin(client, tmp_path, "wait")
        server.process.terminate()
        with pytest.raises(Closed, match="1001"):
            await client.until(lambda _: False)
        assert any(ended(notice) for notice in client.notices)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:1", "null", "https://evil.example"])
@pytest.mark.quick(1)
async def test_no_page_may_connect_with_or_without_the_token(tmp_path: Path, origin: str) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(tmp_path / "token"))
    async with listening(tmp_path, args=flags) as server:
        assert (await server.client(Origin=origin, Authorization=f"Bearer {TOKEN}")).status == 403
    async with listening(tmp_path) as server:
        assert (await server.client(Origin=origin)).status == 403


async def test_a_token_is_asked_for(tmp_path: Path) -> None:
    flags = ("--ws-auth", "capability-token", "--ws-token-sha256", sha256(TOKEN.encode()).hexdigest())
    async with listening(tmp_path, args=flags, at="ws://0.0.0.0:0") as server:
        server.address = server.address.replace("0.0.0.0", "127.0.0.1")
        assert [(await server.client(**headers)).status for headers in ({}, {"Authorization": "Bearer wrong"})] == [401, 401]
        assert (await server.client(Authorization=f"bearer {TOKEN}")).status == 101


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user: run this test as root")
async def test_another_user_of_the_machine_is_not_let_in_without_one(tmp_path: Path) -> None:
    asking = (
        "import encodings.idna, os, socket, sys; os.setgroups([]); os.setuid(65534)\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
        "s.sendall(b'GET / HTTP/1.1\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n'); print(s.recv(100).decode().split()[1])"
    )
    async with listening(tmp_path) as server:
        port = server.address.rpartition(":")[2]
        process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", asking, port, stdout=asyncio.subprocess.PIPE)
        out, _ = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
        assert out == b"403\n"


async def test_without_a_token_no_command_may_reach_the_network(tmp_path: Path) -> None:
    config = {"understudy.sandbox.network": "on", "sandbox_mode": "workspace-write"}
    async with listening(tmp_path, **config) as server:
        client = await server.met()
        refused = await client.call("thread/start", cwd=str(tmp_path))
        assert "approve for itself" in refused["error"]["message"]


async def test_a_socket_of_the_machine(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="us") as folder:
        async with listening(tmp_path, at=f"unix://{folder}/s") as server:
            assert server.address == f"unix://{folder}/s"
            await server.met()
        assert not os.path.lexists(f"{folder}/s")


def whole(client: WebSocketClient) -> None:
    client.send_frame(TEXT, b'{"id":1,"method":"in', final=False)
    client.send_frame(PING, b"")
    client.send_frame(0, b'itialize","params":{"clientInfo":{"name":"x","version":"1"}}}')


async def test_a_message_in_pieces_with_a_ping_between(tmp_path: Path) -> None:
    async with listening(tmp_path) as server:
        client = await server.client()
        whole(client)
        assert await client.frame() == (PONG, b"")
        assert (await client.message())["id"] == 1
        client.send_frame(TEXT, b"x" * 70_000)
        assert (await client.message())["error"]["code"] == -32700


BROKEN: dict[str, tuple[int, Callable[[WebSocketClient], None]]] = {
    "not masked": (1002, lambda client: client.send_frame(TEXT, b"{}", masked=False)),
    "an extension": (1002, lambda client: client.send_frame(TEXT, b"{}", more_bits=0x40)),
    "no such kind": (1002, lambda client: client.send_frame(5, b"")),
    "a long ping": (1002, lambda client: client.send_frame(PING, b"x" * 200)),
    "a ping in pieces": (1002, lambda client: client.send_frame(PING, b"", final=False)),
    "goes on with nothing": (1002, lambda client: client.send_frame(0, b"x")),
    "no UTF-8": (1007, lambda client: client.send_frame(TEXT, b"\xff\xfe")),
    "no code to close with": (1002, lambda client: client.send_frame(CLOSE, (1005).to_bytes(2, "big"))),
}


@pytest.mark.parametrize("slip", BROKEN)
@pytest.mark.quick(2)
async def test_a_client_that_breaks_the_rules_is_told_and_others_are_served(tmp_path: Path, slip: str) -> None:
    code, send = BROKEN[slip]
    async with listening(tmp_path) as server:
        other, client = await server.met(), await server.client()
        send(client)
        with pytest.raises(Closed, match=str(code)):
            await client.message()
        assert "result" in await other.call("thread/loaded/list")


async def test_a_length_beyond_all_bounds_is_refused_before_it_comes(tmp_path: Path) -> None:
    async with listening(tmp_path) as server:
        client = await server.client()
        client._writer.write(bytes([0x81, 0xFF]) + (1 << 62).to_bytes(8, "big"))  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Closed, match="1009"):
            await client.message()


@pytest.mark.parametrize(
    "words",
    [
        ("--listen", "ws://localhost:1"),
        ("--listen", "ws://127.0.0.1"),
        ("--listen", "http://127.0.0.1:1"),
        ("--listen", "ws://0.0.0.0:0"),
        ("--listen", "unix://"),
        ("--listen", ANY_PORT, "--ws-auth", "capability-token"),
        ("--listen", ANY_PORT, "--ws-token-sha256", "0" * 64),
        ("--ws-auth", "capability-token"),
    ],
    ids=" ".join,
)
@pytest.mark.quick(2)
def test_what_cannot_be_served_is_said_on_one_line(tmp_path: Path, words: Sequence[str]) -> None:
    home = CodexHome(tmp_path / "home", None)
    command = (sys.executable, "-m", "understudy", "app-server", *words)
    done = subprocess.run(
        command, env=home.environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("understudy: ")
    assert "Traceback" not in done.stderr
