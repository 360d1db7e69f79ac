"""Each write of a conversation fails in turn: every call is answered with the true reason, and the next call works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import text_of, thread_of
from tests.e2e.talking import Stream, send
from tests.soak.truth import check_log
from tests.support.answered import answered
from tests.support.failing_log import FailingLog
from tests.support.obliging_model import ObligingModel
from tests.support.server_here import ServerHere
from understudy.config.home import state_dir
from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Cancel
from understudy.protocol.records import RequestSent, UserMessage
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import Call, McpProcess
from understudy.testing.waiting import WAIT_SECONDS

MOST_WRITES = 60
ASKING: dict[str, Any] = {"approval-policy": "untrusted"}
STORE = "on demand"
INTERRUPTED = "Turn interrupted"
NOTHING = "no turn of this conversation has changed files", "there is nothing to sum up"  # it was in what is lost
UNKNOWN = "Session not found", "Session does not exist", "no conversation"

Results = list[dict[str, Any]]


class Play:
    """One scenario with one failing write."""

    def __init__(self, here: ServerHere, there: McpProcess | None, folder: Path) -> None:
        self.here = here
        self.there = there or here
        self.folder = folder
        self.calls: list[tuple[McpProcess, Call]] = []
        self.results: Results = []

    def ask(self, name: str, /, server: McpProcess | None = None, **arguments: Any) -> Call:
        server = server or self.here
        call = server.call_tool(name, arguments)
        self.calls.append((server, call))
        return call

    async def result(self, name: str, /, server: McpProcess | None = None, **arguments: Any) -> dict[str, Any]:
        return await self.note(self.ask(name, server, **arguments))

    async def note(self, call: Call) -> dict[str, Any]:
        result = await call
        self.results.append(result)
        return result

    async def begin(self, prompt: str, **more: Any) -> str | None:
        """A session with one turn; None where it could not even be begun."""
        result = await self.result("codex", prompt=prompt, cwd=str(self.folder), **more)
        return thread_of(result) if "structuredContent" in result else None

    async def handle(self, thread: str | None) -> Handle:
        """For what no tool of MCP does."""
        return await self.here.engine.find(LOCAL, ConversationId(thread or ""))

    @contextmanager
    def engine_failing(self) -> Generator[None]:
        try:
            yield
        except AgentError as error:
            self.results.append({"isError": True, "content": [{"type": "text", "text": str(error)}]})

    async def reached(self, call: Call, what: str) -> bool:
        """Until an event of that kind has come, or the call is answered."""

        def find() -> bool | None:
            if any(event["type"] == what for event in self.here.events(call)):
                return True
            return False if call.done else None

        return await self.here.until(find, what)


async def plain(play: Play) -> None:
    await play.begin("hello")


async def reply(play: Play) -> None:
    thread = await play.begin("hello")
    for text in ("one", "two"):
        await play.result("codex-reply", threadId=thread or "", prompt=text)


async def command(play: Play) -> None:
    thread = await play.begin("echo")
    await play.result("codex-reply", threadId=thread or "", prompt="echo again")


async def patch(play: Play) -> None:
    await play.begin("patch")


async def approval(play: Play) -> None:
    call = play.ask("codex", prompt="touch", cwd=str(play.folder), **ASKING)
    if await play.reached(call, "exec_approval_request"):
        [question] = [frame for frame in play.here.frames if frame.get("method") == "elicitation/create"]
        await play.here.respond(question, {"decision": "approved"})
    await play.note(call)


async def interrupt(play: Play) -> None:
    call = play.ask("codex", prompt="run", cwd=str(play.folder))
    if not await play.reached(call, "exec_command_begin"):
        await play.note(call)
        return
    thread = str((await play.here.event("session_configured", call))["session_id"])
    stopped = play.ask("conversationInterrupt", conversation_id=thread)
    again = play.ask("codex-reply", threadId=thread, prompt="again")
    for each in (call, stopped, again):
        await play.note(each)


async def stream(play: Play) -> None:
    created = await play.result("conversationCreate", cwd=str(play.folder))
    if created["isError"]:
        return
    thread = created["structuredContent"]["conversation_id"]
    watched = Stream(play.here, thread, after=0)
    await watched.call
    sent = send(play.here, thread, "echo")
    play.calls.append((play.here, sent))
    if (await play.note(sent))["isError"]:
        return

    def is_over(_: dict[str, Any]) -> bool:
        gone = bool(play.here.notifications("notifications/stream_disconnected"))
        return gone or any(one["type"] == "task_complete" for one in watched.messages())

    await play.here.wait_for_frame(is_over, "the end of the turn or of the stream")


async def delete(play: Play) -> None:
    thread = await play.begin("hello")
    await play.result("conversationDelete", conversation_id=thread or "")


async def rename(play: Play) -> None:
    thread = await play.begin("hello")
    for title in ("a name", "another"):
        await play.result("conversationRename", conversation_id=thread or "", title=title)


async def archive(play: Play) -> None:
    thread = await play.begin("hello")
    for name in ("conversationArchive", "conversationUnarchive"):
        await play.result(name, conversation_id=thread or "")


async def compact(play: Play) -> None:
    thread = await play.begin("hello")
    await play.result("conversationCompact", conversation_id=thread or "")
    await play.result("codex-reply", threadId=thread or "", prompt="more")


async def fork(play: Play) -> None:
    thread = await play.begin("hello")
    await play.result("conversationFork", conversation_id=thread or "")


async def undo(play: Play) -> None:
    thread = await play.begin("patch")
    with play.engine_failing():
        await (await play.handle(thread)).undo()


async def queue(play: Play) -> None:
    """Two messages for turns of their own, of which one is taken back, behind a turn that is interrupted."""
    call = play.ask("codex", prompt="run", cwd=str(play.folder))
    if await play.reached(call, "exec_command_begin"):
        thread = str((await play.here.event("session_configured", call))["session_id"])
        handle = await play.handle(thread)
        for text in ("queued", "dropped"):
            durable = Durable()
            with play.engine_failing():
                accepted = await handle.submit(handle.message(Message("user", (InputText(text),)), own_turn=True), durable=durable)
                await durable
                if text == "dropped":
                    await handle.submit(Cancel(accepted.message_id))
        await play.result("conversationInterrupt", conversation_id=thread)
    await play.note(call)


async def session(play: Play) -> None:
    """A command that outlives its turn, and is ended by putting the conversation away."""
    thread = await play.begin("session")
    await play.result("codex-reply", threadId=thread or "", prompt="more")
    await play.result("conversationArchive", conversation_id=thread or "")


async def from_elsewhere(play: Play) -> None:
    """A turn here that another process sends to and interrupts."""
    call = play.ask("codex", prompt="run", cwd=str(play.folder))
    if not await play.reached(call, "exec_command_begin"):
        await play.note(call)
        return
    thread = str((await play.here.event("session_configured", call))["session_id"])
    stopped = play.ask("conversationInterrupt", play.there, conversation_id=thread)
    again = play.ask("codex-reply", play.there, threadId=thread, prompt="again")
    for each in (call, stopped, again):
        await play.note(each)


async def to_elsewhere(play: Play) -> None:
    """A turn of another process, to which letters are sent from here."""
    call = play.ask("codex", play.there, prompt="run", cwd=str(play.folder))
    await play.there.event("exec_command_begin", call)
    thread = str((await play.there.event("session_configured", call))["session_id"])
    joined = play.ask("codex-reply", threadId=thread, prompt="more")
    stopped = play.ask("conversationInterrupt", conversation_id=thread)
    again = play.ask("codex-reply", threadId=thread, prompt="again")
    await play.note(stopped)
    await asyncio.wait([asyncio.ensure_future(play.note(each)) for each in (joined, again)], timeout=1)
    if not call.done:  # the letter that was to end it is lost
        await play.there.call_tool("conversationInterrupt", conversation_id=thread)
    await play.note(call)


ALONE: list[Callable[[Play], Awaitable[None]]] = [
    *(plain, reply, command, patch, approval, interrupt, stream, delete),
    *(rename, archive, compact, fork, undo, queue, session),
]
TOGETHER: list[Callable[[Play], Awaitable[None]]] = [from_elsewhere, to_elsewhere]


def name_of(scenario: Callable[[Play], Awaitable[None]]) -> str:
    return getattr(scenario, "__name__", "")


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("scenario", [*ALONE, *TOGETHER], ids=name_of)
@pytest.mark.quick(4)
async def test_whichever_write_fails_every_call_is_answered_and_the_next_one_works(
    tmp_path: Path, scenario: Callable[[Play], Awaitable[None]], length: int
) -> None:
    model = ObligingModel()
    async with model.serving():
        for number in range(1, MOST_WRITES):
            folder = tmp_path / str(number)
            folder.mkdir()
            try:
                if not await play_with_failure(scenario, model, folder, number, length):
                    assert number > 1
                    return
            except BaseException as error:
                error.add_note(f"{name_of(scenario)}, where write {number} fails")
                raise
    raise AssertionError(f"after {MOST_WRITES} writes it still goes on")


async def play_with_failure(
    scenario: Callable[[Play], Awaitable[None]], model: ObligingModel, folder: Path, number: int, length: int
) -> bool:
    """Whether the write that was to fail was ever made."""
    home = folder / "home"
    log: list[FailingLog] = []

    def open_log(place: Path, loop: asyncio.AbstractEventLoop) -> FailingLog:
        log.append(FailingLog(state_dir(place), loop, number, length))
        return log[0]

    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(ServerHere(model.url, cwd=folder, home=home, open_log=open_log))
        there = None
        if scenario in TOGETHER:
            there = await stack.enter_async_context(McpProcess(model.url, cwd=folder, home=home, check_frames=False))
        play = Play(here, there, folder)
        await scenario(play)
        for _, call in play.calls:
            await call
        has_failed = log[0].has_failed
        check_reasons(play.results)
        while log[0].writes < number + length - 1:  # the trouble is to be over
            await here.call_tool("conversationCreate", cwd=str(folder))
        await asyncio.wait_for(log[0].over.wait(), WAIT_SECONDS)  # also for what no call waits for, as the end of a long command
        for server in {here, play.there}:
            await check_the_next_call(server, play.results, folder)
        for server, call in play.calls:
            answers = [frame for frame in server.frames if frame.get("id") == call.id and "method" not in frame]
            assert len(answers) == 1
    with closing(SqliteLog(home / "understudy")) as stored:
        for row in answered(stored.list(200)).rows:
            entries = answered(stored.read(row.conversation_id))
            check_log(entries)
            accepted = {entry.record.message_id for entry in entries if isinstance(entry.record, UserMessage)}
            consumed = {name for entry in entries if isinstance(entry.record, RequestSent) for name in entry.record.consumed}
            assert consumed == accepted, "what was recorded has been read"
    return has_failed


def check_reasons(results: Results) -> None:
    for result in results:
        if result.get("isError"):
            text = text_of(result)
            assert any(known in text for known in (STORE, INTERRUPTED, *NOTHING, *UNKNOWN, "Failed to parse")), text


async def check_the_next_call(server: McpProcess, results: Results, folder: Path) -> None:
    threads = {
        result["structuredContent"].get("threadId") or result["structuredContent"].get("conversation_id")
        for result in results
        if "structuredContent" in result
    }
    for thread in threads - {None}:
        began = len(server.frames)
        call = server.call_tool("codex-reply", threadId=thread, prompt="after")

        def find(call: Call = call, began: int = began) -> dict[str, Any] | None:
            asked = [frame for frame in server.frames[began:] if frame.get("method") == "elicitation/create"]
            return asked[0] if asked else {} if call.done else None

        question = await server.until(find, "an answer or a question")
        if question:  # whose answer was not recorded: it is asked again
            await server.respond(question, {"decision": "denied"})
        next_one = await call
        if question:
            assert text_of(next_one) in ("done", "ok: after")
            continue
        assert text_of(next_one) == "ok: after" or any(known in text_of(next_one) for known in UNKNOWN), text_of(next_one)
    fresh = await server.call_tool("codex", prompt="fresh", cwd=str(folder))
    assert text_of(fresh) == "ok: fresh"
