"""Tasks over standard input and output, where a request has no asyncio task of its own before it waits for something."""

import json
import sys
from pathlib import Path
from typing import Any

from understudy.testing import CodexHome, LineProcess, ScriptedModel, say

COMMAND = (sys.executable, "-m", "understudy", "mcp-server")
PREFIX = "io.modelcontextprotocol/"
META: dict[str, Any] = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {"extensions": {f"{PREFIX}tasks": {}}},
}


async def ask(server: LineProcess, number: int, method: str, **params: Any) -> Any:
    server.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}))
    while (message := json.loads(await server.next_line())).get("id") != number:
        pass
    return message["result"]


async def test_an_answer_to_nothing_that_is_asked_is_passed_over(tmp_path: Path) -> None:
    async with ScriptedModel([say("Done.")]) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with LineProcess(COMMAND, cwd=tmp_path, env=home.environment()) as server:
            task = await ask(server, 1, "tools/call", name="codex", arguments={"prompt": "x"})
            assert task["resultType"] == "task"
            answers = {"unknown": {"action": "accept"}}
            updated = await ask(server, 2, "tasks/update", taskId=task["taskId"], inputResponses=answers)
            assert updated["resultType"] == "complete"
            while (state := await ask(server, 3, "tasks/get", taskId=task["taskId"]))["status"] == "working":
                pass
            assert state["result"]["content"][0] == {"type": "text", "text": "Done."}
