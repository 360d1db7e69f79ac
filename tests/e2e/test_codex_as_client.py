"""codex 0.169 as a client of ours: it starts our server, its model calls the tools, and its user answers our questions."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import server_task
from tests.e2e.test_clients_exec import nothing_sleeps, some_seconds
from tests.support.app_client import LineClient
from tests.support.environments import node_with
from understudy.testing import Entry, Script, ScriptedModel, call, say, write_config
from understudy.testing.model import ReceivedRequest
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

Json = dict[str, Any]
Turn = Json | Callable[[ReceivedRequest], Json]
ASKING: Script = [call("shell", call_id="c1", command=["touch", "made.txt"]), say("all done")]


def program() -> Path:
    return node_with("@openai/codex@0.169.0") / "node_modules" / ".bin" / "codex"


def calls(tool: str, **arguments: Any) -> Json:
    """A call as its models write it: tools of a server stand in a namespace."""
    item = {"type": "function_call", "call_id": "m1", "namespace": "mcp__codex", "name": tool, "arguments": json.dumps(arguments)}
    return _answer({"type": "response.output_item.done", "item": item})


def says(text: str) -> Json:
    item = {"type": "message", "role": "assistant", "id": "m2", "content": [{"type": "output_text", "text": text}]}
    return _answer({"type": "response.output_item.done", "item": item})


def _answer(event: Json) -> Json:
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None, "total_tokens": 2}
    return {"events": [event, {"type": "response.completed", "response": {"id": "r", "usage": usage}}]}


class Scene:
    """Its model, ours, and where both work."""

    def __init__(self, its: ScriptedModel, ours: ScriptedModel, folder: Path, policy: str = "untrusted", **entry: Any) -> None:
        self.its = its
        self.ours = ours
        task = server_task(folder, ours.url, approval_policy=policy)
        self.work = Path(task["cwd"])
        self.home = folder / "its home"
        self.home.mkdir()
        provider = {"name": "mock", "base_url": its.url, "wire_api": "responses", "supports_websockets": False}
        limits = {"request_max_retries": 0, "stream_max_retries": 0}
        server = {**task, "default_tools_approval_mode": "approve", **entry}
        settings = {"model": "mock-model", "model_provider": "mock", "approval_policy": "on-request"}
        tables = {"model_providers": {"mock": provider | limits}, "mcp_servers": {"codex": server}}
        write_config(self.home / "config.toml", {**settings, **tables})
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CODEX_HOME": str(self.home),
            "HTTPS_PROXY": "http://127.0.0.1:9",  # where nobody listens: whatever would go further ends here
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def told(self, number: int) -> str:
        """What its model is told of the call, in that request."""
        outputs = [item["output"] for item in self.its.requests[number]["input"] if item["type"] == "function_call_output"]
        return json.dumps(outputs[-1])

    async def run(self) -> list[Json]:
        """`codex exec`, to its end."""
        words = ["exec", "--json", "--skip-git-repo-check", "go"]
        process = await asyncio.create_subprocess_exec(
            program(),
            *words,
            cwd=self.work,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(6 * WAIT_SECONDS):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return [json.loads(line) for line in out.splitlines()]


def models(its: Sequence[Turn], ours: Script) -> tuple[ScriptedModel, ScriptedModel]:
    turns, answers = iter(its), iter(ours)

    def say_next(request: ReceivedRequest) -> Any:
        turn = next(turns)
        return turn(request) if callable(turn) else turn

    def answer(_: object) -> Entry:
        return next(answers)

    return ScriptedModel(say_next), ScriptedModel(answer)


async def test_its_model_begins_a_session_and_goes_on_with_it(tmp_path: Path) -> None:
    def reply(request: ReceivedRequest) -> Json:
        [thread] = set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", json.dumps(request.body["input"][-1]["output"])))
        return calls("codex_reply", threadId=thread, prompt="go on")

    its, ours = models([calls("codex", prompt="hi"), reply, says("end")], [say("Hello from the session."), say("Hello again.")])
    async with its, ours:
        scene = Scene(its, ours, tmp_path)
        events = await scene.run()
        assert "Hello from the session." in scene.told(1)
        assert "Hello again." in scene.told(2)
        assert "Hello from the session." in json.dumps(ours.requests[1])
    items = [event["item"] for event in events if event["type"] == "item.completed" and event["item"]["type"] == "mcp_tool_call"]
    assert [(item["tool"], item["status"]) for item in items] == [("codex", "completed"), ("codex-reply", "completed")]


async def test_a_wrong_argument_is_told_to_its_model_with_the_right_one(tmp_path: Path) -> None:
    its, ours = models([calls("codex", promt="hi"), says("end")], [])
    async with its, ours:
        scene = Scene(its, ours, tmp_path)
        await scene.run()
        assert "Did you mean `prompt`?" in scene.told(1)


async def test_a_call_that_takes_it_too_long_ends_the_turn_and_its_commands(tmp_path: Path) -> None:
    seconds = some_seconds()
    its, ours = models([calls("codex", prompt="hi"), says("end")], [call("shell", command=["sleep", seconds])])
    async with its, ours:
        scene = Scene(its, ours, tmp_path, "never", tool_timeout_sec=3)
        await scene.run()
        assert "timed out awaiting tools/call" in scene.told(1)
    await nothing_sleeps(seconds)


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_its_user_is_asked_our_question(tmp_path: Path, action: str) -> None:
    its, ours = models([calls("codex", prompt="hi"), says("end")], ASKING)
    async with its, ours:
        scene = Scene(its, ours, tmp_path)
        async with LineClient([program(), "app-server"], scene.work, scene.environment) as client:
            info = {"name": "editor", "title": "Editor", "version": "1"}
            await client.call("initialize", clientInfo=info, capabilities={"experimentalApi": True})
            client.send({"method": "initialized"})
            thread = (await client.call("thread/start", cwd=str(scene.work)))["thread"]["id"]
            await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
            asked = await client.until(lambda message: "id" in message and "method" in message, "the question")
            assert "touch made.txt" in asked["params"]["message"]
            client.respond(asked, {"action": action, "content": {} if action == "accept" else None})
            await client.told("turn/completed")
        assert ("exec command rejected by user" in json.dumps(ours.requests[1])) == (action == "decline")
        assert "all done" in scene.told(1)
    assert (scene.work / "made.txt").exists() == (action == "accept")
