"""`understudy proto`: submissions as lines in, events as lines out, with the real program and a scripted model."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from understudy.testing import CodexHome, Script, ScriptedModel, call, hang, say
from understudy.testing.line_process import LineProcess

ASKING: dict[str, Any] = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}


class Client:
    def __init__(self, process: LineProcess) -> None:
        self.process = process
        self.events: list[Any] = []

    def submit(self, submission_id: str, kind: str, **members: Any) -> None:
        self.process.send(json.dumps({"id": submission_id, "op": {"type": kind, **members}}))

    def say(self, submission_id: str, text: str) -> None:
        self.submit(submission_id, "user_input", items=[{"type": "text", "text": text}])

    async def until(self, kind: str) -> Any:
        """The next event of that kind; those before it are kept in `events`."""
        while True:
            event = json.loads(await self.process.next_line())
            self.events.append(event)
            if event["msg"]["type"] == kind:
                return event


@asynccontextmanager
async def proto(
    script: Script, tmp_path: Path, config: dict[str, Any] | None = None
) -> AsyncGenerator[tuple[ScriptedModel, Client]]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    async with ScriptedModel(script) as model:
        home = CodexHome(tmp_path / "home" / ".codex", model, config=config)
        command = [sys.executable, "-m", "understudy", "proto"]
        async with LineProcess(command, cwd=work, env=home.environment()) as process:
            client = Client(process)
            assert (await client.until("session_configured"))["id"] == "0"
            yield model, client


async def test_events_of_a_turn_carry_the_id_of_the_submission_that_began_it(tmp_path: Path) -> None:
    async with proto([say("one"), say("two")], tmp_path) as (_, client):
        client.say("first", "hello")
        assert (await client.until("task_complete"))["msg"]["last_agent_message"] == "one"
        client.say("7", "again")
        await client.until("task_complete")
        client.submit("bye", "shutdown")
        assert (await client.until("shutdown_complete"))["id"] == "bye"
        kinds = [(event["id"], event["msg"]["type"]) for event in client.events if "delta" not in event["msg"]["type"]]
    turn = ["task_started", "agent_message", "task_complete"]
    wanted = [
        ("0", "session_configured"),
        *(("first", kind) for kind in turn),
        *(("7", kind) for kind in turn),
        ("bye", "shutdown_complete"),
    ]
    assert [entry for entry in kinds if entry[1] != "token_count"] == wanted
    assert client.process.exit_code == 0


async def test_a_question_is_answered_by_the_id_of_its_call_or_of_its_turn(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "one"]), call("shell", call_id="call2", command=["touch", "two"]), say("done")]
    async with proto(script, tmp_path, ASKING) as (_, client):
        client.say("1", "go")
        asked = await client.until("exec_approval_request")
        client.submit("2", "exec_approval", id=asked["id"], decision="approved")
        asked = await client.until("exec_approval_request")
        client.submit("3", "exec_approval", id=asked["msg"]["call_id"], decision="denied")
        await client.until("task_complete")
        client.submit("4", "exec_approval", id="call2", decision="approved")
        assert "no open question call2" in (await client.until("error"))["msg"]["message"]
    assert ((tmp_path / "work" / "one").exists(), (tmp_path / "work" / "two").exists()) == (True, False)


async def test_an_interrupt_ends_the_turn(tmp_path: Path) -> None:
    async with proto([hang()], tmp_path) as (model, client):
        client.say("1", "go")
        await model.next_request(1)
        client.submit("2", "interrupt")
        assert (await client.until("error"))["msg"]["message"].strip() == "Turn interrupted"
        assert (await client.until("task_complete"))["id"] == "1"


@pytest.mark.slow
async def test_another_conversation_is_taken_up_and_told_from_its_beginning(tmp_path: Path) -> None:
    async with proto([say("one"), say("two")], tmp_path) as (_, client):
        client.say("1", "hello")
        await client.until("task_complete")
        first = client.events[0]["msg"]["session_id"]
        client.submit("2", "configure_session", approval_policy="never")
        assert (await client.until("session_configured"))["msg"]["session_id"] != first
        client.submit("3", "resume", conversation_id=first)
        assert (await client.until("session_configured"))["msg"]["session_id"] == first
        assert (await client.until("task_complete"))["msg"]["last_agent_message"] == "one"
        client.say("4", "go on")
        assert (await client.until("task_complete"))["msg"]["last_agent_message"] == "two"


@pytest.mark.slow
async def test_what_is_no_submission_is_an_error_event_and_the_next_one_is_taken(tmp_path: Path) -> None:
    async with proto([say("fine")], tmp_path) as (_, client):
        for line, submission_id in (
            ("{oops", ""),
            ("[]", ""),
            ('{"id": "9", "op": {"type": "nonsense"}}', "9"),
            ('{"id": 9, "op": {"type": "nonsense"}}', ""),
            ('{"id": "\\ud800", "op": {"type": "nonsense"}}', ""),
            ('{"id": "9", "op": {"type": "user_input", "items": []}}', "9"),
            ('{"id": "9", "op": {"type": "user_input", "items": [{"type": "odd"}]}}', "9"),
            ('{"id": "9", "op": {"type": "resume", "conversation_id": "odd"}}', "9"),
            ('{"id": "9", "op": {"type": "override_turn_context", "effort": "odd"}}', "9"),
        ):
            client.process.send(line)
            assert (await client.until("error"))["id"] == submission_id
        client.process.send('{"id": "9", "op": {"type": "user_input", "items": [{"type": "text", "text": "\\ud800"}]}}')
        refused = await client.until("error")
        assert (refused["id"], "half a character" in refused["msg"]["message"]) == ("9", True)
        client.say("1", "hello")
        assert (await client.until("task_complete"))["msg"]["last_agent_message"] == "fine"
    assert "Traceback" not in client.process.stderr
