"""Sessions that were recorded are played again with the network off, in another folder; what was not recorded fails loudly."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import kinds, text_of, thread_of
from understudy.testing import HOLD, McpProcess, Script, ScriptedModel, call, cut_after, deltas, hang, reasoning, say, status
from understudy.testing.script import Wire

WIRES: tuple[Wire, ...] = ("chat", "responses", "anthropic")
MODELS = {"chat": "mock-model", "responses": "gpt-5.5", "anthropic": "claude-sonnet-5-5"}
RETRIES = {"model_providers.mock.request_max_retries": 2, "model_providers.mock.stream_max_retries": 2}
NOTHING_ASKED = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
SECRET = "hunter2-hunter2-hunter2"
KEY = "sk-the-key-of-the-provider-0123456789"


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir(exist_ok=True)
    return made


@asynccontextmanager
async def recording(script: Script, tmp_path: Path, wire: Wire, **config: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
    """A server in the folder `one` that records; its provider wants a key."""
    settings = {
        "understudy.record": str(tmp_path / "session.jsonl"),
        "model": MODELS[wire],
        "model_providers.mock.env_key": "PROVIDER_KEY",
        **RETRIES,
        **config,
    }
    env = {"PROVIDER_KEY": KEY, "DATABASE_PASSWORD": SECRET}
    async with (
        ScriptedModel(script) as model,
        McpProcess(model.url, cwd=folder(tmp_path, "one"), wire=wire, config=settings, env=env) as client,
    ):
        yield model, client


@asynccontextmanager
async def replaying(tmp_path: Path, name: str = "two", **config: Any) -> AsyncGenerator[McpProcess]:
    """A server in another folder, without a key or a provider."""
    settings: dict[str, Any] = {"model_provider": "replay", "understudy.replay": str(tmp_path / "session.jsonl"), **config}
    settings |= {"approval_policy": "never", "sandbox_mode": "danger-full-access"}
    async with McpProcess(cwd=folder(tmp_path, name), config=settings) as client:
        yield client


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "session.jsonl").read_text().splitlines()]


async def session(client: McpProcess) -> tuple[list[str], list[list[dict[str, Any]]]]:
    """Two turns of one conversation: the answers, and what was shown of each, but for what differs from run to run."""
    first = client.call_tool("codex", prompt="look around")
    second = client.call_tool("codex-reply", prompt="once more", sessionId=thread_of(await first))
    texts = [text_of(await first), text_of(await second)]
    shown = [[event for event in client.events(made) if event["type"] in SHOWN] for made in (first, second)]
    return texts, shown


SHOWN = ("agent_message", "agent_reasoning", "agent_message_delta", "token_count", "task_complete", "background_event")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.quick(1)
async def test_a_recorded_session_is_played_alike_in_another_folder_without_a_network(tmp_path: Path, wire: Wire) -> None:
    script = [
        reasoning("I look") + call("shell", command=["sh", "-c", "pwd; date; sleep 0.02; cat /proc/sys/kernel/random/uuid"]),
        status(500, "oops", {"retry-after": "0"}),
        say("I have looked.", usage=(70, 30)),
        say("And again.", usage=(80, 5)),
    ]
    async with recording(script, tmp_path, wire) as (_, client):
        before = await session(client)
    assert [line["status"] for line in lines(tmp_path)] == [200, 500, 200, 200]
    async with replaying(tmp_path) as client:
        assert await session(client) == before


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", WIRES)
async def test_no_secret_is_in_a_recording(tmp_path: Path, wire: Wire) -> None:
    """Neither the key, nor what a command shows of a variable, nor a secret that the model spells out piece by piece."""
    told = [SECRET[:5], SECRET[5:9], SECRET[9:]]
    script = [
        call("shell", command=["echo", SECRET, "ghp_0123456789abcdefghij0123456789"]),
        deltas(["It is ", *told, f", and the header was Authorization: Bearer {KEY}"]),
    ]
    async with recording(script, tmp_path, wire) as (model, client):
        result = await client.call_tool("codex", prompt=f"the password is {SECRET}")
        assert SECRET in text_of(result)
        assert KEY in json.dumps([dict(request.headers) for request in model.received])
    written = (tmp_path / "session.jsonl").read_text()
    for secret in (SECRET, KEY, "ghp_0123456789abcdefghij0123456789", *told[1:]):
        assert secret not in written
    assert "authorization" not in written.lower().replace("authorization: bearer [redacted]", "")
    assert (tmp_path / "session.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
async def test_a_request_that_was_not_recorded_fails_with_a_diff(tmp_path: Path) -> None:
    async with recording([say("x")], tmp_path, "responses") as (_, client):
        await client.call_tool("codex", prompt="what was asked")
    async with replaying(tmp_path) as client:
        failed = await client.call_tool("codex", prompt="something else")
        assert failed["isError"] is True
        told = text_of(failed)
        assert "this request was not recorded" in told
        assert "--- recorded (line 1)" in told
        [removed] = [line for line in told.splitlines() if line.startswith("-") and "what was asked" in line]
        [added] = [line for line in told.splitlines() if line.startswith("+") and "something else" in line]
        assert removed.startswith("-input[")
        assert added.startswith("+input[")
        assert text_of(await client.call_tool("codex", prompt="what was asked")) == "x", "it is still there to be played"
        again = await client.call_tool("codex", prompt="what was asked")
        assert "all 1 recorded exchanges have been played" in text_of(again)


@pytest.mark.slow
async def test_a_stream_that_broke_off_breaks_off_again(tmp_path: Path) -> None:
    script = [cut_after(say("half"), abruptly=True), cut_after(say("half")), say("whole")]
    async with recording(script, tmp_path, "chat") as (_, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "whole"
    async with replaying(tmp_path) as client:
        made = client.call_tool("codex", prompt="go")
        assert text_of(await made) == "whole"
        assert kinds(client.events(made)).count("background_event") >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "sign"),
    [([hang()], "task_started"), ([deltas(["so far", HOLD])], "agent_message_delta")],
    ids=["before the answer", "in the middle of it"],
)
async def test_an_interrupt_is_played_too(tmp_path: Path, script: Script, sign: str) -> None:
    async def interrupted(client: McpProcess, model: ScriptedModel | None) -> None:
        made = client.call_tool("codex", prompt="go")
        await client.event(sign, made)
        if model is not None:
            await model.next_request(1)
        await client.cancel(made)
        assert (await made)["isError"] is True

    async with recording(script, tmp_path, "responses") as (model, client):
        await interrupted(client, model)
    assert [line["ending"] for line in lines(tmp_path)] == ["left"]
    async with replaying(tmp_path) as client:
        await interrupted(client, None)


@pytest.mark.slow
async def test_two_conversations_at_once_are_told_apart(tmp_path: Path) -> None:
    async with recording([say("1"), say("2")], tmp_path, "chat") as (_, client):
        for prompt in ("first", "second"):
            await client.call_tool("codex", prompt=prompt)
    async with replaying(tmp_path) as client:
        later, earlier = client.call_tool("codex", prompt="second"), client.call_tool("codex", prompt="first")
        assert (text_of(await later), text_of(await earlier)) == ("2", "1")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the recording"),
        ("", "is empty"),
        ('{"request": 1}\n', "line 1 is not of a recording"),
        ('{"wire": "chat", "request": {}, "recording": 2}\n', "another version"),
        ("no json\n", "line 1 is not of a recording"),
    ],
)
async def test_a_file_that_is_no_recording_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "session.jsonl").write_text(content)
    async with replaying(tmp_path) as client:
        result = await client.call_tool("codex", prompt="go")
    assert result["isError"] is True
    assert words in text_of(result)
    assert "session.jsonl" in text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["understudy.replay", "understudy.record", "understudy.scripted_model", "experimental_instructions_file"]
)
async def test_a_pipe_that_a_caller_names_holds_nobody_up(tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    provider = {"understudy.replay": "replay", "understudy.scripted_model": "scripted"}.get(key)
    config = {key: str(tmp_path / "pipe")} | ({"model_provider": provider} if provider else {})
    async with ScriptedModel([say("x")]) as model, McpProcess(model.url, cwd=folder(tmp_path, "one")) as client:
        refused = await client.call_tool("codex", prompt="go", config=config)
        assert refused["isError"] is True
        assert str(tmp_path / "pipe") in text_of(refused)
        assert text_of(await client.call_tool("codex", prompt="go")) == "x"


@pytest.mark.slow
async def test_without_a_recording_the_provider_says_how_to_name_one(tmp_path: Path) -> None:
    async with replaying(tmp_path, **{"understudy.replay": ""}) as client:
        result = await client.call_tool("codex", prompt="go")
    assert 'Set `replay = "FILE"`' in text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["missing/session.jsonl", "/dev/null", ".", "notes.txt", "pipe"])
async def test_a_recording_that_cannot_be_written_is_told_before_the_model_is_asked(tmp_path: Path, place: str) -> None:
    (folder(tmp_path, "one") / "notes.txt").write_text("something else")
    os.mkfifo(tmp_path / "one" / "pipe")
    async with recording([], tmp_path, "chat", **{"understudy.record": place}) as (_, client):
        result = await client.call_tool("codex", prompt="go")
    assert result["isError"] is True
    assert "cannot record to" in text_of(result)
    assert (tmp_path / "one" / "notes.txt").read_text() == "something else"


@pytest.mark.slow
async def test_a_secret_that_looks_like_a_number_leaves_a_recording_that_can_be_played(tmp_path: Path) -> None:
    script = [call("shell", command=["true"]), say("x", usage=(20261115, 1))]
    async with (
        ScriptedModel(script) as model,
        McpProcess(
            model.url,
            cwd=folder(tmp_path, "one"),
            config={"understudy.record": str(tmp_path / "session.jsonl")},
            env={"DATABASE_PASSWORD": "20261115"},
        ) as client,
    ):
        assert text_of(await client.call_tool("codex", prompt="go")) == "x"
    async with replaying(tmp_path) as client:
        made = client.call_tool("codex", prompt="go")
        assert text_of(await made) == "x"
        assert [event["input_tokens"] for event in client.events(made) if event["type"] == "token_count"] == [20261115]


@pytest.mark.slow
async def test_a_key_that_a_provider_sends_back_in_a_header_or_a_name_is_not_recorded(tmp_path: Path) -> None:
    script = [
        status(400, {KEY: {KEY: KEY}}),
        status(307, "", {"location": f"http://127.0.0.1:9/?key={KEY}"}),
    ]
    async with recording(script, tmp_path, "chat") as (_, client):
        assert (await client.call_tool("codex", prompt="one"))["isError"] is True
        assert (await client.call_tool("codex", prompt="two"))["isError"] is True
    assert len(lines(tmp_path)) == 2
    assert KEY not in (tmp_path / "session.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("levels", [300, 700, 5000])
async def test_what_is_nested_deeply_is_recorded_and_played(tmp_path: Path, levels: int) -> None:
    """Both an answer and the arguments of a call, which are JSON within JSON when two requests are compared."""
    deep = '{"a":' * levels + "1" + "}" * levels
    script = [call("update_plan", arguments_text=deep), say("done"), status(400, deep)]
    async with recording(script, tmp_path, "chat") as (_, client):
        assert text_of(await client.call_tool("codex", prompt="one")) == "done"
        refused = text_of(await client.call_tool("codex", prompt="two"))
        assert refused.startswith("unexpected status 400")
    async with replaying(tmp_path) as client:
        assert text_of(await client.call_tool("codex", prompt="one")) == "done"
        assert text_of(await client.call_tool("codex", prompt="two")) == refused


async def test_a_folder_that_a_command_replaces_by_a_link_is_not_recorded_to(tmp_path: Path) -> None:
    """It would choose the folder in which a file of that name gets what the model is sent and says."""
    elsewhere, work = folder(tmp_path, "elsewhere"), folder(tmp_path, "one")
    folder(work, "logs")
    swap = call("shell", command=["bash", "-c", f"mv logs old && ln -s {elsewhere} logs"])
    config = {"understudy.record": str(work / "logs" / "session.jsonl"), **NOTHING_ASKED}
    async with recording([swap, say("done")], tmp_path, "chat", **config) as (_, client):
        result = await client.codex("go")
        assert result["isError"] is True
        assert f"{work}/logs is a link, in a folder that an agent may write to" in text_of(result)
    assert list(elsewhere.iterdir()) == []
    assert (work / "old" / "session.jsonl").read_text().count("\n") == 1
