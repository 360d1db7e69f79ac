"""More connections than there may be: those who are served stay, and the others make room."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.support.http_server import HttpClient, HttpServer
from understudy.testing import ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

FILES = 256  # that the server may open
WITH_FEW_FILES = ("sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
async def test_idle_connections_make_room_for_turns_and_their_commands(tmp_path: Path) -> None:
    answers = [say("Hello."), call("shell", command=["echo", "hi"]), say("Done.")]
    async with ScriptedModel(answers) as model, HttpServer(tmp_path, model, started_by=WITH_FEW_FILES) as server:
        client = HttpClient(server.port, server.token)
        await client.initialize()
        begun = await client.result("codex", {"prompt": "hi", "approval-policy": "never"})
        watching = await client.listen()
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2 * FILES)]
        try:
            assert await asyncio.wait_for(idle[0][0].read(), WAIT_SECONDS) == b""  # whoever has waited longest goes first
            assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < FILES * 3 // 4

            ran = await client.result(
                "codex-reply", {"threadId": begun["structuredContent"]["threadId"], "prompt": "run it", "report": "full"}
            )
            assert ran["structuredContent"]["content"] == "Done."
            assert [command["exit_code"] for command in ran["structuredContent"]["report"]["commands"]] == [0]
            assert watching.status == 200
            assert not idle[-1][0].at_eof()
        finally:
            for _, writer in idle:
                writer.transport.abort()
            await asyncio.sleep(0)  # the transports close in the next step of the event loop
