"""One random schedule: clients send, stream, cancel, approve, interrupt and fork; servers are killed and started again.

Afterwards the log is read, and everything that was seen and acknowledged is held against it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.moody_model import CALL_IDS, MoodyModel
from tests.soak.runs import Report, each_seed
from tests.soak.truth import Truth, check_commands, check_log
from tests.soak.watching import Watched, check_stream
from tests.support.answered import answered
from understudy.testing import Call, McpProcess
from understudy.testing.waiting import WAIT_SECONDS

DECISIONS = ("approved", "approved", "approved_for_session", "denied", "abort")


@dataclass
class Told:
    """What servers have acknowledged."""

    conversations: list[str] = field(default_factory=list[str])
    messages: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # conversation, message id
    forked: set[str] = field(default_factory=set[str])


class Schedule:
    def __init__(self, seed: int, folder: Path, *, steps: int = 30, servers: int | None = None) -> None:
        self.random = random.Random(seed)
        self.model = MoodyModel(seed)
        self.told = Told()
        self.trace: list[str] = []
        self.complaints: list[str] = []
        self._steps = steps
        self._count = servers or self.random.choice([1, 1, 2])
        self._home = folder / "home"
        self._work = folder / "work"
        self._servers: list[McpProcess] = []
        self._streams: list[Watched] = []
        self._calls: list[tuple[McpProcess, Call]] = []
        self._deleted_some = False
        self._asked: dict[int, int] = {}  # questions handed out so far, by server
        self._home.mkdir()
        self._work.mkdir()

    async def run(self) -> None:
        async with self.model.serving():
            try:
                for _ in range(self._count):
                    self._servers.append(await self._launch())
                for _ in range(self._steps):
                    await self._step()
                    await asyncio.sleep(self.random.choice([0, 0, 0.005, 0.02, 0.05]))
                await self._settle()
                await self._say_last_words()
                await self._let_streams_catch_up()
            finally:
                for server in self._servers:
                    await server.kill()
                    self.complaints.append(server.stderr)
        self._check()
        assert "".join(self.complaints) == "", "no server had anything to complain about"

    # -- steps

    async def _step(self) -> None:
        steps: list[tuple[float, Callable[[McpProcess], Awaitable[None]]]] = [
            (3, self._create),
            (8, self._send),
            (5, self._call),
            (7, self._stream),
            (2, self._stop_stream),
            (8, self._answer),
            (2, self._approve),
            (2, self._interrupt),
            (3, self._burst),
            (4, self._pair),
            (1, self._cancel_call),
            (2, self._fork),
            (2, self._kill),
            (0.5, self._close),
        ]
        step = self.random.choices([step for _, step in steps], [weight for weight, _ in steps])[0]
        server = self.random.choice(self._servers)
        self.trace.append(f"{getattr(step, '__name__', step)} on {self._servers.index(server)}")
        await step(server)

    async def _create(self, server: McpProcess) -> None:
        policy = self.random.choice(["never", "untrusted"])
        prompt = self.random.choice(["", "begin"])
        result = await server.call_tool("conversationCreate", prompt=prompt, approval_policy=policy)
        self.told.conversations.append(result["structuredContent"]["conversation_id"])

    def _any(self) -> str | None:
        return self.random.choice(self.told.conversations) if self.told.conversations else None

    async def _send(self, server: McpProcess, **more: Any) -> None:
        conversation = self._any()
        if conversation is None:
            return await self._create(server)
        content = [{"type": "text", "text": f"message {len(self.trace)}"}]
        result = await server.call_tool("conversationSendMessage", conversation_id=conversation, content=content, **more)
        if not result["isError"]:
            self.told.messages.append((conversation, result["_meta"]["messageId"]))
        return None

    async def _fork(self, server: McpProcess) -> None:
        if not self.told.messages:
            return
        conversation, message = self.random.choice(self.told.messages)
        content = [{"type": "text", "text": f"fork {len(self.trace)}"}]
        result = await server.call_tool(
            "conversationSendMessage", conversation_id=conversation, content=content, parent_message_id=message
        )
        if not result["isError"]:
            self.told.forked.add(conversation)
            self.told.messages.append((conversation, result["_meta"]["messageId"]))

    async def _call(self, server: McpProcess) -> None:
        conversation = self._any()
        if conversation is None or self.random.random() < 0.2:
            call = server.call_tool("codex", {"prompt": f"call {len(self.trace)}", "approval-policy": "untrusted"})
        else:
            call = server.call_tool("codex-reply", threadId=conversation, prompt=f"reply {len(self.trace)}")
        self._calls.append((server, call))

    async def _stream(self, server: McpProcess) -> None:
        conversation = self._any()
        if conversation is None:
            return
        bare_elsewhere = any(one.after is None for one in self._streams if one.ended is None and one.server is server)
        before = [one for one in self._streams if one.conversation == conversation]
        after = self.random.choice([None, 0, 0, before[-1].last_seen if before else 0])
        if after is None and bare_elsewhere:
            after = 0  # two bare streams on one connection cannot be told apart
        stream = Watched(server, conversation, after)
        await stream.call
        for other in self._streams:
            if other.ended is None and other.server is server and other.conversation == conversation:
                other.finish(cut=True)
        self._streams.append(stream)

    async def _stop_stream(self, server: McpProcess) -> None:
        live = [one for one in self._streams if one.ended is None and one.server is server]
        if live:
            stream = self.random.choice(live)
            await server.cancel(stream.call)
            await server.request("ping")
            stream.finish(cut=True)

    async def _answer(self, server: McpProcess) -> None:
        questions = [frame for frame in server.frames if frame.get("method") == "elicitation/create"]
        done = self._asked.get(id(server), 0)
        if len(questions) > done:
            self._asked[id(server)] = done + 1
            await server.respond(questions[done], {"decision": self.random.choice(DECISIONS)})

    async def _approve(self, server: McpProcess) -> None:
        for entry in await self._list(server):
            for call_id in entry["pending"]:
                arguments = {"conversation_id": entry["conversation_id"], "call_id": call_id}
                await server.call_tool("conversationApprove", arguments, decision=self.random.choice(DECISIONS))
                return

    async def _interrupt(self, server: McpProcess) -> None:
        conversation = self._any()
        if conversation is not None:
            await server.call_tool("conversationInterrupt", conversation_id=conversation)

    async def _burst(self, server: McpProcess) -> None:
        """Several ops for one conversation, none of which waits for the one before."""
        conversation = self._any()
        if conversation is None:
            return
        sent: list[Call] = []
        for number in range(self.random.randint(2, 5)):
            text = f"burst {len(self.trace)}.{number}"
            match self.random.choice(["send", "send", "interrupt", "reply"]):
                case "send":
                    content = [{"type": "text", "text": text}]
                    sent.append(server.call_tool("conversationSendMessage", conversation_id=conversation, content=content))
                case "interrupt":
                    server.call_tool("conversationInterrupt", conversation_id=conversation)
                case _:
                    self._calls.append((server, server.call_tool("codex-reply", threadId=conversation, prompt=text)))
        for call in sent:
            result = await call
            if not result["isError"]:
                self.told.messages.append((conversation, result["_meta"]["messageId"]))

    async def _pair(self, server: McpProcess) -> None:
        """Two ops for one conversation in one breath, perhaps by two servers: each is answered, whatever the other does."""
        conversation = self._any()
        if conversation is None:
            return
        asked: list[tuple[str, Call]] = []
        for _ in range(2):
            by = self.random.choice([server, server, self.random.choice(self._servers)])
            name = {"conversation_id": conversation}
            match self.random.choice(["send", "interrupt", "cancel", "reply", "approve", "stream", "delete"]):
                case "send":
                    content = [{"type": "text", "text": f"pair {len(self.trace)}"}]
                    asked.append(("send", by.call_tool("conversationSendMessage", name, content=content)))
                case "interrupt":
                    asked.append(("interrupt", by.call_tool("conversationInterrupt", name)))
                case "cancel":
                    await self._cancel_call(by)
                case "reply":
                    self._calls.append((by, by.call_tool("codex-reply", threadId=conversation, prompt=f"pair {len(self.trace)}")))
                case "approve":
                    arguments = {**name, "call_id": self.random.choice(CALL_IDS), "decision": self.random.choice(DECISIONS)}
                    asked.append(("approve", by.call_tool("conversationApprove", arguments)))
                case "stream":
                    await self._stream(by)
                case _:
                    await self._delete_one(by)
        for op, call in asked:
            result = await call
            if op == "send" and not result["isError"]:
                self.told.messages.append((conversation, result["_meta"]["messageId"]))

    async def _delete_one(self, server: McpProcess) -> None:
        """One of its own, with a turn that runs, a message and a stream at once."""
        self._deleted_some = True
        created = await server.call_tool("conversationCreate", prompt="begin", approval_policy="never")
        name = {"conversation_id": created["structuredContent"]["conversation_id"]}
        ops: list[Call] = [
            server.call_tool("conversationStream", name, after=0),
            server.call_tool("conversationSendMessage", name, content=[{"type": "text", "text": "more"}]),
            server.call_tool("conversationDelete", name),
            server.call_tool("codex-reply", threadId=name["conversation_id"], prompt="late"),
        ]
        for op in ops:
            await op
        gone = await server.call_tool("codex-reply", threadId=name["conversation_id"], prompt="gone")
        assert gone["isError"] is True

    async def _cancel_call(self, server: McpProcess) -> None:
        open_calls = [call for owner, call in self._calls if owner is server and not call.done]
        if open_calls:
            await server.cancel(self.random.choice(open_calls))

    async def _kill(self, server: McpProcess) -> None:
        await server.kill()
        await self._replace(server)

    async def _close(self, server: McpProcess) -> None:
        assert await server.close() == 0
        await self._replace(server)

    # -- servers

    async def _launch(self) -> McpProcess:
        config = {"model_providers.mock.stream_max_retries": 1, "sandbox_mode": "danger-full-access"}
        server = McpProcess(self.model.url, cwd=self._work, home=self._home, config=config, check_frames=False)
        await server.start()
        await server.initialize()
        return server

    async def _replace(self, server: McpProcess) -> None:
        self.complaints.append(server.stderr)
        for stream in self._streams:
            if stream.server is server:
                stream.finish(cut=True)
        self._calls = [(owner, call) for owner, call in self._calls if owner is not server]
        self._servers[self._servers.index(server)] = await self._launch()

    async def _list(self, server: McpProcess) -> list[dict[str, Any]]:
        return list((await server.call_tool("conversationsList", limit=200))["structuredContent"]["conversations"])

    # -- the end

    async def _settle(self) -> None:
        """Until nothing runs: questions are denied, what takes long is interrupted."""
        server = self._servers[0]
        busy: list[dict[str, Any]] = []
        open_calls: list[Call] = []
        answers: list[Any] = []
        rounds = quiet = 0
        try:
            async with asyncio.timeout(WAIT_SECONDS * 4):
                while quiet < 3:  # a turn that was just begun is listed as running once that is on disk
                    busy = [entry for entry in await self._list(server) if entry["status"] != "idle"]
                    open_calls = [call for _, call in self._calls if not call.done]  # one may not even have been read yet
                    quiet = 0 if busy or open_calls else quiet + 1
                    rounds += 1
                    for entry in busy:
                        conversation = {"conversation_id": entry["conversation_id"]}
                        for call_id in entry["pending"]:
                            denied = {**conversation, "call_id": call_id, "decision": "denied"}
                            answers.append(await server.call_tool("conversationApprove", denied))
                        if rounds > 20:
                            answers.append(await server.call_tool("conversationInterrupt", conversation))
                    await asyncio.sleep(0.03)
        except TimeoutError:
            waiting = [call.id for call in open_calls]
            raise AssertionError(f"still busy: {busy}; not answered: {waiting}; the last answers were {answers[-2:]}") from None

    async def _say_last_words(self) -> None:
        """One more message to each: all that was accepted reaches the model with it, in order, once."""
        self.model.calm = True
        server = self.random.choice(self._servers)
        for conversation in self.told.conversations:
            before = len(self.model.requests)
            result = await server.call_tool("codex-reply", threadId=conversation, prompt="last words")
            assert result["structuredContent"]["content"] == "calm", result
            if conversation not in self.told.forked:
                self._last_request(conversation, self.model.requests[before:])
        for owner, call in self._calls:
            await owner.answer(call.id)

    def _last_request(self, conversation: str, requests: list[Any]) -> None:
        truth = Truth(self._home)
        try:
            entries = answered(truth.log.read(conversation))  # pyright: ignore[reportArgumentType]
        finally:
            truth.close()
        texts = [entry.record.message.text() for entry in entries if hasattr(entry.record, "message_id")]  # pyright: ignore
        users = [message["content"] for message in requests[-1]["messages"] if message["role"] == "user"]
        assert [text for text in users if not text.startswith("<")] == texts, (
            f"{conversation}: the model was not told everything once"
        )

    async def _let_streams_catch_up(self) -> None:
        """A stream of another process's turn comes a moment later. Whether it comes whole is checked at the end."""
        truth = Truth(self._home)
        try:
            for stream in [one for one in self._streams if one.ended is None]:
                whole = [seq for seq, _ in truth.events(stream.conversation, marked=stream.after is not None)]
                count = len([seq for seq in whole if seq > (stream.after or 0)])
                with suppress(AssertionError):
                    await stream.server.wait_for_frame(lambda _: len(stream.events()) >= count, "all events")  # noqa: B023
                stream.finish(cut=False)
        finally:
            truth.close()

    def _check(self) -> None:
        truth = Truth(self._home)
        try:
            assert answered(truth.log.check()) == "ok"
            known = set(truth.conversations())
            assert set(self.told.conversations) <= known, "a conversation that was acknowledged is lost"
            for conversation, message in self.told.messages:
                assert truth.messages(conversation).count(message) == 1, f"message {message} is lost or doubled"
            for stream in self._streams:
                events = truth.events(stream.conversation, marked=stream.after is not None)
                check_stream(stream, events, whole=not stream.cut)
            self._check_commands(truth, known)
        finally:
            truth.close()

    def _check_commands(self, truth: Truth, known: set[Any]) -> None:
        log = self._work / "log"
        printed = log.read_text().split() if log.exists() else []
        assert len(set(printed)) == len(printed), "a command ran twice"
        accounted: set[str] = set()
        for conversation in known:
            entries = answered(truth.log.read(conversation))
            check_log(entries)
            accounted |= check_commands(entries, printed)
        if not self._deleted_some:  # what ran in those was on record until then
            assert accounted == set(printed), "something ran that is not on record"


async def run_schedules(first_seed: int, count: int, *, steps: int = 30, at_once: int = 3, report: Report | None = None) -> None:
    """Raises the first failure, with its seed and the steps that led to it."""

    async def play(seed: int, folder: Path) -> None:
        schedule = Schedule(seed, folder, steps=steps)
        try:
            await schedule.run()
        except BaseException as error:
            error.add_note("".join(schedule.complaints))
            error.add_note(f"schedule {seed}, after {len(schedule.trace)} steps: {', '.join(schedule.trace)}")
            raise

    await each_seed(first_seed, count, play, at_once, report)
