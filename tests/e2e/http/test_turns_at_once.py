"""`concurrency` holds for the turns that a named token has at work, however they were begun and whoever still waits for them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.http.test_callers import client_of
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, serving
from tests.support.rest_client import RestClient
from tests.support.task_clients import KNOWS_TASKS, HttpDoor, TaskClient
from understudy.testing import HOLD, Script, ScriptedModel, call, deltas, hang, say, status
from understudy.testing.waiting import WAIT_SECONDS

MOST = 2
TOO_MANY = "too many turns with this token at once"
LIMITED = {"understudy.serve.concurrency": MOST, "understudy.serve.on_disconnect": "keep"}
ASKING: Script = [call("shell", command=["touch", "made.txt"])]


class Alice(msgspec.Struct):
    """A caller with a limit, at every door."""

    server: HttpServer
    model: ScriptedModel
    mcp: HttpClient
    rest: RestClient
    tasks: TaskClient

    async def is_let_in(self) -> None:
        """Once the server has noticed that connections were cut, requests are taken again."""
        async with asyncio.timeout(WAIT_SECONDS):
            while (await self.mcp.post("ping")).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def modern(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return (await (await self.mcp.modern("tools/call", {"name": tool, "arguments": arguments})).messages())[-1]["result"]

    async def rows(self) -> list[dict[str, Any]]:
        return (await self.rest.get("/v1/conversations"))["conversations"]

    async def interrupt_all(self) -> None:
        for row in await self.rows():
            await self.rest.post(f"/v1/conversations/{row['id']}/interrupt")

    async def send(self, conversation: str, text: str = "x", **more: Any) -> dict[str, Any]:
        return await self.rest.post(f"/v1/conversations/{conversation}/messages", {"text": text, **more})

    async def is_refused(self) -> bool:
        response = await self.rest.request("POST", "/v1/conversations", {"prompt": "one more", "folder": str(self.server.cwd)})
        told = await response.json()
        if response.status == 201:
            return False
        assert (response.status, response.headers["retry-after"]) == (429, "1")
        assert told["error"]["code"] == "too_many_requests"
        assert TOO_MANY in told["error"]["message"]
        return True


@asynccontextmanager
async def alice_with(tmp_path: Path, script: Script, **config: Any) -> AsyncGenerator[Alice]:
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=LIMITED | config) as (server, _):
        client = await client_of(server, "alice", "--sandbox", "danger-full-access,workspace-write")
        assert client.token is not None
        modern = HttpClient(server.port, client.token)
        yield Alice(server, model, client, RestClient(server.port, client.token), TaskClient(HttpDoor(modern), KNOWS_TASKS))
        await model.next_request(len(script))  # those that were begun last


# -- ways to begin a turn for which no request stays open


async def by_legacy_call_that_was_dropped(alice: Alice, number: int) -> None:
    response = await alice.mcp.call("codex", {"prompt": "x"})
    await alice.model.next_request(number)
    response.close()


async def by_modern_call_that_was_dropped(alice: Alice, number: int) -> None:
    response = await alice.mcp.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}})
    await alice.model.next_request(number)
    response.close()


async def by_call_that_does_not_wait(alice: Alice, number: int) -> None:
    result = await alice.mcp.result("codex", {"prompt": "x", "wait-seconds": 0.01})
    assert result["structuredContent"]["running"]


async def by_task(alice: Alice, number: int) -> None:
    await alice.tasks.begin()


async def by_creating(alice: Alice, number: int) -> None:
    assert not (await alice.mcp.result("conversationCreate", {"prompt": "x"}))["isError"]


async def by_sending(alice: Alice, number: int) -> None:
    made = await alice.mcp.result("conversationCreate", {})
    content = [{"type": "text", "text": "x"}]
    one = {"conversation_id": made["structuredContent"]["conversation_id"]}
    assert not (await alice.mcp.result("conversationSendMessage", {**one, "content": content}))["isError"]


async def by_creating_over_rest(alice: Alice, number: int) -> None:
    await alice.rest.create(alice.server.cwd, "x")


async def by_sending_over_rest(alice: Alice, number: int) -> None:
    await alice.send((await alice.rest.create(alice.server.cwd))["id"])


WAYS: list[Callable[[Alice, int], Awaitable[None]]] = [
    by_legacy_call_that_was_dropped,
    by_modern_call_that_was_dropped,
    by_call_that_does_not_wait,
    by_task,
    by_creating,
    by_sending,
    by_creating_over_rest,
    by_sending_over_rest,
]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_turns_count_until_they_end_however_they_were_begun(
    tmp_path: Path, way: Callable[[Alice, int], Awaitable[None]]
) -> None:
    async with alice_with(tmp_path, [hang() for _ in range(MOST + 2)]) as alice:
        for number in range(1, MOST + 1):
            await way(alice, number)
            await alice.model.next_request(number)
        await alice.is_let_in()
        before = await alice.rows()
        assert [row["state"] for row in before] == ["working"] * MOST
        assert await alice.is_refused()
        assert len(await alice.rows()) == len(before)
        await alice.rest.post(f"/v1/conversations/{before[0]['id']}/interrupt")
        assert not await alice.is_refused()
        assert await alice.is_refused()
        bob = await client_of(alice.server, "bob", "--sandbox", "danger-full-access")
        assert not (await bob.result("conversationCreate", {"prompt": "x"}))["isError"]


@pytest.mark.slow
async def test_every_door_refuses_one_turn_too_many_and_records_nothing_of_it(tmp_path: Path) -> None:
    async with alice_with(tmp_path, [say("hello"), *(hang() for _ in range(MOST)), say("and on")]) as alice:
        told = await alice.mcp.result("codex", {"prompt": "greet me"})
        idle: str = told["structuredContent"]["threadId"]
        for _ in range(MOST):
            await alice.rest.create(alice.server.cwd, "x")
        before = await alice.rest.get(f"/v1/conversations/{idle}/events?limit=1000")
        new, reply = {"prompt": "x"}, {"threadId": idle, "prompt": "x"}
        sent = {"conversation_id": idle, "content": [{"type": "text", "text": "x"}]}
        refused = [
            await alice.mcp.result("codex", new),
            await alice.mcp.result("codex-reply", reply),
            await alice.mcp.result("codex-reply", reply | {"wait-seconds": 0.001}),
            await alice.mcp.result("conversationCreate", new),
            await alice.mcp.result("conversationSendMessage", sent),
            await alice.mcp.result("conversationCompact", {"conversation_id": idle}),
            await alice.modern("codex", **new),
            await alice.modern("codex-reply", **reply),
            await alice.modern("conversationSendMessage", **sent),
            await alice.tasks.call("codex", **new),
            await alice.tasks.call("codex-reply", **reply),
        ]
        for result in refused:
            assert result["isError"]
            text = result["content"][0]["text"]
            assert TOO_MANY in text
            assert "wait for the end of one, interrupt one, or answer" in text
            assert "taskId" not in result
        assert await alice.is_refused()
        for path, body in (("messages", {"text": "x"}), ("messages", {"text": "x", "mode": "queue"}), ("compact", None)):
            assert await alice.rest.status("POST", f"/v1/conversations/{idle}/{path}", body) == (429, "too_many_requests"), path
        assert await alice.rest.get(f"/v1/conversations/{idle}/events?limit=1000") == before
        assert len(await alice.rows()) == MOST + 1
        made = await alice.rest.create(alice.server.cwd)  # a conversation without a message is no turn
        assert await alice.rest.status("POST", f"/v1/conversations/{made['id']}/messages", {"text": "x"}) == (
            429,
            "too_many_requests",
        )
        await alice.interrupt_all()
        assert (await alice.mcp.result("codex-reply", reply))["structuredContent"]["content"] == "and on"


@pytest.mark.slow
async def test_a_call_that_waits_for_its_own_turn_is_counted_once(tmp_path: Path) -> None:
    async with alice_with(tmp_path, [say("one"), say("two")], **{"understudy.serve.concurrency": 1}) as alice:
        for words in ("one", "two"):
            await alice.is_let_in()
            result = await alice.mcp.result("codex", {"prompt": "x"})
            assert result["structuredContent"]["content"] == words


@pytest.mark.slow
async def test_messages_to_running_turns_begin_none_and_one_that_waits_behind_its_own_turn_takes_its_place(tmp_path: Path) -> None:
    script = [deltas(["a", HOLD, "b"]), say("joined"), hang(), hang()]
    async with alice_with(tmp_path, script, **{"understudy.serve.concurrency": 1}) as alice:
        made = await alice.rest.create(alice.server.cwd, "x")
        await alice.model.next_request(1)
        await alice.is_let_in()
        assert (await alice.send(made["id"], "more"))["joined"]
        await alice.is_let_in()
        assert (await alice.send(made["id"], "after that", mode="queue"))["queued"]
        await alice.is_let_in()
        assert await alice.is_refused()
        alice.model.release()
        await alice.model.next_request(3)  # the turn that was queued
        await alice.is_let_in()
        assert await alice.is_refused()
        await alice.is_let_in()
        await alice.rest.post(f"/v1/conversations/{made['id']}/interrupt")
        await alice.is_let_in()
        assert not await alice.is_refused()


@pytest.mark.slow
async def test_turns_that_end_by_themselves_or_fail_make_room(tmp_path: Path) -> None:
    script = [status(400, "no such model"), say("done"), hang(), hang(), hang()]
    async with alice_with(tmp_path, script) as alice:
        assert (await alice.mcp.result("codex", {"prompt": "x"}))["isError"]
        assert "isError" not in await alice.mcp.result("codex", {"prompt": "x"})
        for _ in range(MOST):
            assert not await alice.is_refused()
        assert await alice.is_refused()
        [first, *_] = await alice.rows()
        await alice.rest.delete(f"/v1/conversations/{first['id']}")
        assert not await alice.is_refused()
        assert await alice.is_refused()


@pytest.mark.slow
async def test_a_turn_that_waits_for_a_person_counts_also_after_the_server_was_killed_and_takes_it_up(tmp_path: Path) -> None:
    waits = FORBIDDING | {"understudy.unasked": "wait"}
    async with alice_with(tmp_path, [*ASKING, *ASKING, hang(), hang()], **waits) as alice:
        made = [(await alice.rest.create(alice.server.cwd, "x"))["id"] for _ in range(MOST)]
        for conversation in made:
            stream = await alice.rest.stream(conversation)
            await stream.until("exec_approval_request")
            stream.close()
        await alice.is_let_in()
        assert await alice.is_refused()
        await alice.server.kill()
        await alice.server.start()
        answer = {"call_id": "call1", "decision": "approved"}
        assert (await alice.rest.post(f"/v1/conversations/{made[0]}/decisions", answer))["status"] == "ok"
        await alice.model.next_request(3)
        assert not await alice.is_refused()  # the other one is not at work before it is taken up
        assert await alice.is_refused()


@pytest.mark.slow
async def test_of_many_that_begin_at_the_same_moment_no_more_than_may_do(tmp_path: Path) -> None:
    config = {"understudy.serve.concurrency": 5}
    async with alice_with(tmp_path, [hang() for _ in range(5)], **config) as alice:
        made = [(await alice.rest.create(alice.server.cwd))["id"] for _ in range(4)]
        calls = [*(alice.rest.status("POST", f"/v1/conversations/{each}/messages", {"text": "x"}) for each in made)]
        assert [code for code, _ in await asyncio.gather(*calls)] == [202] * 4
        new = {"prompt": "x", "folder": str(alice.server.cwd)}
        codes = await asyncio.gather(*(alice.rest.status("POST", "/v1/conversations", new) for _ in range(4)))
        assert sorted(code for code, _ in codes) == [201, 429, 429, 429]
        await alice.is_let_in()
        async with asyncio.timeout(WAIT_SECONDS):
            while len(await alice.rows()) != 5:  # noqa: ASYNC110  # one that found no room any more is deleted
                await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_the_local_user_and_a_server_without_a_limit_have_any_number(tmp_path: Path) -> None:
    script = [hang() for _ in range(MOST + 1)]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=LIMITED) as (_, local):
        await local.initialize()
        for _ in range(MOST + 1):
            assert not (await local.result("conversationCreate", {"prompt": "x"}))["isError"]
        await model.next_request(MOST + 1)
    folder = tmp_path / "unlimited"
    folder.mkdir()
    async with alice_with(folder, script, **{"understudy.serve.concurrency": 0}) as alice:
        for _ in range(MOST + 1):
            assert not await alice.is_refused()
