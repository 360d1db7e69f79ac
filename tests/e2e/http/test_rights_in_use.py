"""Rights in use: what those who only look cannot bring about, and tokens that end or are replaced during a connection."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.e2e.http.test_callers import client_of
from tests.e2e.http.test_modern import ASKABLE
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, Response, serving
from tests.support.task_clients import HttpDoor, TaskClient
from understudy.config.tokens import NamedToken, hash_of, read_tokens, tokens_file, write_tokens
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_who_may_only_read_does_not_have_a_question_denied_by_waiting_for_the_turn(tmp_path: Path, era: str) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    task = {"name": "codex", "arguments": {"prompt": "make it"}}
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        alice = await client_of(server, "alice")
        auditor = await client_of(server, "auditor", "--rights", "read", "--others", "read")
        asked = (await (await alice.modern("tools/call", task, capabilities=ASKABLE)).messages())[-1]["result"]
        thread = next(iter(asked["inputRequests"].values()))["params"]["threadId"]
        if era == "legacy":
            looked = await auditor.result("codex-reply", {"threadId": thread})
        else:
            wait = {"name": "codex-reply", "arguments": {"threadId": thread}}
            looked = (await (await auditor.modern("tools/call", wait, capabilities=ASKABLE)).messages())[-1]["result"]
        assert looked["structuredContent"]["running"]["questions"] == ["call1"]
        answers = {name: {"action": "accept"} for name in asked["inputRequests"]}
        again = {**task, "requestState": asked["requestState"], "inputResponses": answers}
        ended = (await (await alice.modern("tools/call", again, capabilities=ASKABLE)).messages())[-1]["result"]
        assert ended["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()


async def is_let_go(waiting: Response, running: Response) -> bool:
    """Nothing more is shown, and no answer."""
    async with asyncio.timeout(WAIT_SECONDS):
        assert [event async for event in waiting.events()] == []
        shown = [event["data"] async for event in running.events() if event.get("data")]
    return all("result" not in message for message in shown)


@pytest.mark.slow
async def test_a_token_that_expires_during_a_connection_is_let_go(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, serving(tmp_path, model) as (server, _):
        alice = await client_of(server, "alice", "--sandbox", "danger-full-access")
        waiting = await alice.listen()
        running = await alice.call("codex", {"prompt": "x"})
        await model.next_request(1)
        path = tokens_file(server.home.path / "understudy")
        soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
        write_tokens(path, [msgspec.structs.replace(token, expires=soon) for token in read_tokens(path)])
        assert await is_let_go(waiting, running)
        assert (await alice.post("ping")).status == 401
        model.release()


@pytest.mark.slow
async def test_whoever_had_the_token_before_it_was_replaced_is_let_go(tmp_path: Path) -> None:
    script = [deltas(["a", HOLD, "b"]), deltas(["a", HOLD, "b"])]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, local):
        await local.initialize()
        alice = await client_of(server, "alice", "--sandbox", "danger-full-access")
        state = server.home.path / "understudy"
        for at, client in enumerate((local, alice)):
            waiting = await client.listen()
            running = await client.call("codex", {"prompt": "x"})
            await model.next_request(at + 1)
            new = f"us_{'n' * 40}{at}"
            if client is local:
                beside = state / "new"
                beside.write_text(new)
                os.chmod(beside, 0o600)
                os.replace(beside, state / "token")
            else:
                path = tokens_file(state)
                write_tokens(path, [msgspec.structs.replace(token, hash=hash_of(new)) for token in read_tokens(path)])
            assert await is_let_go(waiting, running)
            assert (await client.post("ping")).status == 401
            assert (await HttpClient(server.port, new).modern("tools/list")).status == 200
        model.release()
        model.release()


async def start_of(server: HttpServer) -> str:
    with pytest.raises(AssertionError, match="did not start"):
        await server.start()
    assert await asyncio.wait_for(server.process.wait(), WAIT_SECONDS) == 1
    assert "Traceback" not in server.stderr
    return server.stderr


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["serve.key", "token", "tokens.toml"])
@pytest.mark.parametrize("kind", ["empty", "open", "folder", "link"])
async def test_it_does_not_start_with_keys_that_others_could_know(tmp_path: Path, name: str, kind: str) -> None:
    server = HttpServer(tmp_path, None)
    state = server.home.path / "understudy"
    state.mkdir(mode=0o700)
    path = state / name
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        target = tmp_path / "elsewhere"
        target.write_bytes(b"k" * 40)
        os.chmod(target, 0o600)
        path.symlink_to(target)
    else:
        path.write_bytes(b"" if kind == "empty" else b"k" * 40)
        os.chmod(path, 0o600 if kind == "empty" else 0o644)
    if (name, kind) == ("tokens.toml", "empty"):  # there are just no other callers
        async with server:
            return
    assert str(path) in await start_of(server)


@pytest.mark.slow
async def test_a_list_of_no_tokens_does_not_open_the_server_to_others(tmp_path: Path) -> None:
    server = HttpServer(tmp_path, None, args=("--host", "0.0.0.0"))
    write_tokens(tokens_file(server.home.path / "understudy"), [])
    assert "there is no token yet" in await start_of(server)
    write_tokens(tokens_file(server.home.path / "understudy"), [NamedToken(name="alice", hash=hash_of("us_" + "a" * 40))])
    async with server:
        assert (await HttpClient(server.port, "us_" + "a" * 40).modern("tools/list")).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("url", ["agents.example.org", "ftp://x", "https://", "https://a b", "https://u:p@x", "https://x:port"])
async def test_a_public_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    told = await start_of(HttpServer(tmp_path, None, args=("--public-url", url)))
    assert "understudy.serve.public_url" in told
    assert "https://agents.example.org" in told


async def test_pages_of_other_addresses_are_kept_out_beyond_this_machine_too(tmp_path: Path) -> None:
    server = HttpServer(tmp_path, None, args=("--host", "0.0.0.0"))
    write_tokens(tokens_file(server.home.path / "understudy"), [NamedToken(name="alice", hash=hash_of("us_" + "a" * 40))])
    async with server:
        client = HttpClient(server.port, "us_" + "a" * 40)
        await client.initialize()
        for host, origin, status in [
            ("192.0.2.1:8722", "http://192.0.2.1:8722", 200),
            ("192.0.2.1:8722", "http://198.51.100.7", 403),
            ("192.0.2.1:8722", "http://localhost:3000", 200),
            ("localhost:8722", "http://198.51.100.7", 403),
        ]:
            assert (await client.post("ping", Host=host, Origin=origin)).status == status, (host, origin)


async def test_the_question_of_a_task_does_not_wait_for_a_caller_whose_token_was_revoked(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        token = await server.add_token("alice")
        alice = TaskClient(HttpDoor(HttpClient(server.port, token)))
        await alice.asked(await alice.begin())
        await server.revoke_token("alice")
        await model.next_request(2)
        assert "the token of the task's caller is not valid any more" in str(model.received[-1].body["messages"])
        assert not (server.cwd / "made.txt").exists()
