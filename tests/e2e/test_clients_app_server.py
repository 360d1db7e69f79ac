"""The packages that start `codex app-server`, as people have them, offline, with a link named `codex` to our program."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import run_python_client
from tests.e2e.test_clients_exec import PATCH, nothing_sleeps, some_seconds, task_in
from tests.support.app_client import LineClient
from tests.support.environments import node_with, python_with
from understudy.testing import ScriptedModel, call, cut_after, say, status
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry

pytestmark = pytest.mark.slow

SLEEP = some_seconds()  # of the command that is aborted

SCRIPT = [
    call("apply_patch", call_id="c1", input=PATCH),
    call("shell", call_id="c2", command=["bash", "-c", "yes | head -c 200000; pwd"]),
    say("one", usage=(10, 1)),
    say('{"answer": "two"}', usage=(20, 2)),
    cut_after(say("thr")),
    say("three", usage=(30, 3)),
    status(401, {"error": {"message": "Incorrect API key"}}),
    call("shell", command=["sleep", SLEEP]),
    say("six"),
    say("seven"),
    call("shell", call_id="c8", command=["touch", "eight.txt"]),
    call("shell", call_id="c9", command=["touch", "nine.txt"]),
    say("eight"),
]


async def test_the_python_package_does_all_that_it_offers(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        task = task_in(tmp_path, model.url)
        task["env"] |= {"PATH": "/usr/bin:/bin"}
        seen = await run_python_client(python_with("openai-codex==0.163.0"), "openai_codex_client.py", task)
        contents = [_last_user(request) for request in model.requests]
        headers = model.received[0].headers
    work = Path(task["cwd"])
    assert headers["authorization"] == "Bearer sk-of-a-test"
    assert seen["account"]["account"]["type"] == "apiKey"
    assert seen["afterwards"] is None
    assert seen["models"][0] == "gpt-5.5"

    first = seen["first"]
    assert first["answer"] == "one"
    assert [item["type"] for item in first["items"]] == ["userMessage", "fileChange", "commandExecution", "agentMessage"]
    assert first["items"][2]["aggregatedOutput"].endswith(f"{work}\n")
    assert (work / "made.txt").read_text() == "one\n"
    assert first["usage"]["total"]["inputTokens"] == 12

    assert json.loads(seen["second"]) == {"answer": "two"}
    assert sorted(part["type"] for part in contents[3]) == ["input_image", "input_image", "input_text", "input_text"]
    assert (seen["third"][0], seen["third"][-1]) == ("turn/started", "turn/completed")
    assert "HTTP 401: Incorrect API key" in seen["failure"]
    assert seen["aborted"] == "interrupted"
    await nothing_sleeps(SLEEP)

    assert (seen["resumed"], seen["forked"], seen["turns"]) == ("six", "seven", 5)
    assert {seen["id"], seen["fork"]} <= set(seen["listed"])
    assert seen["named"] == ["a name"]
    assert seen["archived"] == [seen["fork"]]

    assert seen["approved"] == "completed"
    asked = "item/commandExecution/requestApproval"
    assert seen["asked"] == [[asked, "touch eight.txt"], [asked, "touch nine.txt"]]
    assert ((work / "eight.txt").exists(), (work / "nine.txt").exists()) == (True, False)


def _last_user(request: Any) -> list[Any]:
    return next(entry["content"] for entry in reversed(request["input"]) if entry.get("role") == "user")


# -- the editors' adapter

ACP_SLEEP = some_seconds()
OUTSIDE: dict[str, Any] = {"with_escalated_permissions": True, "justification": "because"}
ACP_SCRIPT = [
    say("Let me look.") + call("shell", call_id="a1", command=["touch", "made.txt"], **OUTSIDE),
    call("apply_patch", call_id="a2", input=PATCH.replace("made", "patched")),
    say("done", usage=(10, 1)),
    call("shell", call_id="a3", command=["sleep", ACP_SLEEP]),
    say("seen"),
]


class Answers:
    """The script; a title, which the adapter asks for in a thread of its own, is answered whenever that happens."""

    def __init__(self) -> None:
        self._script = iter(ACP_SCRIPT)
        self.asked: list[Any] = []

    def __call__(self, request: ReceivedRequest) -> Entry:
        if "title" in json.dumps(request.body.get("text", {})):
            return say('{"title": "A title"}')
        self.asked.append(request.body)
        return next(self._script)


class Editor(LineClient):
    """Speaks the Agent Client Protocol with the adapter, which starts our program."""

    def send(self, message: dict[str, Any]) -> None:
        super().send({"jsonrpc": "2.0", **message})

    async def prompt(self, session: str, *parts: dict[str, Any]) -> dict[str, Any]:
        return await self.call("session/prompt", sessionId=session, prompt=list(parts))

    def updates(self, kind: str) -> list[dict[str, Any]]:
        told = [message["params"]["update"] for message in self.messages if message.get("method") == "session/update"]
        return [update for update in told if update["sessionUpdate"] == kind]

    async def allow(self, number: int) -> dict[str, Any]:
        """Answer the adapter's question of this number with the option that allows it once."""

        def nth(message: dict[str, Any]) -> bool:
            asked = [each for each in self.messages if each.get("method") == "session/request_permission"]
            return len(asked) > number and message is asked[number]

        question = await self.until(nth, f"question {number}")
        option = next(each for each in question["params"]["options"] if each["kind"] == "allow_once")
        self.send({"id": question["id"], "result": {"outcome": {"outcome": "selected", **_id_of(option)}}})
        return question["params"]


def _id_of(option: dict[str, Any]) -> dict[str, str]:
    return {"optionId": option["optionId"]}


def editor(task: dict[str, Any]) -> Editor:
    folder = node_with("@agentclientprotocol/codex-acp@2.6.0", "--omit=optional")
    program = folder / "node_modules" / "@agentclientprotocol" / "codex-acp" / "dist" / "index.js"
    env = {
        **task["env"],
        "PATH": os.environ["PATH"],
        "CODEX_PATH": task["codex"],
        "HOME": task["env"]["CODEX_HOME"],
        "NO_BROWSER": "1",
    }
    return Editor(["node", program], Path(task["cwd"]), env)


async def begun(client: Editor) -> dict[str, Any]:
    info = {"name": "editor", "version": "1"}
    return await client.call("initialize", protocolVersion=1, clientCapabilities={}, clientInfo=info)


async def test_the_editors_adapter_prompts_asks_shows_cancels_and_loads(tmp_path: Path) -> None:
    answers = Answers()
    async with ScriptedModel(answers) as model:
        task = task_in(tmp_path, model.url)
        provider = (
            f'model_provider = "mock"\n[model_providers.mock]\nname = "mock"\nbase_url = "{model.url}"\nwire_api = "responses"\n'
        )
        (Path(task["env"]["CODEX_HOME"]) / "config.toml").write_text('model = "gpt-5.5"\n' + provider)
        work = Path(task["cwd"])
        async with editor(task) as client:
            await begun(client)
            session = (await client.call("session/new", cwd=task["cwd"], mcpServers=[]))["sessionId"]
            await client.call("session/set_mode", sessionId=session, modeId="read-only")
            asked = client.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
            first = await client.allow(0)
            await client.allow(1)
            assert (await client.answer(asked))["stopReason"] == "end_turn"
            assert "touch made.txt" in json.dumps(first)
            assert ((work / "made.txt").exists(), (work / "patched.txt").read_text()) == (True, "one\n")
            said = "".join(update["content"]["text"] for update in client.updates("agent_message_chunk"))
            assert said == "Let me look.done"
            await client.call("session/set_mode", sessionId=session, modeId="agent-full-access")
            asked = client.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "sleep"}])
            await client.until(lambda message: f"sleep {ACP_SLEEP}" in json.dumps(message), "the command")
            client.send({"method": "session/cancel", "params": {"sessionId": session}})
            assert (await client.answer(asked))["stopReason"] == "cancelled"
            await nothing_sleeps(ACP_SLEEP)
        async with editor(task) as client:
            await begun(client)
            await client.call("session/load", sessionId=session, cwd=task["cwd"], mcpServers=[])
            assert "".join(update["content"]["text"] for update in client.updates("agent_message_chunk")) == "Let me look.done"
            picture = base64.b64encode(Path(task["image"]).read_bytes()).decode()
            image = {"type": "image", "mimeType": "image/png", "data": picture}
            answer = await client.prompt(session, {"type": "text", "text": "look"}, image)
            assert answer["stopReason"] == "end_turn"
        assert sorted(part["type"] for part in _last_user(answers.asked[-1])) == ["input_image", "input_text"]
