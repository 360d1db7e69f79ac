"""Framing, versions and methods, on the real program."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy import __version__
from understudy.testing import SERVER_COMMAND, McpProcess, RpcError
from understudy.testing.waiting import WAIT_SECONDS

INFO = {"name": "t", "version": "0"}


def hello(version: str = "2025-06-18", request_id: int | str = 0) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
    return {"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params}


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        pytest.param("2025-03-26", "2025-03-26", marks=pytest.mark.slow),
        pytest.param("2025-06-18", "2025-06-18", marks=pytest.mark.slow),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        pytest.param("2999-01-01", "2025-11-25", marks=pytest.mark.slow),
    ],
)
async def test_the_protocol_version_is_the_client_s_where_we_speak_it(tmp_path: Path, asked: str, agreed: str) -> None:
    async with McpProcess(cwd=tmp_path, protocol_version=asked) as client:
        assert client.server_info == {
            "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
            "protocolVersion": agreed,
            "serverInfo": {"name": "understudy", "title": "Understudy", "version": __version__},
        }


async def test_methods_and_their_errors(tmp_path: Path) -> None:
    """One server takes all of it in turn and lives on."""
    async with McpProcess(cwd=tmp_path, check_frames=False) as client:

        async def error_of(method: str, params: Any = None) -> tuple[int, str, Any]:
            with pytest.raises(RpcError) as caught:
                await client.request(method, params)
            return caught.value.code or 0, caught.value.message or "", caught.value.data

        code, message, _ = await error_of("initialize", hello()["params"])
        assert (code, message) == (-32600, "initialize called more than once")
        for method in ("server/discover", "no/such", "resources/list", "resources/templates/list"):
            assert await error_of(method) == (-32601, f"method not found: {method}", {"method": method})
        assert (await error_of("tools/call"))[0] == -32602
        assert (await error_of("tools/call", {"arguments": {}}))[0] == -32602
        assert (await error_of("tools/call", {"name": 5}))[0] == -32602
        assert (await error_of("tools/call", {"name": "codex", "_meta": {"progressToken": {}}}))[0] == -32602
        assert await client.request("ping") == {}
        assert await client.request("ping", {"any": "thing"}) == {}
        assert await client.request("logging/setLevel", {"level": "debug"}) == {}
        unknown = await client.request("tools/call", {"name": "frobnicate", "arguments": {}})
        assert unknown == {"content": [{"text": "Unknown tool 'frobnicate'", "type": "text"}], "isError": True}
        assert await client.request("ping", request_id="0") == {}, "an id that is a string is another id than the number"


async def test_lines_that_are_no_messages_are_answered_and_survived(tmp_path: Path) -> None:
    async with McpProcess(cwd=tmp_path, check_frames=False) as client:
        before = len(client.frames)
        await client.send_raw(
            b"hello\n"
            b"\n \r\n"
            b'{"id":null,"method":"ping"}\n'
            b'{"id":1.5,"method":"ping"}\n'
            b'[{"id":1,"method":"ping"}]\n'
            b'{"id":5,"method":7}\n'
            b'{"id":6,"method":"tools/call","params":{"name":"codex","arguments":{"prompt":"\xff"}}}\n'
            b'{"method":"notifications/cancelled","params":{"requestId":"\xff"}}\n'
            b'{"method":"notifications/cancelled","params":{"requestId":{}}}\n'
            b'{"method":"notifications/cancelled"}\n'
            b'{"method":"no/such/notification"}\n'
            b'{"id":77,"result":{"decision":"approved"}}\n'
            b'{"id":77,"error":{"code":1,"message":"x"}}\n'
            b'{"id":8,"method":"initialize","params":{}}\r\n' + b"[" * 200_000 + b"\n" + b'{"id":9,"method":"ping"}\n'
        )
        await client.answer(9)
        got = [(frame["id"], frame["error"]["code"] if "error" in frame else None) for frame in client.frames[before:]]
        assert got == [
            (None, -32700),
            (None, -32600),
            (None, -32600),
            (None, -32600),
            (5, -32600),
            (6, -32700),
            (None, -32700),
            (8, -32600),
            (None, -32700),
            (9, None),
        ]


async def test_nothing_is_gated_on_initialize(tmp_path: Path) -> None:
    async with McpProcess(cwd=tmp_path, initialize=False) as client:
        assert await client.request("ping") == {}
        assert (await client.request("tools/list"))["tools"][0]["name"] == "codex"
        await client.initialize()


async def test_an_initialize_that_lacks_something_is_told_so_and_can_be_sent_again(tmp_path: Path) -> None:
    async with McpProcess(cwd=tmp_path, initialize=False) as client:
        for missing in ("protocolVersion", "capabilities", "clientInfo"):
            params = {name: value for name, value in hello()["params"].items() if name != missing}
            with pytest.raises(RpcError, match="-32602"):
                await client.request("initialize", params)
        await client.initialize()


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_handshake_in_pieces_or_all_at_once_is_the_same(tmp_path: Path, pieces: int) -> None:
    lines = [json.dumps(message) for message in (hello(), {"id": 1, "method": "ping"}, {"id": 2, "method": "tools/list"})]
    data = ("\r\n".join(lines) + "\n").encode()
    async with McpProcess(cwd=tmp_path, initialize=False, check_frames=False) as client:
        size = -(-len(data) // pieces)
        for start in range(0, len(data), size):
            await client.send_raw(data[start : start + size])
        await client.answer(2)
        assert [frame["id"] for frame in client.frames] == [0, 1, 2]


@pytest.mark.parametrize("ending", ["\n", ""])
def test_standard_input_and_output_may_be_plain_files(tmp_path: Path, ending: str) -> None:
    (tmp_path / "in").write_text(json.dumps(hello()) + "\n" + json.dumps({"id": 1, "method": "ping"}) + ending)
    with open(tmp_path / "in") as given, open(tmp_path / "out", "w") as out:
        env = {**os.environ, "CODEX_HOME": str(tmp_path)}
        ended = subprocess.run(SERVER_COMMAND, stdin=given, stdout=out, stderr=subprocess.PIPE, timeout=WAIT_SECONDS, env=env)
    assert (ended.returncode, ended.stderr) == (0, b"")
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1]


@pytest.mark.parametrize("given", ["", "\n\n", '{"id":1,"method":"ping"}'])
def test_input_that_ends_at_once_ends_the_server(tmp_path: Path, given: str) -> None:
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    ended = subprocess.run(SERVER_COMMAND, input=given, capture_output=True, text=True, timeout=WAIT_SECONDS, env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == ('{"id":1,"jsonrpc":"2.0","result":{}}\n' if given.strip() else "")


def test_a_reader_that_is_gone_from_the_start_is_no_crash(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    given = json.dumps(hello()) + "\n"
    ended = subprocess.run(
        SERVER_COMMAND, input=given.encode(), stdout=write, stderr=subprocess.PIPE, timeout=WAIT_SECONDS, env=env
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_the_server_imports_little_before_it_answers() -> None:
    """The answer to `initialize` waits for none of these."""
    heavy = "('msgspec', 'asyncio', 'sqlite3', 'ssl')"
    code = f"import sys, understudy.servers.mcp.handshake; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_SECONDS).stdout == "[]\n"
