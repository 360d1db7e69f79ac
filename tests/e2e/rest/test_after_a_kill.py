"""A server that was killed while a question was open: what those are told who answer it once the server is back."""

import asyncio
from pathlib import Path

import pytest

from tests.support.rest_client import serving_rest
from understudy.testing import ScriptedModel, call, say

ASKS = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")


@pytest.mark.slow
@pytest.mark.parametrize("answers", [2, 8])
async def test_of_answers_at_once_one_counts_and_the_others_are_told_who_was_first(tmp_path: Path, answers: int) -> None:
    """The turn has not put its question again when they come."""
    async with ScriptedModel([ASKS, say("Made.")]) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "Make it", approval_policy="on-request", sandbox="workspace-write")
        asked = (await (await client.stream(row["id"])).until("exec_approval_request"))["msg"]["question"]
        await server.kill()
        await server.start()

        path = f"/v1/conversations/{row['id']}"
        [question] = (await client.get(path))["questions"]
        assert question == asked
        decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
        responses = await asyncio.gather(*(client.request("POST", f"{path}/decisions", decision) for _ in range(answers)))
        bodies = [await response.json() for response in responses]
        assert sorted(response.status for response in responses) == [200] + [409] * (answers - 1), bodies
        told = [body["error"] for body in bodies if "error" in body]
        assert {(error["code"], error["by"], error["decision"]) for error in told} == {("already_decided", "local", "approved")}

        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        decided = [event["data"]["msg"] for event in stream.seen if event["data"]["msg"]["type"] == "approval_decided"]
        assert [each["effective"] for each in decided].count(True) == 1
        assert (server.cwd / "made").exists()
