"""Calls of other servers' tools are asked about by our own questions, in every policy, and nobody to ask never means a hang."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import server
from tests.e2e.scenes import ANSWERS_NO_QUESTION, scene, text_of, thread_of, told_to_model
from understudy.testing import McpProcess, ScriptedModel, call, say

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
DELETES = call("mcp__srv__deletes", what="all `of` it")
REFUSED = "MCP tool call requires approval, but approval policy is never"


async def test_a_question_names_server_tool_and_arguments_and_a_yes_runs_it(tmp_path: Path) -> None:
    async with scene([DELETES, say("Done.")], tmp_path, config=server("srv") | ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        event = await client.event("approval_request", call_)
        text = "Allow Codex to call the tool `deletes` of the MCP server `srv`?"
        assert event == {"type": "approval_request", "call_id": "call1", "kind": "mcp-tool-approval", "message": text}
        params = question["params"]
        assert (params["message"], params["codex_elicitation"], params["codex_call_id"]) == (text, "mcp-tool-approval", "call1")
        assert (params["codex_server"], params["codex_tool"]) == ("srv", "deletes")
        assert params["codex_arguments"] == {"what": "all `of` it"}
        assert '| what = "all `of` it"' in params["codex_reason"].splitlines()
        await client.respond(question, {"action": "accept"})
        assert text_of(await call_) == "Done."
        assert told_to_model(model.requests[1]) == 'got {"what": "all `of` it"}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "given"),
    [({"action": "decline"}, "tool call rejected by user"), ({"decision": "denied"}, "tool call rejected by user")],
)
async def test_a_no_runs_nothing_and_the_model_is_told(tmp_path: Path, answer: dict[str, Any], given: str) -> None:
    async with scene([DELETES, say("A pity.")], tmp_path, config=server("srv") | ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.respond(await client.next_request("elicitation/create"), answer)
        await call_
        assert told_to_model(model.requests[1]) == given
        assert not [event for event in client.events(call_) if event["type"].startswith("mcp_tool_call")]


@pytest.mark.slow
async def test_a_yes_for_the_session_covers_the_tool_and_no_other(tmp_path: Path) -> None:
    other = call("mcp__srv__empty", call_id="call3")
    script = [DELETES, call("mcp__srv__deletes", call_id="call2"), other, say("Done.")]
    async with scene(script, tmp_path, config=server("srv") | ASKING) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.respond(await client.next_request("elicitation/create"), {"decision": "approved_for_session"})
        question = await client.next_request("elicitation/create")
        assert question["params"]["codex_call_id"] == "call3"
        await client.respond(question, {"decision": "denied"})
        await call_
        assert told_to_model(model.requests[2], "call2") == "got {}"


@pytest.mark.slow
async def test_a_client_that_cannot_be_asked_means_no(tmp_path: Path) -> None:
    options: dict[str, Any] = {"config": server("srv") | ASKING, "capabilities": ANSWERS_NO_QUESTION}
    async with scene([DELETES, say("A pity.")], tmp_path, **options) as (model, client):
        await client.codex("go")
        assert "did not declare the elicitation capability" in told_to_model(model.requests[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "mode", "sandbox", "tool", "outcome"),
    [
        ("never", "auto", "workspace-write", "ok", "runs"),
        ("never", "auto", "workspace-write", "deletes", "refused"),
        ("never", "auto", "danger-full-access", "deletes", "runs"),
        ("never", "prompt", "danger-full-access", "ok", "refused"),
        ("never", "writes", "danger-full-access", "deletes", "refused"),
        ("never", "writes", "read-only", "ok", "runs"),
        ("never", "approve", "read-only", "deletes", "runs"),
        ("on-request", "auto", "workspace-write", "ok", "runs"),
        ("on-request", "auto", "danger-full-access", "deletes", "asked"),
        ("on-request", "prompt", "workspace-write", "ok", "asked"),
        ("on-request", "approve", "workspace-write", "deletes", "runs"),
        ("on-failure", "auto", "workspace-write", "deletes", "asked"),
        ("untrusted", "auto", "workspace-write", "ok", "asked"),
        ("untrusted", "approve", "workspace-write", "ok", "runs"),
    ],
)
async def test_policy_and_the_server_s_mode_decide(
    tmp_path: Path, policy: str, mode: str, sandbox: str, tool: str, outcome: str
) -> None:
    config = server("srv", default_tools_approval_mode=mode) | {"approval_policy": policy, "sandbox_mode": sandbox}
    async with scene([call(f"mcp__srv__{tool}"), say("Done.")], tmp_path, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        if outcome == "asked":
            await client.respond(await client.next_request("elicitation/create"), {"action": "accept"})
        await call_
        assert (told_to_model(model.requests[1]) == REFUSED) == (outcome == "refused")
        assert len(client.questions) == (outcome == "asked")


@pytest.mark.slow
async def test_a_question_survives_the_program_and_is_put_again(tmp_path: Path) -> None:
    home = tmp_path / "user" / ".codex"
    (tmp_path / "work").mkdir()
    async with ScriptedModel([DELETES, say("Done.")]) as model:
        options: dict[str, Any] = {"cwd": tmp_path / "work", "home": home}
        async with McpProcess(model.url, config=server("srv") | ASKING, **options) as client:
            call_ = client.call_tool("codex", prompt="go")
            await client.next_request("elicitation/create")
            thread = (await client.event("session_configured", call_))["session_id"]
            client.kill_now()
            await client.exit_code()
        async with McpProcess(**options) as client:
            call_ = client.call_tool("codex-reply", threadId=thread, prompt="and?")
            question = await client.next_request("elicitation/create")
            assert question["params"]["codex_tool"] == "deletes"
            await client.respond(question, {"action": "accept"})
            assert thread_of(await call_) == thread
        assert "all `of` it" in json.dumps(model.requests[1])


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["MY_TOKEN", "PLAIN"])
async def test_what_a_server_is_given_as_secret_is_in_no_log_and_in_no_answer(tmp_path: Path, variable: str) -> None:
    script = f"import os, sys; print('no', os.environ['{variable}'], file=sys.stderr); sys.exit(3)"
    given = {"mcp_servers.srv": {"command": "python3", "args": ["-c", script], "env": {variable: "s3cret-value"}}}
    home = tmp_path / "user" / ".codex"
    async with scene([say("Hm.")], tmp_path, home=home, config={"understudy.mcp.wait_seconds": 60}) as (_, client):
        result = await client.codex("go", config=given)
        [missing] = result["structuredContent"]["report"]["missing_servers"]
        assert "no [redacted]" in missing["error"]
        assert b"s3cret-value" not in b"".join(map(bytes, (json.dumps(client.frames[1:]).encode(), client.stderr.encode())))
    stored = b"".join(path.read_bytes() for path in (home / "understudy").rglob("*") if path.is_file())
    assert b"mcp_servers" in stored
    assert b"s3cret-value" not in stored
