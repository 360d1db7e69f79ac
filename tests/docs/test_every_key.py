"""Every key of docs/configuration.md does what the page says, in the real program.

One server runs all of them: each key is set for one conversation, by the `config` argument of its call.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.docs.configuration_page import rows
from tests.docs.serving_keys import SHOWN
from tests.docs.storing_keys import STORING
from tests.docs.workspace_keys import WORKSPACES
from tests.e2e.other_servers import KINDS, tool_server_on_http
from tests.e2e.scenes import text_of
from tests.sandbox.stage import until
from tests.support.contents import contents
from tests.support.http_server import HttpServer
from tests.support.rest_client import log_in
from tests.support.task_clients import StdioDoor, TaskClient
from understudy.testing import (
    SERVER_COMMAND,
    Call,
    CodexHome,
    LineProcess,
    McpProcess,
    ReceivedRequest,
    Script,
    ScriptedModel,
    call,
    cut_after,
    hang,
    reasoning,
    say,
    status,
)
from understudy.testing.waiting import WAIT_SECONDS

ENV = {"PLAIN": "plain", "MY_TOKEN": "t0ken-value", "THE_KEY": "k3y-of-the-provider", "FROM_ENV": "from the environment"}


@dataclass
class Seen:
    received: list[ReceivedRequest]
    result: dict[str, Any]
    call: Call
    client: McpProcess

    @property
    def body(self) -> dict[str, Any]:
        return self.received[0].body

    @property
    def text(self) -> str:
        return text_of(self.result)

    @property
    def printed(self) -> str:
        """What the model was told of the command it called."""
        outputs = [message["content"] for message in self.received[-1].body["messages"] if message["role"] == "tool"]
        return str(outputs[-1])

    @property
    def output(self) -> str:
        return str(json.loads(self.printed)["output"])

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.client.events(self.call)]


@dataclass
class Stage:
    client: McpProcess
    home: Path
    work: Path

    async def turn(self, script: Script, /, *, wire: str = "chat", **settings: Any) -> Seen:
        """One conversation with a model of its own, and `settings` (`__` for a dot) as the `config` argument."""
        async with ScriptedModel(script) as model:
            config = {
                "model_providers.mock.base_url": model.url,
                "model_providers.mock.wire_api": wire,
                **{key.replace("__", "."): value for key, value in settings.items()},
            }
            if settings.get("model_provider") in ("scripted", "replay"):
                config = {key: value for key, value in config.items() if "mock" not in key}
            made = self.client.call_tool("codex", prompt="go", cwd=str(self.work), config=config)
            result = await made
        return Seen(model.received, result, made, self.client)

    async def shell(self, script: str, /, **settings: Any) -> Seen:
        """The same with one command, contained unless the settings say otherwise."""
        answers = [call("shell", command=["sh", "-c", script]), say("ok")]
        return await self.turn(answers, **{"sandbox_mode": "workspace-write", **settings})


Effect = Callable[[Stage], Awaitable[None]]
EFFECTS: dict[str, Effect] = {}


def shows(*keys: str) -> Callable[[Effect], Effect]:
    def keep(effect: Effect) -> Effect:
        EFFECTS.update(dict.fromkeys(keys, effect))
        return effect

    return keep


# -- the model


@shows("model", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity")
async def _(stage: Stage) -> None:
    settings = {"model": "gpt-5", "model_reasoning_effort": "low", "model_reasoning_summary": "detailed", "model_verbosity": "high"}
    body = (await stage.turn([say("x")], wire="responses", **settings)).body
    assert body["model"] == "gpt-5"
    assert body["reasoning"] == {"effort": "low", "summary": "detailed"}
    assert body["text"] == {"verbosity": "high"}
    unknown = {"model": "nobody-knows", "model_reasoning_effort": "low"}
    assert (await stage.turn([say("x")], wire="responses", **unknown)).body["reasoning"] == {"effort": "low"}
    assert (await stage.turn([say("x")], **unknown)).body["reasoning_effort"] == "low"
    refusing = {**unknown, "model_supports_reasoning_summaries": False}
    assert (await stage.turn([say("x")], wire="responses", **refusing)).body["reasoning"] is None


@shows("model_supports_reasoning_summaries")
async def _(stage: Stage) -> None:
    body = (await stage.turn([say("x")], model="gpt-oss:20b", model_reasoning_effort="minimal")).body
    assert body["reasoning_effort"] == "low"
    assert (await stage.turn([say("x")], wire="responses")).body["reasoning"] is None
    body = (await stage.turn([say("x")], wire="responses", model_supports_reasoning_summaries=True)).body
    assert body["reasoning"] == {"effort": "medium", "summary": "auto"}


@shows("model_context_window")
async def _(stage: Stage) -> None:
    for window, requests in ((10_000, 3), (10_010, 2)):
        script = [replace(call("shell", command=["true"]), usage=(8990, 10)), *[say("x")] * (requests - 1)]
        assert len((await stage.turn(script, model_context_window=window)).received) == requests


@shows("tool_output_token_limit")
async def _(stage: Stage) -> None:
    for tokens, most in ((50, 200), (5000, 20_000)):
        seen = await stage.turn([call("shell", command=["seq", "100000"]), say("x")], tool_output_token_limit=tokens)
        assert most / 2 < len(seen.output) < most + 100
        assert "omitted" in seen.output


@shows("tools.view_image")
async def _(stage: Stage) -> None:
    for switch in (True, False):
        offered = [tool["function"]["name"] for tool in (await stage.turn([say("x")], tools__view_image=switch)).body["tools"]]
        assert ("view_image" in offered) is switch


@shows("model_auto_compact_token_limit", "compact_prompt")
async def _(stage: Stage) -> None:
    script = [replace(call("shell", command=["true"]), usage=(490, 10)), say("THE SUM"), say("x")]
    seen = await stage.turn(script, model_auto_compact_token_limit=500, compact_prompt="Be brief.")
    assert seen.received[1].body["messages"][-1] == {"role": "user", "content": "Be brief."}
    assert "THE SUM" in str(seen.received[2].body)


@shows("disable_response_storage")
async def _(stage: Stage) -> None:
    for value in (True, False):
        body = (await stage.turn([say("x")], wire="responses", disable_response_storage=value)).body
        assert body["store"] is not value


@shows("show_raw_agent_reasoning")
async def _(stage: Stage) -> None:
    script = [reasoning("raw thoughts", raw=True) + say("x")]
    for value in (False, True):
        seen = await stage.turn(script, wire="responses", show_raw_agent_reasoning=value)
        assert any("raw" in kind for kind in seen.kinds) == value


@shows("hide_agent_reasoning")
async def _(stage: Stage) -> None:
    for value in (False, True):
        seen = await stage.turn([reasoning("a thought") + say("x")], wire="responses", hide_agent_reasoning=value)
        assert any("reasoning" in kind for kind in seen.kinds) != value


@shows("model_provider", "understudy.scripted_model")
async def _(stage: Stage) -> None:
    (stage.work / "answers.json").write_text(json.dumps([{"say": "from the script"}]))
    seen = await stage.turn([], model_provider="scripted", understudy__scripted_model="answers.json")
    assert seen.text == "from the script"


@shows("understudy.record", "understudy.replay")
async def _(stage: Stage) -> None:
    await stage.turn([say("recorded")], understudy__record="session.jsonl")
    seen = await stage.turn([], model_provider="replay", understudy__replay="session.jsonl", model="mock-model")
    assert seen.text == "recorded"


@shows("openai_base_url", "model_providers.*.requires_openai_auth")
async def _(stage: Stage) -> None:
    async with ScriptedModel([say("x")]) as model:
        config = {"model_provider": "openai", "openai_base_url": model.url}
        result = await stage.client.call_tool("codex", prompt="go", config=config)
        assert text_of(result) == "x"
        assert model.received[0].headers["authorization"] == "Bearer sk-of-openai-itself"
    seen = await stage.turn([say("x")], model_providers__mock__requires_openai_auth=True)
    assert seen.received[0].headers["authorization"] == "Bearer sk-of-openai-itself"
    assert "authorization" not in (await stage.turn([say("x")])).received[0].headers


@shows("cli_auth_credentials_store")
async def _(stage: Stage) -> None:
    home = stage.work / "home-of-keys"
    home.mkdir()
    for store, kept in (("file", True), ("ephemeral", False)):
        (home / "config.toml").write_text(f'cli_auth_credentials_store = "{store}"\n')
        env = {**os.environ, "CODEX_HOME": str(home)}
        command = [sys.executable, "-m", "understudy", "login"]
        login = await asyncio.create_subprocess_exec(*command, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        await login.communicate(b"sk-of-a-test-0123456789")
        assert (login.returncode == 0) == kept


@shows("model_providers.*.base_url", "model_providers.*.wire_api")
async def _(stage: Stage) -> None:
    assert (await stage.turn([say("x")], wire="chat")).received[0].path == "/v1/chat/completions"
    assert (await stage.turn([say("x")], wire="responses")).received[0].path == "/v1/responses"


@shows("model_providers.*.env_key", "model_providers.*.env_key_instructions", "model_providers.*.name")
async def _(stage: Stage) -> None:
    seen = await stage.turn([say("x")], model_providers__mock__env_key="THE_KEY")
    assert seen.received[0].headers["authorization"] == f"Bearer {ENV['THE_KEY']}"
    missing = {"model_providers__mock__env_key": "NOT_SET", "model_providers__mock__env_key_instructions": "Ask Ann for one."}
    seen = await stage.turn([], **missing, model_providers__mock__name="Ann's models")
    assert seen.result["isError"] is True
    assert "NOT_SET" in seen.text
    assert "Ask Ann for one." in seen.text
    refused = await stage.turn([status(401, "no")], model_providers__mock__name="Ann's models")
    assert refused.result["isError"] is True


@shows("model_providers.*.http_headers", "model_providers.*.env_http_headers", "model_providers.*.query_params")
async def _(stage: Stage) -> None:
    settings: dict[str, Any] = {
        "model_providers__mock__http_headers": {"X-Fixed": "one"},
        "model_providers__mock__env_http_headers": {"X-From-Env": "FROM_ENV"},
        "model_providers__mock__query_params": {"api-version": "7"},
    }
    request = (await stage.turn([say("x")], **settings)).received[0]
    assert (request.headers["x-fixed"], request.headers["x-from-env"]) == ("one", ENV["FROM_ENV"])
    assert request.path.endswith("?api-version=7")


@shows("model_providers.*.request_max_retries", "model_providers.*.stream_max_retries")
async def _(stage: Stage) -> None:
    none: dict[str, Any] = {"model_providers__mock__request_max_retries": 0, "model_providers__mock__stream_max_retries": 0}
    for failing, key in (
        (status(500, "no"), "model_providers__mock__request_max_retries"),
        (cut_after(say("half")), "model_providers__mock__stream_max_retries"),
    ):
        assert len((await stage.turn([failing], **none)).received) == 1
        retrying: dict[str, Any] = {**none, key: 1}
        again = await stage.turn([failing, say("whole")], **retrying)
        assert (len(again.received), again.text) == (2, "whole")


@shows("model_providers.*.stream_idle_timeout_ms")
async def _(stage: Stage) -> None:
    seen = await stage.turn([hang()], model_providers__mock__stream_idle_timeout_ms=100)
    assert seen.result["isError"] is True


@shows("understudy.prices.*.input", "understudy.prices.*.cached", "understudy.prices.*.output")
async def _(stage: Stage) -> None:
    for cached in ({}, {"cached": 0.5}):
        price = {"input": 1, **cached, "output": 2}
        flags = [word for key, value in price.items() for word in ("-c", f"understudy.prices.mine.{key}={value}")]
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "model", "list", "--json", "--offline", "-c", "model=mine", *flags),
            env={**os.environ, "CODEX_HOME": str(stage.home)},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await done.communicate()
        told = json.loads(out)["models"][0]["price"]
        assert {key: told[key] for key in ("input", "cached", "output")} == {"cached": None, **price}


LIMITS: dict[str, Any] = {"tokens": 10, "cost_usd": 0.0001, "requests": 1}


@shows(*(f"understudy.budget.{scope}{limit}" for scope in ("", "call.") for limit in LIMITS))
async def _(stage: Stage) -> None:
    answers = [call("shell", command=["true"]) + say("", usage=(100, 1))]
    settings: dict[str, Any] = {
        "approval_policy": "never",
        "understudy__prices__o3__input": 5,
        "understudy__prices__o3__output": 5,
        "model": "o3",
    }
    for scope in ("", "call__"):
        for limit, allowed in LIMITS.items():
            seen = await stage.turn(answers, **settings, **{f"understudy__budget__{scope}{limit}": allowed})
            assert seen.text.startswith(f"the budget of this {'call' if scope else 'conversation'} is used up: "), limit
            assert len(seen.received) == 1


@shows("understudy.budget.seconds", "understudy.budget.call.seconds")
async def _(stage: Stage) -> None:
    for key in ("understudy__budget__seconds", "understudy__budget__call__seconds"):
        settings: dict[str, Any] = {"approval_policy": "never", key: 0.2}
        seen = await stage.turn([hang()], **settings)
        assert " of 0.2 seconds. Nobody is asked" in seen.text


# -- what the agent may do


@shows("approval_policy")
async def _(stage: Stage) -> None:
    answers = [call("shell", command=["touch", "asked"]), say("ok")]
    async with ScriptedModel(answers) as model:
        config = {"model_providers.mock.base_url": model.url, "approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
        made = stage.client.call_tool("codex", prompt="go", cwd=str(stage.work), config=config)
        await stage.client.respond(await stage.client.next_request("elicitation/create"), {"action": "decline"})
        await made
    assert not (stage.work / "asked").exists()


@shows("sandbox_mode")
async def _(stage: Stage) -> None:
    for mode, made in (("read-only", False), ("workspace-write", True)):
        await stage.shell(f"touch {mode}", sandbox_mode=mode)
        assert (stage.work / mode).exists() == made


@shows("sandbox_workspace_write.writable_roots")
async def _(stage: Stage) -> None:
    beside = stage.home.parent / "beside"
    beside.mkdir()
    for roots, made in (([], False), ([str(beside)], True)):
        await stage.shell(f"touch {beside}/made", sandbox_workspace_write__writable_roots=roots)
        assert (beside / "made").exists() == made


INTERNET = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(); print('reached')"
UNIX = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind('s'); print('reached')"


@shows("sandbox_workspace_write.network_access", "understudy.sandbox.network")
async def _(stage: Stage) -> None:
    for settings, reached in (
        ({}, False),
        ({"sandbox_workspace_write__network_access": True}, True),
        ({"understudy__sandbox__network": "on"}, True),
        ({"sandbox_workspace_write__network_access": True, "understudy__sandbox__network": "off"}, False),
    ):
        seen = await stage.shell(f'python3 -c "{INTERNET}"', **settings)
        assert ("reached" in seen.output.splitlines()) == reached, settings


@shows("understudy.sandbox.unix_sockets")
async def _(stage: Stage) -> None:
    for value in (False, True):
        settings = {"understudy__sandbox__network": "loopback", "understudy__sandbox__unix_sockets": value}
        seen = await stage.shell(f'rm -f s; python3 -c "{UNIX}"', **settings)
        assert ("reached" in seen.output.splitlines()) == value


@shows("understudy.sandbox.mask", "understudy.sandbox.protect")
async def _(stage: Stage) -> None:
    secret = stage.work / "secret"
    secret.write_text("the secret\n")
    assert (await stage.shell(f"cat {secret}")).output == "the secret\n"
    assert "the secret" not in (await stage.shell(f"cat {secret}", understudy__sandbox__mask=[str(secret)])).output
    (stage.work / "kept").write_text("as it was")
    await stage.shell("echo changed > kept", understudy__sandbox__protect=["kept"])
    assert (stage.work / "kept").read_text() == "as it was"
    await stage.shell("echo changed > kept")
    assert (stage.work / "kept").read_text() == "changed\n"


@shows("understudy.sandbox.limits.seconds", "understudy.commands.timeout_seconds")
async def _(stage: Stage) -> None:
    for key in ("understudy__sandbox__limits__seconds", "understudy__commands__timeout_seconds"):
        seen = await stage.shell("sleep 60", **{key: 1})
        assert seen.output == "command timed out after 1000 milliseconds\n"


@shows("understudy.commands.sessions", "understudy.commands.idle_seconds")
async def _(stage: Stage) -> None:
    first = call("exec_command", cmd="sleep 60", yield_time_ms=250)
    second = call("exec_command", cmd="echo hi", call_id="call2")
    stop = call("write_stdin", session_id=1001, chars="\x03", yield_time_ms=30_000, call_id="call3")
    seen = await stage.turn([first, second, stop, say("ok")], sandbox_mode="workspace-write", understudy__commands__sessions=1)
    assert "1 commands are running in sessions, which is the most" in str(seen.received[-1].body)
    wait = call("shell", command=["sleep", "2"], call_id="call2")
    poll = call("write_stdin", session_id=1001, yield_time_ms=30_000, call_id="call3")
    settings: dict[str, Any] = {"sandbox_mode": "workspace-write", "understudy__commands__idle_seconds": 1}
    seen = await stage.turn([first, wait, poll, say("ok")], **settings)
    assert "nobody had asked for it for 1 seconds" in seen.printed


# For root the kernel counts roughly: it keeps some 300 process numbers back.
PROCESSES = "import os, time; [os.fork() or time.sleep(60) for _ in range(450)]; print('done')"


@shows("understudy.sandbox.limits.processes", "understudy.sandbox.limits.memory_mb", "understudy.sandbox.limits.file_mb")
async def _(stage: Stage) -> None:
    large = "head -c 3000000 /dev/zero > large && echo done"
    assert (await stage.shell(large)).output == "done\n"
    assert "done" not in (await stage.shell(large, understudy__sandbox__limits__file_mb=1)).output
    greedy = "python3 -c \"x = bytearray(300 * 2**20); print('done')\""
    assert (await stage.shell(greedy)).output == "done\n"
    assert "done" not in (await stage.shell(greedy, understudy__sandbox__limits__memory_mb=100)).output
    many = f'python3 -c "{PROCESSES}"'
    assert (await stage.shell(many)).output == "done\n"
    assert "done" not in (await stage.shell(many, understudy__sandbox__limits__processes=20)).output


@shows("understudy.sandbox.limits.tmp_mb", "understudy.sandbox.limits.tmp_files")
async def _(stage: Stage) -> None:
    limits: tuple[tuple[str, dict[str, Any]], ...] = (
        ("head -c 3000000 /dev/zero > /tmp/large", {"understudy__sandbox__limits__tmp_mb": 1}),
        ("mkdir /tmp/many; touch /tmp/many/1 /tmp/many/2 /tmp/many/3", {"understudy__sandbox__limits__tmp_files": 2}),
    )
    none: dict[str, Any] = {}
    for filling, limit in limits:
        for settings, kept in ((none, True), (limit, False)):
            calls = [call("shell", call_id=str(n), command=["sh", "-c", run]) for n, run in enumerate((filling, "ls /tmp"))]
            seen = await stage.turn([*calls, say("ok")], sandbox_mode="workspace-write", **settings)
            assert ("large" in seen.output or "many" in seen.output) == kept, seen.output


@shows("understudy.skills")
async def _(stage: Stage) -> None:
    folder = stage.home / "skills" / "verse"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: verse\ndescription: How to answer in verse.\n---\nRhyme.\n")
    for value in (True, False):
        body = (await stage.turn([say("x")], understudy__skills=value)).body
        assert ("How to answer in verse." in json.dumps(body)) == value


@shows("notify")
async def _(stage: Stage) -> None:
    told = stage.work / "told"
    await stage.turn([say("x")], notify=["sh", "-c", f'printf %s "$0" > {told}.new; mv {told}.new {told}'])
    await until(told.exists, WAIT_SECONDS)
    assert json.loads(told.read_text())["last-assistant-message"] == "x"


ASKED = call("shell", command=["touch", "never"], with_escalated_permissions=True)
ASKING: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}


@shows("understudy.task_seconds")
async def _(stage: Stage) -> None:
    env = CodexHome(stage.home).environment()
    async with ScriptedModel([say("x"), say("y")]) as model, LineProcess(SERVER_COMMAND, cwd=stage.work, env=env) as process:
        client = TaskClient(StdioDoor(process))
        config = {"model_providers.mock.base_url": model.url, "understudy.task_seconds": 600}
        made = await client.call("codex", prompt="go", config=config)
        assert (made["resultType"], made["ttlMs"]) == ("task", 600_000)
        await client.over(made["taskId"])
        in_place = await client.call("codex", prompt="go", config={**config, "understudy.task_seconds": 0})
        assert (in_place["resultType"], in_place["structuredContent"]["content"]) == ("complete", "y")


@shows("understudy.question_timeout")
async def _(stage: Stage) -> None:
    seen = await stage.turn([ASKED, say("ok")], **ASKING, understudy__question_timeout=0.2)
    assert "nobody answered within 0.2 seconds" in seen.printed


@shows("understudy.unasked")
async def _(stage: Stage) -> None:
    async with McpProcess(cwd=stage.work, home=stage.home, capabilities={}) as client:
        here = replace(stage, client=client)
        for unasked, reason in (("deny", "the client cannot be asked"), ("wait", "nobody answered within 0.5 seconds")):
            settings: dict[str, Any] = {"understudy__unasked": unasked, "understudy__question_timeout": 0.5}
            assert reason in (await here.turn([ASKED, say("ok")], **ASKING, **settings)).printed


@shows("understudy.on_question.command", "understudy.on_question.url")
async def _(stage: Stage) -> None:
    told = stage.work / "asked of"
    program = ["sh", "-c", f'printf %s "$0" > "{told}.new"; mv "{told}.new" "{told}"']
    async with ScriptedModel([status(200)]) as address:
        settings: dict[str, Any] = {
            "understudy__on_question__command": program,
            "understudy__on_question__url": f"{address.url}/chat/completions",
            "understudy__question_timeout": 0.2,
        }
        await stage.turn([ASKED, say("ok")], **ASKING, **settings)
        posted = await address.next_request(1)
    await until(told.exists, WAIT_SECONDS)
    assert json.loads(told.read_text()) == posted.body
    assert posted.body["command"] == "touch never"


@shows("understudy.hooks.may_allow")
async def _(stage: Stage) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
    hook = {"type": "command", "command": f"echo '{json.dumps(said)}'"}
    file = stage.home / "hooks.json"
    file.write_text(json.dumps({"hooks": {"PermissionRequest": [{"hooks": [hook]}]}}))
    try:
        for may_allow in (True, False):
            script = [call("shell", command=["touch", "hooked"], with_escalated_permissions=True), say("x")]
            turn = asyncio.ensure_future(stage.turn(script, **ASKING, understudy__hooks__may_allow=may_allow))
            asked: dict[str, Any] = {}
            while not may_allow and asked.get("codex_command") != ["touch", "hooked"]:  # questions of others may still lie there
                request = await stage.client.next_request()
                asked = request["params"]
                await stage.client.respond(request, {"action": "decline"})
            await turn
            assert (stage.work / "hooked").exists() == may_allow
            (stage.work / "hooked").unlink(missing_ok=True)
    finally:
        file.unlink()


@shows("history.persistence")
async def _(stage: Stage) -> None:
    for value in ("save-all", "none"):
        await stage.turn([say(f"marker of {value}")], history__persistence=value)
        kept = contents(stage.home / "understudy").values()
        assert any(f"marker of {value}".encode() in data for data in kept) == (value == "save-all")


@shows("policy.rules")
async def _(stage: Stage) -> None:
    rule = {"name": "never touch", "prefix": ["touch"], "decision": "deny", "reason": "because"}
    seen = await stage.turn([call("shell", command=["touch", "ruled"]), say("ok")], policy__rules=[rule])
    assert "because" in seen.printed
    assert not (stage.work / "ruled").exists()


@shows("shell_environment_policy.inherit", "shell_environment_policy.ignore_default_excludes")
async def _(stage: Stage) -> None:
    shown = "echo ${PLAIN-no} ${MY_TOKEN-no}"
    for settings, printed in (
        ({}, "plain no\n"),
        ({"shell_environment_policy__inherit": "core"}, "no no\n"),
        ({"shell_environment_policy__inherit": "none"}, "no no\n"),
        ({"shell_environment_policy__ignore_default_excludes": True}, "plain t0ken-value\n"),
    ):
        assert (await stage.shell(shown, **settings)).output == printed


@shows("shell_environment_policy.exclude", "shell_environment_policy.set", "shell_environment_policy.include_only")
async def _(stage: Stage) -> None:
    shown = "echo ${PLAIN-no} ${MADE-no}"
    made = {"shell_environment_policy__set": {"MADE": "up"}}
    assert (await stage.shell(shown, **made)).output == "plain up\n"
    assert (await stage.shell(shown, **made, shell_environment_policy__exclude=["PLA*"])).output == "no up\n"
    assert (await stage.shell(shown, **made, shell_environment_policy__include_only=["PATH", "PLAIN"])).output == "plain no\n"


# -- what the model is told


@shows("experimental_instructions_file", "developer_instructions")
async def _(stage: Stage) -> None:
    (stage.work / "told.md").write_text("Only this.")
    settings = {"experimental_instructions_file": "told.md", "developer_instructions": "And that."}
    messages = (await stage.turn([say("x")], **settings)).body["messages"]
    assert messages[0] == {"role": "system", "content": "Only this."}
    assert "And that." in str(messages[1])


@shows("project_doc_fallback_filenames")
async def _(stage: Stage) -> None:
    (stage.work / "GUIDE.md").write_text("Words of the guide.")
    for names, told in ((["GUIDE.md"], True), ([], False)):
        assert ("Words of the guide." in str((await stage.turn([say("x")], project_doc_fallback_filenames=names)).body)) == told
    (stage.work / "GUIDE.md").unlink()


@shows("project_doc_max_bytes")
async def _(stage: Stage) -> None:
    (stage.work / "AGENTS.md").write_text("0123456789")
    for limit, told in ((100, True), (4, False), (0, False)):
        assert ("0123456789" in str((await stage.turn([say("x")], project_doc_max_bytes=limit)).body)) == told
    (stage.work / "AGENTS.md").unlink()


# -- the server


@shows("profile")
async def _(stage: Stage) -> None:
    body = (await stage.turn([say("x")], profile="p", profiles__p__model="of-the-profile")).body
    assert body["model"] == "of-the-profile"


@shows("understudy.wire")
async def _(stage: Stage) -> None:
    assert "task_complete" in (await stage.turn([say("x")], understudy__wire="seed")).kinds
    modern = await stage.turn([say("x")], understudy__wire="modern")
    assert any("turn_id" in event for event in stage.client.events(modern.call))


@shows("understudy.events")
async def _(stage: Stage) -> None:
    assert (await stage.turn([say("x")], understudy__events="none")).kinds == []
    for value in ("both", "codex/event"):
        before = len(stage.client.notifications("task_complete"))
        assert "task_complete" in (await stage.turn([say("x")], understudy__events=value)).kinds
        assert len(stage.client.notifications("task_complete")) - before == (1 if value == "both" else 0)

    assert "task_complete" in (await stage.turn([say("x")], understudy__events="auto")).kinds


@shows("understudy.thread_in_text")
async def _(stage: Stage) -> None:
    for value in (True, False):
        result = await (await stage.turn([say("x")], understudy__thread_in_text=value)).call
        assert len(result["content"]) == (2 if value else 1)


@shows("understudy.report")
async def _(stage: Stage) -> None:
    for value in ("brief", "full"):
        result = await (await stage.turn([say("x")], understudy__report=value)).call
        assert ("seconds" in result["structuredContent"]["report"]) is (value == "full")


# -- other servers


def a_server(mode: str = "kinds", **settings: Any) -> dict[str, Any]:
    given = {**settings, "command": sys.executable, "args": [KINDS, mode]}
    return {"understudy__mcp__wait_seconds": 60, **{f"mcp_servers__srv__{key}": value for key, value in given.items()}}


def names(seen: Seen) -> list[str]:
    return [tool["function"]["name"] for tool in seen.body["tools"] if tool["function"]["name"].startswith("mcp__")]


@shows(*(f"mcp_servers.*.{key}" for key in ("command", "args", "env", "env_vars", "cwd", "enabled_tools", "disabled_tools")))
async def _(stage: Stage) -> None:
    script = [call("mcp__srv__env"), call("mcp__srv__ok", call_id="call2"), say("ok")]
    given = a_server(env={"GIVEN": "x"}, env_vars=["PLAIN"], cwd="..", enabled_tools=["env", "ok"], disabled_tools=["ok"])
    seen = await stage.turn(script, **given)
    assert names(seen) == ["mcp__srv__env"]
    outputs = [message["content"] for message in seen.received[-1].body["messages"] if message["role"] == "tool"]
    assert {"GIVEN", "PLAIN", "PATH"} <= set(outputs[0].split())
    assert not {"MY_TOKEN", "THE_KEY", "OPENAI_API_KEY"} & set(outputs[0].split())
    assert outputs[1] == "unsupported call: mcp__srv__ok"


@shows(*(f"mcp_servers.*.{key}" for key in ("url", "bearer_token_env_var", "http_headers", "env_http_headers")))
async def _(stage: Stage) -> None:
    async with tool_server_on_http() as server:
        settings: dict[str, Any] = {
            "url": server.url,
            "bearer_token_env_var": "MY_TOKEN",
            "http_headers": {"X-One": "1"},
            "env_http_headers": {"X-Two": "FROM_ENV"},
        }
        given: dict[str, Any] = {f"mcp_servers__web__{key}": value for key, value in settings.items()} | {
            "understudy__mcp__wait_seconds": 60
        }
        seen = await stage.turn([call("mcp__web__ok", s="x"), say("ok")], **given)
        assert seen.printed == 'got {"s": "x"}'
        headers = server.headers[-1]
        assert headers["authorization"] == "Bearer t0ken-value"
        assert (headers["x-one"], headers["x-two"]) == ("1", "from the environment")


@shows("mcp_servers.*.enabled", "mcp_servers.*.required", "mcp_servers.*.startup_timeout_sec", "understudy.mcp.wait_seconds")
async def _(stage: Stage) -> None:
    assert names(await stage.turn([say("x")], **a_server(enabled=False))) == []
    late: dict[str, Any] = {**a_server("hangstart", startup_timeout_sec=600), "understudy__mcp__wait_seconds": 0}
    seen = await stage.turn([say("x")], **late)
    assert "still starting" in str(seen.result["structuredContent"]["report"]["missing_servers"])
    late |= {"mcp_servers__srv__startup_timeout_sec": 0.5, "mcp_servers__srv__required": True}
    failed = await stage.turn([], **late)
    assert "it was not ready within 0.5 seconds; `mcp_servers.srv.startup_timeout_sec` gives it longer" in failed.text


@shows("mcp_servers.*.roots")
async def _(stage: Stage) -> None:
    for given, told in ((True, "file://"), (False, "error")):
        seen = await stage.turn([call("mcp__srv__roots"), say("ok")], **a_server(roots=given))
        assert told in seen.printed


@shows("mcp_servers.*.tool_timeout_sec")
async def _(stage: Stage) -> None:
    seen = await stage.turn([call("mcp__srv__hangs"), say("x")], **a_server(tool_timeout_sec=0.5))
    assert "timed out awaiting tools/call after 500ms" in seen.printed


@shows("mcp_servers.*.default_tools_approval_mode", "mcp_servers.*.tools.*.approval_mode")
async def _(stage: Stage) -> None:
    script = [call("mcp__srv__ok", s="x"), call("mcp__srv__empty", call_id="call2"), say("ok")]
    given = a_server(default_tools_approval_mode="prompt", tools={"empty": {"approval_mode": "approve"}})
    seen = await stage.turn(script, **given)
    outputs = [message["content"] for message in seen.received[-1].body["messages"] if message["role"] == "tool"]
    assert outputs == ["MCP tool call requires approval, but approval policy is never", "(the tool gave nothing)"]


@shows("projects.*.trust_level")
async def _(stage: Stage) -> None:
    (stage.work / ".codex").mkdir()
    (stage.work / ".codex" / "config.toml").write_text('developer_instructions = "Of the project."')
    for level in ("trusted", "untrusted"):
        body = (await stage.turn([say("x")], projects={str(stage.work): {"trust_level": level}})).body
        assert ("Of the project." in str(body)) == (level == "trusted")


@shows("understudy.mcp.sandboxed")
async def _(stage: Stage) -> None:
    """Last: what holds a place for a sandbox goes a moment after it."""
    program = {"mcp_servers__srv__command": "sh", "mcp_servers__srv__args": ["-c", "echo $$ >&2; exit 4"]}
    for sandboxed in ([], ["srv"]):
        given: dict[str, Any] = {**a_server(), **program, "understudy__mcp__sandboxed": sandboxed}
        seen = await stage.turn([say("x")], sandbox_mode="workspace-write", **given)
        error = seen.result["structuredContent"]["report"]["missing_servers"][0]["error"]
        assert (int(error.rpartition(": ")[2]) < 20) == bool(sandboxed), "in the sandbox processes are counted anew"


for number, (show, serve_keys) in enumerate(SHOWN.items()):
    folder_name = f"serving{number}"
    shows(*(f"understudy.serve.{key}" for key in serve_keys))(
        lambda stage, show=show, folder_name=folder_name: show(stage.work.parent / folder_name)
    )


@shows("understudy.push.subject", "understudy.push.services")
async def show_push(stage: Stage) -> None:
    given = {"understudy.push.subject": "mailto:me@example.org", "understudy.push.services": ["push.example"]}
    folder = stage.work.parent / "pushing"
    folder.mkdir()
    async with HttpServer(folder, None, config=given) as server:
        page = await log_in(server)
        assert (await page.get("/push", Origin=page.origin))["key"]
        for host, status in (("push.example", 400), ("fcm.googleapis.com", 403)):  # the keys are none
            given_there: dict[str, Any] = {"endpoint": f"https://{host}/x", "keys": {}}
            answer = await page.request("POST", "/push", given_there, {"Origin": page.origin})
            assert answer.status == status


for show, store_keys in (STORING | WORKSPACES).items():
    shows(*store_keys)(lambda stage, show=show: show(stage.work.parent / show.__name__))


def test_every_key_of_the_page_is_shown_to_have_its_effect() -> None:
    assert sorted(row.key for row in rows()) == sorted(EFFECTS)


@asynccontextmanager
async def a_stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    home, work = tmp_path / "user" / ".codex", tmp_path / "work"
    home.mkdir(parents=True)
    work.mkdir()
    env = {**ENV, "OPENAI_API_KEY": "sk-of-openai-itself"}
    async with McpProcess("http://127.0.0.1:9/v1", cwd=work, home=home, env=env) as client:
        yield Stage(client, home, work)


@pytest.mark.slow
async def test_every_key_has_the_effect_that_the_page_states(tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    async with a_stage(tmp_path) as stage:
        for effect in dict.fromkeys(EFFECTS.values()):
            try:
                await effect(stage)
            except AssertionError as error:
                failed[", ".join(key for key, of in EFFECTS.items() if of is effect)] = f"{error}"
    assert not failed
