"""Python clients as people have them: the official SDK, new and old, and the OpenAI Agents SDK."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientExtension, ClientRequestContext, NotificationBinding
from mcp.types import ElicitRequestParams, ElicitResult
from pydantic import BaseModel

from tests.e2e.real_clients import ANSWERS, SCRIPT, TOOLS, question_in, run_python_client, server_task
from tests.e2e.scenes import ANY_REPORT
from tests.support.environments import python_with
from understudy.testing import ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_lists_tools_approves_a_command_and_replies(
    tmp_path: Path, mode: Literal["auto", "legacy"]
) -> None:
    questions: list[str] = []
    steps: list[str] = []

    async def approve(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approved"})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message or "")

    async with ScriptedModel(SCRIPT) as model:
        task = server_task(tmp_path, model.url)
        async with Client(StdioServerParameters(**task), mode=mode, elicitation_callback=approve) as client:
            tools = await client.list_tools()
            first = await client.call_tool("codex", {"prompt": "make a file", "report": "full"}, progress_callback=on_progress)
            thread: str = (first.structured_content or {"threadId": ""})["threadId"]
            second = await client.call_tool("codex-reply", {"threadId": thread, "prompt": "and now?", "report": "full"})
    assert [tool.name for tool in tools.tools][:2] == TOOLS
    assert [question.splitlines()[0] for question in questions] == [question_in(task["cwd"])]
    results: list[dict[str, Any]] = [first.structured_content or {}, second.structured_content or {}]
    assert [(result["threadId"], result["content"]) for result in results] == [(thread, text) for text in ANSWERS]
    assert [[each["command"] for each in result["report"]["commands"]] for result in results] == [[["touch", "made.txt"]], []]
    assert (tmp_path / "work" / "made.txt").exists()
    assert steps


class Event(BaseModel):
    msg: dict[str, Any]


class Events(ClientExtension):
    """The SDK's way to be given a notification that it does not know."""

    identifier = "com.example/events"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.complete = asyncio.Event()

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        async def keep(event: Event) -> None:
            self.seen.append(str(event.msg["type"]))
            if self.seen[-1] == "task_complete":
                self.complete.set()

        return [NotificationBinding(method="codex/event", params_type=Event, handler=keep)]


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_is_given_events_where_an_extension_binds_them(
    tmp_path: Path, mode: Literal["auto", "legacy"], caplog: pytest.LogCaptureFixture
) -> None:
    events = Events()
    async with ScriptedModel([say("hello")]) as model:
        task = server_task(tmp_path, model.url)
        async with Client(StdioServerParameters(**task), mode=mode, extensions=[events]) as client:
            await client.call_tool("codex", {"prompt": "hi"})
            async with asyncio.timeout(WAIT_SECONDS):
                await events.complete.wait()
    assert sorted(events.seen) == ["agent_message", "agent_message_delta", "session_configured", "task_complete", "task_started"]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.slow
async def test_an_official_client_that_ends_at_the_first_unknown_notification_meets_none(tmp_path: Path) -> None:
    python = python_with("mcp==1.2.0", "pydantic<2.11")
    async with ScriptedModel([say("hello"), say("still there")]) as model:
        task = server_task(tmp_path, model.url)
        seen = await run_python_client(python, "python_sdk_1_2.py", task)
    assert seen["tools"][:2] == TOOLS
    assert [answer[0] for answer in seen["answers"]] == ["hello", "still there"]
    assert seen["answers"][0][1].lstrip().startswith("threadId: "), "all that it has to go on with"


@pytest.mark.slow
async def test_the_official_client_of_the_first_line_does_the_same(tmp_path: Path) -> None:
    python = python_with("mcp==1.30.0")
    async with ScriptedModel(SCRIPT) as model:
        task = server_task(tmp_path, model.url)
        seen = await run_python_client(python, "python_sdk_1.py", task)
    assert_did_it(seen, task, tmp_path)
    assert seen["warnings"] == []


@pytest.mark.slow
async def test_an_agent_of_the_openai_agents_sdk_calls_ours(tmp_path: Path) -> None:
    """It can not be asked for approval, so the caller has to choose a policy that does not ask."""
    python = python_with("openai-agents==0.24.0")
    async with ScriptedModel([call("shell", command=["touch", "made.txt"]), say("made it")]) as model:
        task = server_task(tmp_path, model.url)
        seen = await run_python_client(python, "agents_sdk.py", task, OPENAI_AGENTS_DISABLE_TRACING="1")
    assert seen["tools"][:2] == TOOLS
    assert seen["final"] == "done"
    assert "made it" in str(seen["outputs"])
    assert (tmp_path / "work" / "made.txt").exists()


def assert_did_it(seen: Any, task: dict[str, Any], tmp_path: Path) -> None:
    assert seen["tools"][:2] == TOOLS
    assert [question.splitlines()[0] for question in seen["questions"]] == [question_in(task["cwd"])]
    thread = seen["answers"][0]["threadId"]
    assert seen["answers"] == [{"threadId": thread, "content": text, "report": ANY_REPORT} for text in ANSWERS]
    assert seen["progress"]
    assert (tmp_path / "work" / "made.txt").exists()
