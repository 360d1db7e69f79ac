"""A fork belongs to whoever made it: it carries nothing along that they may not have chosen themselves."""

from pathlib import Path

from tests.support.http_server import HttpClient, serving
from tests.support.rest_client import RestClient
from understudy.testing import ScriptedModel, say

OTHERS = ("--others", "run,read")
SECRET = "only-for-what-its-caller-asks-1234567890"


async def test_what_a_token_may_not_set_is_not_had_by_forking(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two")]) as model, serving(tmp_path, model) as (server, local):
        await local.initialize()
        bob = HttpClient(server.port, await server.add_token("bob", *OTHERS))
        await bob.initialize()
        bob_by_rest = RestClient(server.port, bob.token)
        plain, open_wide = [
            (await local.result("codex", {"prompt": "x", "config": config}))["structuredContent"]["threadId"]
            for config in ({"model_verbosity": "low"}, {"sandbox_workspace_write.network_access": True})
        ]
        refused = await bob.result("conversationFork", {"conversation_id": open_wide})
        assert refused["isError"] is True
        assert "`sandbox_workspace_write.network_access` was set for it" in refused["content"][0]["text"]
        assert await bob_by_rest.status("POST", f"/v1/conversations/{open_wide}/fork", {}) == (403, "forbidden")
        forked = await bob.result("conversationFork", {"conversation_id": plain})
        assert forked["structuredContent"]["conversation_id"] != plain
        assert (await local.result("conversationFork", {"conversation_id": open_wide})).get("isError") is not True


async def test_a_secret_that_came_with_a_call_is_not_used_for_the_fork_of_another(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two"), say("three")]) as model, serving(tmp_path, model) as (server, local):
        await local.initialize()
        bob = HttpClient(server.port, await server.add_token("bob", "--sandbox", "danger-full-access", *OTHERS))
        await bob.initialize()
        given = {"model_providers.mock.http_headers": {"X-Api-Key": SECRET}}
        thread = (await local.result("codex", {"prompt": "x", "config": given}))["structuredContent"]["threadId"]
        for caller in (local, bob):
            forked = (await caller.result("conversationFork", {"conversation_id": thread}))["structuredContent"]["conversation_id"]
            result = await caller.result("codex-reply", {"threadId": forked, "prompt": "y"})
            assert result.get("isError") is not True, result
        assert [SECRET in str(request.headers) for request in model.received] == [True, True, False]
