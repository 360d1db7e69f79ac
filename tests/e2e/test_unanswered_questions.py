"""Questions that nobody answers: `question_timeout`, `unasked`, `on_question`, by every door."""

import asyncio
import hmac
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of, thread_of, told_to_model
from tests.e2e.talking import create, listed, send
from tests.sandbox.stage import until
from understudy.testing import McpProcess, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING = call("shell", command=["touch", "made.txt"], with_escalated_permissions=True, justification="why s3cret-value not")
ASKS: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
SOON = {**ASKS, "understudy.question_timeout": 1}
LATER = {**ASKS, "understudy.question_timeout": 4}  # than it takes to kill the server that asks
WAIT = {**ASKS, "understudy.unasked": "wait"}
TIMED_OUT = "nobody answered within 1 seconds"


async def run(*words: str, client: McpProcess, stdin: int = asyncio.subprocess.DEVNULL) -> tuple[int, str, str]:
    env = {**os.environ, "CODEX_HOME": str(client.home)}
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "understudy", *words),
        cwd=client.cwd, env=env, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(started.communicate(), 4 * WAIT_SECONDS)
    return started.returncode or 0, out.decode(), err.decode()


def decided(client: McpProcess, thread: str) -> list[dict[str, Any]]:
    """The decisions in the log, as an export has them."""
    env = {**os.environ, "CODEX_HOME": str(client.home)}
    exported = subprocess.run(
        [sys.executable, "-m", "understudy", "export", thread], env=env, capture_output=True, check=True, timeout=60
    ).stdout
    records = [json.loads(line).get("record", {}) for line in exported.splitlines()]
    return [record for record in records if record.get("type") == "approval_decided"]


# -- question_timeout


async def test_a_call_whose_client_does_not_answer_is_denied_in_time_and_the_client_s_question_withdrawn(tmp_path: Path) -> None:
    async with scene([ASKING, say("Then not.")], tmp_path, config=SOON) as (model, client):
        made = client.call_tool("codex", prompt="go")
        await client.next_request("elicitation/create")
        result = await made
        assert text_of(result) == "Then not."
        assert TIMED_OUT in told_to_model(model.requests[1])
        assert TIMED_OUT in json.dumps(result["structuredContent"]["refused"])
        await client.next_notification("notifications/cancelled")
        [record] = decided(client, thread_of(result))
        assert (record["decision"], TIMED_OUT in record["source"]) == ("denied", True)
    assert not (tmp_path / "made.txt").exists()


async def test_by_the_conversation_door_a_question_waits_for_that_time_and_no_longer(tmp_path: Path) -> None:
    async with scene([ASKING, say("Then not.")], tmp_path, config=SOON, capabilities={}) as (model, client):
        conversation = await create(client)
        await send(client, conversation, "go")
        await model.next_request(2)
        assert TIMED_OUT in told_to_model(model.requests[1])


@pytest.mark.slow
async def test_without_the_key_a_question_waits(tmp_path: Path) -> None:
    async with scene([ASKING], tmp_path, config=ASKS, capabilities={}) as (_, client):
        conversation = await create(client)
        await send(client, conversation, "go")
        deadline = time.monotonic() + WAIT_SECONDS
        while (rows := await listed(client))[0]["status"] != "waiting":
            assert time.monotonic() < deadline
        assert rows[0]["pending"] == ["call1"]
        await client.call_tool("conversationInterrupt", conversation_id=conversation)


async def test_an_answer_in_time_counts(tmp_path: Path) -> None:
    async with scene([ASKING, say("Made.")], tmp_path, config={**ASKS, "understudy.question_timeout": 600}) as (_, client):
        made = client.call_tool("codex", prompt="go")
        (await client.next_question()).approve()
        assert text_of(await made) == "Made."
    assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("word", ["yes", "no"])
async def test_the_time_runs_on_while_no_process_has_the_conversation(tmp_path: Path, word: str) -> None:
    (tmp_path / "work").mkdir()
    async with ScriptedModel([ASKING, say("Then not.")]) as model:
        async with McpProcess(model.url, cwd=tmp_path / "work", home=tmp_path / "home", config=LATER) as client:
            client.call_tool("codex", prompt="go")
            await client.next_request("elicitation/create")
            asked = time.time()
            await client.kill()
        await asyncio.sleep(max(0.0, asked + 4.2 - time.time()))  # the time of the key, which is what is tested
        code, out, err = await run("approvals", "answer", "call1", word, "--json", client=client)
        assert (code, json.loads(out)["outcome"], json.loads(out)["turn"]) == (1, "closed", "completed"), err
        assert "nobody answered within 4 seconds" in told_to_model(model.requests[1])
    assert not (tmp_path / "work" / "made.txt").exists()


# -- unasked


@pytest.mark.slow
async def test_a_call_whose_client_cannot_be_asked_is_denied_unless_the_key_says_wait(tmp_path: Path) -> None:
    async with scene([ASKING, say("Then not.")], tmp_path, config=ASKS, capabilities={}) as (_, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "Then not."
    assert not (tmp_path / "made.txt").exists()
    async with scene([ASKING, say("Made.")], tmp_path, config=WAIT, capabilities={}) as (_, client):
        made = client.call_tool("codex", prompt="go")
        await client.event("exec_approval_request", made)
        code, out, err = await run("approvals", "answer", "call1", "yes", "--json", client=client)
        assert (code, json.loads(out)["outcome"]) == (0, "counts"), err
        assert text_of(await made) == "Made."
    assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [("exec", "--json", "--skip-git-repo-check", "go"), ("exec", "--skip-git-repo-check", "go")])
async def test_exec_waits_for_somebody_where_the_key_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with scene([ASKING, say("Made.")], tmp_path, config=WAIT) as (_, client):
        running = asyncio.create_task(run(*words, client=client))
        answered = await answer_when_asked(client)
        code, out, err = await running
        assert (answered, code) == ("counts", 0), err
        assert "Made." in out
        assert "understudy approvals answer call1" in err
    assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
async def test_resume_waits_for_somebody_where_the_key_says_so(tmp_path: Path) -> None:
    async with scene([say("Hello."), ASKING, say("Made.")], tmp_path, config=WAIT) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="hello"))
        running = asyncio.create_task(run("resume", thread, "go", client=client))
        answered = await answer_when_asked(client)
        code, out, err = await running
        assert (answered, code, "Made." in out) == ("counts", 0, True), err


async def answer_when_asked(client: McpProcess) -> str:
    """Approve `call1` as soon as it is asked about."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        code, out, _ = await run("approvals", "answer", "call1", "yes", "--json", client=client)
        if out:
            return str(json.loads(out)["outcome"])
        assert code == 1
    raise AssertionError("nothing was asked")


# -- on_question


@asynccontextmanager
async def heard() -> AsyncGenerator[tuple[int, "asyncio.Queue[tuple[dict[str, str], bytes]]"]]:
    """An address that keeps what it is sent."""
    received: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        received.put_nowait((headers, await reader.readexactly(int(headers["content-length"]))))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], received
    finally:
        server.close()


async def test_program_and_address_are_told_of_a_question_without_secrets(tmp_path: Path) -> None:
    told = tmp_path / "told"
    async with heard() as (port, received):
        config = {
            **ASKS,
            "understudy.on_question.command": ["sh", "-c", f'printf %s "$0" > {told}.new; mv {told}.new {told}'],
            "understudy.on_question.url": f"http://127.0.0.1:{port}/hook?x=1",
        }
        env = {"MY_SECRET_KEY": "s3cret-value"}
        async with scene([ASKING, say("Made.")], tmp_path, config=config, env=env) as (_, client):
            made = client.call_tool("codex", prompt="go")
            question = await client.next_question()
            headers, body = await asyncio.wait_for(received.get(), WAIT_SECONDS)
            await until(told.exists, WAIT_SECONDS)
            assert json.loads(told.read_text()) == json.loads(body)
            news = json.loads(body)
            assert "s3cret-value" not in body.decode()
            assert "[redacted]" in news["question"]
            assert (news["type"], news["call-id"], news["kind"]) == ("approval-requested", "call1", "command")
            assert (news["command"], news["cwd"]) == ("touch made.txt", str(tmp_path))
            key = (client.home / "understudy" / "signing_key").read_bytes().strip()
            assert os.stat(client.home / "understudy" / "signing_key").st_mode & 0o777 == 0o600
            assert headers["x-understudy-signature"] == f"sha256={hmac.new(key, body, sha256).hexdigest()}"
            question.approve()
            assert thread_of(await made) == news["thread-id"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [{"command": ["sleep", "600"]}, {"command": ["/nowhere"]}, {"url": "http://127.0.0.1:9/"}, {"url": "http://[bad/"}]
)
async def test_nothing_is_held_up_by_a_program_or_an_address_that_fails(tmp_path: Path, setting: dict[str, Any]) -> None:
    config = ASKS | {f"understudy.on_question.{name}": value for name, value in setting.items()}
    async with scene([ASKING, say("Made.")], tmp_path, config=config) as (_, client):
        made = client.call_tool("codex", prompt="go")
        (await client.next_question()).approve()
        assert text_of(await made) == "Made."
        client.process.send_signal(signal.SIGTERM)
        await client.exit_code()


@pytest.mark.slow
async def test_a_repository_s_own_configuration_sets_none_of_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    own = tmp_path / ".codex"
    own.mkdir()
    (own / "config.toml").write_text(
        f'[understudy]\nunasked = "wait"\nquestion_timeout = 600\non_question = {{command = ["touch", "{told}"]}}\n'
    )
    async with scene([ASKING, say("Then not.")], tmp_path, config=ASKS, capabilities={}) as (_, client):
        code, _, err = await run("trust", str(tmp_path), client=client)
        assert code == 0, err
        assert text_of(await client.call_tool("codex", prompt="go")) == "Then not."
    assert not told.exists()
