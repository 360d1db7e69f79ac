"""A client that does not read for a while, on a pipe that is flooded: little waits there before the answer to its next ping."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from understudy.testing import CodexHome, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

MIB = 1024 * 1024
FLOODS = 4  # each shows a mebibyte, which is four times as much in JSON
MOST_BEFORE = 7 * MIB  # what was waiting, and one event that is merged of all the rest
FLOOD = ["sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 3000000"]


async def test_a_ping_waits_for_little_on_a_pipe_that_is_flooded(tmp_path: Path) -> None:
    script = [*(call("shell", command=FLOOD) for _ in range(FLOODS)), say("done")]
    async with ScriptedModel(script) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "mcp-server"),
            cwd=tmp_path,
            env=home.environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 16,
        )
        assert process.stdin is not None
        assert process.stdout is not None

        def send(method: str, params: dict[str, Any], request_id: int | None = None) -> None:
            assert process.stdin is not None
            message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if request_id is None else {"id": request_id})
            process.stdin.write(json.dumps(message).encode() + b"\n")

        info = {"name": "slow", "version": "0"}
        send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}, 1)
        await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)
        send("notifications/initialized", {})
        send("tools/call", {"name": "codex", "arguments": {"prompt": "flood"}}, 2)
        async with asyncio.timeout(WAIT_SECONDS):
            while len(model.requests) <= FLOODS:  # noqa: ASYNC110  # nothing is read meanwhile
                await asyncio.sleep(0.02)
        send("ping", {}, 3)
        before, tail = 0, b""
        pong = b'{"id":3,"jsonrpc":"2.0","result":{}}'
        async with asyncio.timeout(WAIT_SECONDS):
            while pong not in tail and b'"id":3' not in tail:
                data = await process.stdout.read(1 << 16)
                assert data
                before += len(data)
                tail = tail[-100:] + data
        assert before < MOST_BEFORE
        process.stdin.close()
        while await process.stdout.read(1 << 16):
            pass
        assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == 0
