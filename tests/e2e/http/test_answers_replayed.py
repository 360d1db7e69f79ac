"""An answer counts for the question that it was given to.

A model may ask the same again under the same call id, and a client, or what stands between it and us, may send an answer twice.
"""

from pathlib import Path
from typing import Any

from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, Json, serving
from understudy.testing import ScriptedModel, call, say

YES = {"action": "accept"}
TOUCH = call("shell", command=["touch", "made.txt"])
TWICE = [TOUCH, TOUCH, say("done")]


async def ask(client: HttpClient, **more: Any) -> Json:
    params = {"name": "codex", "arguments": {"prompt": "make it"}, **more}
    response = await client.modern("tools/call", params, capabilities={"elicitation": {}})
    return (await response.messages())[-1]["result"]


async def test_a_round_that_is_repeated_does_not_answer_the_next_question(tmp_path: Path) -> None:
    async with ScriptedModel(TWICE) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        first = await ask(client)
        [key] = first["inputRequests"]
        answered = {"requestState": first["requestState"], "inputResponses": {key: YES}}
        second = await ask(client, **answered)
        (server.cwd / "made.txt").unlink()
        [next_key] = second["inputRequests"]
        assert next_key != key

        repeated = await ask(client, **answered)
        assert (repeated["resultType"], list(repeated["inputRequests"])) == ("input_required", [next_key])
        assert not (server.cwd / "made.txt").exists()

        done = await ask(client, requestState=repeated["requestState"], inputResponses={next_key: YES})
        assert (done["resultType"], done["structuredContent"]["content"]) == ("complete", "done")


async def test_an_answer_of_a_session_that_is_repeated_does_not_answer_the_next_question(tmp_path: Path) -> None:
    async with ScriptedModel(TWICE) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "make it"})
        asked: list[str] = []
        async for event in response.events():
            message: Json = event.get("data") or {}
            if message.get("method") != "elicitation/create":
                continue
            asked.append(message["id"])
            assert (await client.send({"jsonrpc": "2.0", "id": asked[0], "result": YES})).status == 202
            if len(asked) == 1:
                continue
            (server.cwd / "made.txt").unlink()
            [row] = (await client.result("conversationsList", {}))["structuredContent"]["conversations"]
            assert row["pending"] == ["call1"]
            assert not (server.cwd / "made.txt").exists()
            assert (await client.send({"jsonrpc": "2.0", "id": asked[1], "result": YES})).status == 202
        assert len(set(asked)) == 2
        assert (server.cwd / "made.txt").exists()
