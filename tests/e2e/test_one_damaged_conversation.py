"""One conversation whose log is damaged: it is told as such, and keeps nobody from the others."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.cli.program import Program
from tests.support.app_client import AppClient
from tests.support.rest_client import serving_rest
from understudy.testing import McpProcess, ScriptedModel, call, say

ASKS: dict[str, Any] = {"command": ["touch", "made"], "with_escalated_permissions": True, "justification": "it is needed"}


def damage(home: Path, conversation_id: str, *, first: bool = False) -> None:
    """Its first or its last record."""
    which = "min" if first else "max"
    with closing(sqlite3.connect(home / "understudy" / "conversations.db", isolation_level=None)) as store:
        [number] = store.execute("SELECT number FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
        changed = store.execute(
            f"UPDATE records SET data = x'7b' WHERE conversation = ?1"
            f" AND seq = (SELECT {which}(seq) FROM records WHERE conversation = ?1)",
            (number,),
        )
        assert changed.rowcount == 1


async def test_the_questions_of_the_others_are_listed_and_answered(tmp_path: Path) -> None:
    home, work = tmp_path / "home" / ".codex", tmp_path / "work"
    home.mkdir(parents=True)
    work.mkdir()
    program = Program(home, work)
    program.script({"call": "shell", "arguments": ASKS, "id": "c1"}, {"say": "Made."})
    for _ in range(2):
        async with McpProcess(cwd=work, home=home) as client:
            client.call_tool("codex", {"prompt": "Make it", "cwd": str(work)})
            await client.next_request("elicitation/create")
            await client.kill()
    broken, whole = (each["conversation_id"] for each in program.json("approvals", "--json"))
    damage(home, broken)
    listed = program.run("approvals", "--json")
    assert (listed.code, [each["conversation_id"] for each in json.loads(listed.out)]) == (0, [whole]), listed
    assert f"of conversation {broken} is damaged" in listed.err
    ended = program.run("approvals", "answer", "c1", "yes")
    assert (ended.code, (work / "made").exists(), "Traceback" in ended.err) == (0, True, False), ended


async def test_lists_have_it_with_the_others(tmp_path: Path) -> None:
    script = [say("One."), call("shell", **ASKS)]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        idle = await client.create(server.cwd, "Say one", approval_policy="on-request", sandbox="workspace-write")
        await (await client.stream(idle["id"])).until("task_complete")
        waiting = await client.create(server.cwd, "Make it", approval_policy="on-request", sandbox="workspace-write")
        await (await client.stream(waiting["id"])).until("exec_approval_request")
        await server.kill()
        damage(server.home.path, idle["id"])
        damage(server.home.path, waiting["id"])
        await server.start()
        rows = (await client.get("/v1/conversations"))["conversations"]
        assert {row["id"]: row["state"] for row in rows} == {idle["id"]: "failed", waiting["id"]: "waiting"}
        assert await client.status("GET", f"/v1/conversations/{idle['id']}") == (503, "unavailable")
    damage(server.home.path, idle["id"], first=True)
    async with AppClient(server.home.path, server.cwd) as editor:
        threads = (await editor.call("thread/list"))["data"]
        assert {thread["id"] for thread in threads} == {idle["id"], waiting["id"]}
