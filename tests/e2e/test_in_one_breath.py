"""Two ops at once, in every order: each request is answered once, nothing accepted is lost, and the next call works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import text_of
from tests.e2e.talking import Stream, create, send
from tests.soak.truth import check_log
from tests.support.answered import answered
from tests.support.obliging_model import ObligingModel
from tests.support.pausing import go_on, pause
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, RequestSent, TurnEnded, TurnStarted, UserMessage
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import Call, McpProcess
from understudy.testing.waiting import WAIT_SECONDS

STATES = ("idle", "run", "talk", "ask")
OPS = ("send", "reply", "interrupt", "cancel", "approve", "delete", "stream")
STOPS = ("interrupt", "cancel")
AT_ONCE = 6


@dataclass
class Stage:
    """Two servers on one store."""

    home: Path
    here: McpProcess
    there: McpProcess

    def entries(self, conversation: str) -> list[Entry]:
        with closing(SqliteLog(self.home / "understudy")) as log:
            return list(answered(log.read(ConversationId(conversation))))


@asynccontextmanager
async def stage(folder: Path) -> AsyncGenerator[Stage]:
    home = folder / "home"
    home.mkdir()
    config = {"sandbox_mode": "danger-full-access"}
    model = ObligingModel()
    async with model.serving():
        here = McpProcess(model.url, cwd=folder, home=home, config=config, check_frames=False)
        there = McpProcess(model.url, cwd=folder, home=home, config=config, check_frames=False)
        async with here, there:
            yield Stage(home, here, there)


class Scene:
    """A conversation in one of the states, and what is asked of it."""

    def __init__(self, on: Stage, state: str) -> None:
        self.stage = on
        self.state = state
        self.conversation = ""
        self.first: Call | None = None  # the call whose turn runs
        self.messages: list[str] = []  # that were acknowledged
        self._calls: list[tuple[str, McpProcess, Call]] = []

    async def set_up(self) -> None:
        here = self.stage.here
        policy = "untrusted" if self.state == "ask" else "never"
        self.conversation = await create(here, approval_policy=policy)
        if self.state == "idle":
            self.first = here.call_tool("codex-reply", threadId=self.conversation, prompt="hello")
            await self.first
            return
        self.first = here.call_tool("codex-reply", threadId=self.conversation, prompt=self.state)
        if self.state == "ask":
            await here.wait_for_frame(self._is_question, f"a question of {self.conversation}")
        else:
            await here.event({"run": "exec_command_begin", "talk": "agent_message_delta"}[self.state], self.first)

    def _is_question(self, frame: dict[str, Any]) -> bool:
        return frame.get("method") == "elicitation/create" and frame["params"]["threadId"] == self.conversation

    def ask_for(self, op: str, server: McpProcess) -> None:
        """Without waiting for anything."""
        name = {"conversation_id": self.conversation}
        match op:
            case "send":
                call = send(server, self.conversation, "next")
            case "reply":
                call = server.call_tool("codex-reply", threadId=self.conversation, prompt="next")
            case "interrupt":
                call = server.call_tool("conversationInterrupt", name)
            case "cancel":
                assert self.first is not None
                message = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{self.first.id}}}}}\n'
                assert self.stage.here.process.stdin is not None
                self.stage.here.process.stdin.write(message.encode())
                return
            case "approve":
                call = server.call_tool("conversationApprove", name, call_id="call1", decision="approved")
            case "delete":
                call = server.call_tool("conversationDelete", name)
            case _:
                call = server.call_tool("conversationStream", name, after=0)
        self._calls.append((op, server, call))

    async def answers(self, *, may_join: bool) -> list[dict[str, Any]]:
        """Of all that was asked for. A reply that joined a turn which does not end by itself is answered by interrupting it."""
        for op, _, call in self._calls:
            if op != "reply" or not may_join:
                await call
        async with asyncio.timeout(2 * WAIT_SECONDS):
            rounds = 0
            while not all(call.done for _, _, call in self._calls):
                rounds += 1
                if rounds % 30 == 0:
                    await self.stage.here.call_tool("conversationInterrupt", conversation_id=self.conversation)
                await asyncio.sleep(0.01)
        found = [await call for _, _, call in self._calls]
        for answer in found:
            if "messageId" in answer.get("_meta", {}):
                self.messages.append(answer["_meta"]["messageId"])
        return found

    def was_deleted(self, answers: Sequence[dict[str, Any]]) -> bool:
        ops = [op for op, _, _ in self._calls]
        return any(op == "delete" and not answer["isError"] for op, answer in zip(ops, answers, strict=True))

    async def clean_up(self) -> None:
        await self.stage.here.call_tool("conversationInterrupt", conversation_id=self.conversation)
        assert self.first is not None
        await self.first

    def check_answered_once(self) -> None:
        for op, server, call in self._calls:
            answers = [frame for frame in server.frames if frame.get("id") == call.id and "method" not in frame]
            assert len(answers) == 1, f"{op} was answered {len(answers)} times"


async def play(on: Stage, state: str, ops: Sequence[str], servers: Sequence[McpProcess]) -> None:
    scene = Scene(on, state)
    await scene.set_up()
    servers = [on.here if op == "cancel" else server for op, server in zip(ops, servers, strict=True)]
    for op, server in zip(ops, servers, strict=True):
        scene.ask_for(op, server)
    stopped_first = ops[0] in STOPS and servers[0] is servers[1] and state != "idle"
    answers = await scene.answers(may_join=not stopped_first)
    if stopped_first and ops[1] in ("send", "reply"):
        await check_a_turn_of_its_own(scene, ops[1], answers[-1])
    await scene.clean_up()
    scene.check_answered_once()
    after = await servers[1].call_tool("codex-reply", threadId=scene.conversation, prompt="after")
    if scene.was_deleted(answers):
        assert "Session not found" in text_of(after)
        return
    assert text_of(after) == "ok: after", "the next call works"
    entries = on.entries(scene.conversation)
    check_log(entries)
    accepted = [entry.record.message_id for entry in entries if isinstance(entry.record, UserMessage)]
    assert set(scene.messages) <= set(accepted), "a message that was acknowledged is in the log"
    consumed = {name for entry in entries if isinstance(entry.record, RequestSent) for name in entry.record.consumed}
    assert consumed == set(accepted), "and every one has been read"


async def check_a_turn_of_its_own(scene: Scene, op: str, answer: dict[str, Any]) -> None:
    """What was sent after a stop was asked for."""
    if op == "reply":
        assert text_of(answer) == "ok: next"
    else:
        [message] = scene.messages
        assert not answer["_meta"]["joined"]
        entries: list[Entry] = []
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(isinstance(entry.record, TurnEnded) and entry.record.message == "ok: next" for entry in entries):
                await asyncio.sleep(0.01)
                entries = scene.stage.entries(scene.conversation)
        ends = [entry.seq for entry in entries if isinstance(entry.record, TurnEnded)]
        [sent] = [entry for entry in entries if isinstance(entry.record, UserMessage) and entry.record.message_id == message]
        starts = [entry.seq for entry in entries if isinstance(entry.record, TurnStarted)]
        assert ends[0] < sent.seq < starts[1] < ends[1], "the message came after the end of the turn before it"


async def play_all(folder: Path, state: str, placements: Sequence[tuple[str, str]]) -> None:
    async with stage(folder) as on:
        waiting = [(ops, names) for ops in product(OPS, OPS) for names in placements]

        async def work() -> None:
            while waiting:
                ops, names = waiting.pop()
                servers = [on.here if name == "here" else on.there for name in names]
                try:
                    await play(on, state, ops, servers)
                except BaseException as error:
                    error.add_note(f"{ops[0]} {names[0]}, then {ops[1]} {names[1]}, in state {state!r}")
                    raise

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
async def test_two_ops_at_once_on_one_server(tmp_path: Path, state: str) -> None:
    await play_all(tmp_path, state, [("here", "here")])


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
async def test_two_ops_at_once_from_two_processes(tmp_path: Path, state: str) -> None:
    await play_all(tmp_path, state, [("here", "there"), ("there", "here"), ("there", "there")])


@pytest.mark.slow
async def test_a_late_cancellation_ends_no_turn_but_its_own(tmp_path: Path) -> None:
    """The first call is being answered while the next message comes, and its cancellation after that."""
    async with stage(tmp_path) as on:
        here = on.here
        conversation = await create(here)
        for number in range(60):
            first = here.call_tool("codex-reply", threadId=conversation, prompt="quick")
            for _ in range(number % 12):
                await asyncio.sleep(0.0005)
            sent = send(here, conversation, f"next {number}")
            await here.cancel(first)
            await first
            result = await sent
            if not result["_meta"]["joined"]:
                message = result["_meta"]["messageId"]
                ended = await end_of_the_turn_of(on, conversation, message)
                assert ended.reason == "completed", f"round {number}: the turn of a message that nobody cancelled"
            await here.call_tool("conversationInterrupt", conversation_id=conversation)


async def end_of_the_turn_of(on: Stage, conversation: str, message: str) -> TurnEnded:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            entries = on.entries(conversation)
            turns = [
                entry.turn for entry in entries if isinstance(entry.record, UserMessage) and entry.record.message_id == message
            ]
            for entry in entries:
                if isinstance(entry.record, TurnEnded) and entry.turn in turns:
                    return entry.record
            await asyncio.sleep(0.005)


async def test_a_request_id_that_was_used_before_names_the_newest_call_only(tmp_path: Path) -> None:
    """The id of a message whose turn runs is given to a ping, which is cancelled when it has long been answered."""
    async with stage(tmp_path) as on:
        here = on.here
        conversation = await create(here)
        stream = Stream(here, conversation, after=0)
        content = [{"type": "text", "text": "talk"}]
        params = {"name": "conversationSendMessage", "arguments": {"conversation_id": conversation, "content": content}}
        await here.request("tools/call", params, request_id="same")
        await stream.until("agent_message_delta")
        ping = {"jsonrpc": "2.0", "id": "same", "method": "ping"}
        await here.send(ping)
        await here.notify("notifications/cancelled", {"requestId": "same"})
        stopped = await here.call_tool("conversationInterrupt", conversation_id=conversation)
        assert stopped["structuredContent"] == {"status": "ok", "interrupted": True}


@pytest.mark.slow
async def test_an_interrupt_is_answered_when_the_turn_is_over_in_the_log(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        for state in ("run", "talk", "ask"):
            for server in (on.here, on.there):
                scene = Scene(on, state)
                await scene.set_up()
                stopped = await server.call_tool("conversationInterrupt", conversation_id=scene.conversation)
                assert stopped["structuredContent"] == {"status": "ok", "interrupted": True}
                assert isinstance(on.entries(scene.conversation)[-1].record, TurnEnded)
                again = await server.call_tool("conversationInterrupt", conversation_id=scene.conversation)
                assert again["structuredContent"] == {"status": "ok", "interrupted": False}


@pytest.mark.slow
async def test_an_interrupt_of_a_turn_whose_process_does_not_move_names_that_process(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        scene = Scene(on, "run")
        await scene.set_up()
        await pause(on.here.process.pid, on.here.home)
        try:
            stopped = await on.there.call_tool("conversationInterrupt", conversation_id=scene.conversation)
        finally:
            go_on(on.here.process.pid)
        result = stopped["structuredContent"]
        assert (result["status"], result["interrupted"]) == ("requested", False)
        assert result["held_by"] in (f"process {on.here.process.pid}", "another process")
        assert scene.first is not None
        assert text_of(await scene.first) == "Turn interrupted", "it reads its letters once it moves again"


@pytest.mark.slow
async def test_who_acts_at_once_on_an_answer_of_another_process_is_not_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        for number in range(40):
            result = await on.here.call_tool("codex", prompt=f"hello {number}")
            thread = result["structuredContent"]["threadId"]
            match number % 3:
                case 0:
                    deleted = await on.there.call_tool("conversationDelete", conversation_id=thread)
                    assert deleted["structuredContent"] == {"status": "ok"}
                case 1:
                    sent = await send(on.there, thread, "next")
                    assert sent["_meta"]["joined"] is False
                case _:
                    created = await create(on.here)
                    deleted = await on.there.call_tool("conversationDelete", conversation_id=created)
                    assert deleted["structuredContent"] == {"status": "ok"}
