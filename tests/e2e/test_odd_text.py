"""Names, texts and numbers that the log cannot hold: each is recorded or refused, and the next call works."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.scenes import scene, text_of, thread_of, told_to_model
from tests.e2e.talking import create, listed, structured
from tests.support.obliging_model import ObligingModel
from understudy.testing import SERVER_COMMAND, McpProcess, ScriptedModel, call, say

NOT_UTF8 = os.fsdecode(b"caf\xe9")


async def test_a_folder_that_is_not_named_in_utf8_is_refused_and_another_one_works(tmp_path: Path) -> None:
    odd = tmp_path / NOT_UTF8
    odd.mkdir()
    async with scene([say("ok")], odd) as (_, client):
        refused = await client.call_tool("codex", prompt="1")
        assert refused["isError"] is True
        assert "caf\\udce9" in text_of(refused)
        assert "not valid UTF-8" in text_of(refused)
        created = await client.call_tool("conversationCreate", prompt="1")
        assert "not valid UTF-8" in structured(created)["message"]
        assert text_of(await client.call_tool("codex", prompt="2", cwd=str(tmp_path))) == "ok"


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write"])
async def test_a_link_to_such_a_folder_as_workdir_is_told_to_the_model(tmp_path: Path, mode: str) -> None:
    (tmp_path / NOT_UTF8).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / NOT_UTF8)
    script = [call("shell", command=["touch", "made"], workdir="link"), say("I see"), say("next")]
    async with scene(script, tmp_path, config={"sandbox_mode": mode}) as (model, client):
        result = await client.call_tool("codex", prompt="1")
        assert text_of(result) == "I see"
        assert "not valid UTF-8" in told_to_model(model.requests[1])
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="2")) == "next"
        assert len(await listed(client)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CODEX_HOME", "HOME"])
async def test_a_home_that_is_not_named_in_utf8_is_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    odd = tmp_path / NOT_UTF8
    odd.mkdir()
    env = {name: str(odd)} | ({"CODEX_HOME": ""} if name == "HOME" else {})
    async with McpProcess(cwd=tmp_path, home=tmp_path, env=env) as client:
        refused = await client.call_tool("codex", prompt="1")
        assert "set CODEX_HOME" in text_of(refused)
        assert await client.request("ping") == {}


def test_a_flag_that_is_not_utf8_is_refused_with_the_reason(tmp_path: Path) -> None:
    import subprocess

    done = subprocess.run([*SERVER_COMMAND, "-c", b"model=gpt-\xff"], input=b"", capture_output=True, timeout=60, cwd=tmp_path)
    assert done.returncode != 0
    assert b"not valid UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.quick(1)
@pytest.mark.parametrize("number", ["9" * 4300, "9" * 400, "1e400", "-5", "18446744073709551616", "12.5"])
async def test_token_counts_of_any_size_do_no_harm(tmp_path: Path, number: str) -> None:
    usage = f'{{"choices": [], "usage": {{"prompt_tokens": {number}, "completion_tokens": 2, "total_tokens": {number}}}}}'
    answer = {
        "events": [
            {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]},
            usage,
        ],
        "done": True,
    }
    async with ScriptedModel([answer, answer]) as model, McpProcess(model.url, cwd=tmp_path) as client:
        first = await client.call_tool("codex", prompt="1")
        assert text_of(first) == "ok"
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(first), prompt="2")) == "ok"


_texts = st.text(max_size=20) | st.sampled_from(["\ud800", "a\udfff", "\udcff", "\0", "\x1b[31m", "x" * 3000, "\u202e", ""])
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([2**63, -(2**63) - 1, 10**400]) | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(
    [
        "prompt",
        "cwd",
        "model",
        "config",
        "profile",
        "sandbox",
        "base-instructions",
        "developer-instructions",
        "content",
        "conversation_id",
        "threadId",
        "parent_message_id",
        "limit",
        "cursor",
        "after",
        "call_id",
        "decision",
    ]
)
_tools = st.sampled_from(
    [
        "codex",
        "codex-reply",
        "conversationCreate",
        "conversationSendMessage",
        "conversationStream",
        "conversationsList",
        "conversationInterrupt",
        "conversationApprove",
        "conversationDelete",
    ]
)
_calls = st.lists(st.tuples(_tools, st.dictionaries(_names, _values, max_size=4), _texts), min_size=1, max_size=4)


@pytest.mark.slow
@given(calls=_calls)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_a_client_sends_is_recorded_or_refused_and_the_next_call_works(tmp_path: Path, calls: Any) -> None:
    import asyncio

    asyncio.run(_send_all(tmp_path, calls))


async def _send_all(folder: Path, calls: list[tuple[str, dict[str, Any], str]]) -> None:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    model = ObligingModel()
    async with model.serving(), McpProcess(model.url, cwd=folder, home=home, check_frames=False) as client:
        thread = await create(client)
        for number, (tool, arguments, text) in enumerate(calls):
            known = {"conversation_id": thread, "threadId": thread, "prompt": text, "content": [{"type": "text", "text": text}]}
            wanted = {
                "codex": ("prompt",),
                "codex-reply": ("threadId", "prompt"),
                "conversationSendMessage": ("conversation_id", "content"),
                "conversationStream": ("conversation_id",),
                "conversationInterrupt": ("conversation_id",),
            }.get(tool, ())
            given_ = {name: known[name] for name in wanted} | arguments
            params = {"name": tool, "arguments": given_}
            line = json.dumps({"jsonrpc": "2.0", "id": f"odd {number}", "method": "tools/call", "params": params})
            await client.send_raw(line.encode() + b"\n")
            answer = await client.wait_for_frame(partial(_answers, f"odd {number}"), f"an answer to {line[:300]}")
            client.frames.remove(answer)
            assert "internal error" not in json.dumps(answer), line
        assert text_of(await client.call_tool("codex", prompt="after")) == "ok: after"
        assert (await client.call_tool("conversationsList"))["isError"] is False


def _answers(request_id: str, frame: dict[str, Any]) -> bool:
    return "method" not in frame and frame.get("id") in (request_id, None)
