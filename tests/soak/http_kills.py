"""`kill -9` of a server over HTTP under load, over and over: nothing that was acknowledged is lost, every call is answered or can
be resumed, and no event is doubled or missing by cursor.

`python -m tests.soak.http_kills --count 500` runs it for long. Clients of both eras work at once, in one process, on raw sockets.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from tests.soak.truth import Truth, check_log
from tests.support.answered import answered
from tests.support.http_server import HttpClient, HttpServer, Response
from understudy.protocol.ids import ConversationId
from understudy.testing import Entry, ReceivedRequest, ScriptedModel, deltas

Json = dict[str, Any]
CLIENTS = 50
AWAY = (
    ConnectionError,
    EOFError,
)  # what a client sees of a server that is killed; a wait that is over is a call that nobody answers
PAUSE_SECONDS = 0.02  # before a client tries again
LAST_SECONDS = 120.0  # that clients have for what they have begun, once nothing is killed any more


class WordyModel(ScriptedModel):
    """No two words of it are the same, so that one which is shown twice, or not at all, can be told."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._reply)
        self._random = random.Random(seed)
        self._answers = 0

    def _reply(self, request: ReceivedRequest) -> Entry:
        self._answers += 1
        pieces: list[Any] = []
        for number in range(self._random.randint(1, 12)):
            pieces.append(f"{self._answers}.{number} ")
            if self._random.random() < 0.4:
                pieces.append(self._random.uniform(0, 0.05))
        return deltas(pieces, usage=(3, 2))


class Told:
    """What clients were told, to be held against the log."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        self.messages: list[tuple[str, str]] = []  # conversation and message, of what was acknowledged
        self.answers: list[tuple[str, str]] = []  # conversation and text
        self.calls: list[tuple[str, list[Json]]] = []  # conversation and events of a call that was answered
        self.listened: dict[str, list[Json]] = {}  # events with their numbers, by conversation
        self.lost = 0  # tries of which the client had heard nothing that it could come back with
        self.resumed = 0


async def post(client: HttpClient, tool: str, arguments: Json, *, modern: bool = False) -> Response:
    if modern:
        return await client.modern("tools/call", {"name": tool, "arguments": arguments})
    return await client.call(tool, arguments)


async def begin_session(client: HttpClient) -> None:
    while True:
        with suppress(*AWAY):
            client.session = None
            await client.initialize()
            return
        await asyncio.sleep(PAUSE_SECONDS)


def messages_in(events: list[Json]) -> Iterator[Json]:
    for event in events:
        if event.get("data"):
            yield event["data"]


async def read_on(response: Response, got: list[Json]) -> bool:
    """Events up to the answer; False where the connection broke before it."""
    with suppress(*AWAY):
        if not response.is_stream:
            got.append({"data": await response.json()})
            return True
        async for event in response.events():
            got.append(event)  # noqa: PERF401  # what has come stays, though the rest does not
    response.close()
    return bool(got) and any("result" in message for message in messages_in(got[-1:]))


class LegacyCaller:
    """Calls `codex` and `codex-reply`; comes back for the rest of a call with the id of its last event."""

    def __init__(self, client: HttpClient, told: Told, name: str) -> None:
        self._client, self._told, self._name = client, told, name
        self._thread: str | None = None

    async def run(self) -> None:
        await begin_session(self._client)
        number = 0
        while not self._told.ending.is_set():
            number += 1
            prompt = f"{self._name} {number}"
            arguments = {"prompt": prompt} if self._thread is None else {"threadId": self._thread, "prompt": prompt}
            got: list[Json] = []
            try:
                response = await post(self._client, "codex" if self._thread is None else "codex-reply", arguments)
                over = await read_on(response, got)
            except AWAY:
                over = False
            if not over and not await self._come_back(got):
                self._told.lost += 1
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._note(got)

    async def _come_back(self, got: list[Json]) -> bool:
        while (last := next((event["id"] for event in reversed(got) if "id" in event), None)) is not None:
            try:
                response = await self._client.listen(last)
                assert response.status == 200, (response.status, await response.body(), last)
                self._told.resumed += 1
                if await read_on(response, got):
                    return True
            except AWAY:
                await asyncio.sleep(PAUSE_SECONDS)
        return False

    def _note(self, got: list[Json]) -> None:
        messages = list(messages_in(got))
        result = messages[-1]["result"]
        thread = result["structuredContent"].get("threadId")
        if thread is None:
            return
        self._thread = thread if self._thread is None or len(self._told.calls) % 7 else None  # now and then a new one
        events = [message["params"]["msg"] for message in messages if message.get("method") == "codex/event"]
        self._told.calls.append((thread, events))
        if not result.get("isError"):
            self._told.answers.append((thread, result["structuredContent"]["content"]))
            said = "".join(msg["delta"] for msg in events if msg["type"] == "agent_message_delta")
            assert said == result["structuredContent"]["content"], (said, result)


class ModernCaller:
    """Each call stands alone. What a break has cut is asked for by `codex-reply` without a prompt."""

    def __init__(self, client: HttpClient, told: Told, name: str) -> None:
        self._client, self._told, self._name = client, told, name
        self._thread: str | None = None

    async def run(self) -> None:
        number = 0
        while not self._told.ending.is_set():
            number += 1
            arguments: Json = {"prompt": f"{self._name} {number}"}
            if self._thread is not None:
                arguments["threadId"] = self._thread
            got: list[Json] = []
            if not await self._call("codex" if self._thread is None else "codex-reply", arguments, got):
                thread = next((message["params"]["_meta"]["threadId"] for message in messages_in(got) if "params" in message), None)
                if thread is None:
                    self._told.lost += 1
                    continue
                self._thread, got = thread, []
                while not await self._call("codex-reply", {"threadId": thread}, got):
                    got = []
                self._told.resumed += 1
            self._note(list(messages_in(got))[-1])

    async def _call(self, tool: str, arguments: Json, got: list[Json]) -> bool:
        try:
            return await read_on(await post(self._client, tool, arguments, modern=True), got)
        except AWAY:
            await asyncio.sleep(PAUSE_SECONDS)
            return False

    def _note(self, answer: Json) -> None:
        content = answer["result"]["structuredContent"]
        self._thread = content.get("threadId")
        if not answer["result"].get("isError"):
            self._told.answers.append((content["threadId"], content["content"]))


class Listener:
    """Watches one conversation from its beginning on the stream of its session, and sends it messages."""

    def __init__(self, client: HttpClient, told: Told, name: str) -> None:
        self._client, self._told, self._name = client, told, name
        self._conversation = ""
        self._got: list[Json] = []

    async def run(self) -> None:
        await begin_session(self._client)
        self._conversation = (await self._asked("conversationCreate", {}))["conversation_id"]
        listening = asyncio.create_task(self._listen())
        number = 0
        while not self._told.ending.is_set():
            number += 1
            content = [{"type": "text", "text": f"{self._name} {number}"}]
            with suppress(*AWAY):
                result = await self._client.result(
                    "conversationSendMessage", {"conversation_id": self._conversation, "content": content}
                )
                if not result["isError"]:
                    self._told.messages.append((self._conversation, result["_meta"]["messageId"]))
            await asyncio.sleep(0.05)
        if any(conversation == self._conversation for conversation, _ in self._told.messages):
            await self._asked("codex-reply", {"threadId": self._conversation})  # until its turn is over
        await asyncio.wait_for(self._caught_up(), LAST_SECONDS)
        listening.cancel()
        self._told.listened[self._conversation] = list(messages_in(self._got))

    async def _asked(self, tool: str, arguments: Json) -> Json:
        while True:
            with suppress(*AWAY):
                result = await self._client.result(tool, arguments)
                assert "structuredContent" in result, result
                return result["structuredContent"]
            await asyncio.sleep(PAUSE_SECONDS)

    async def _listen(self) -> None:
        begun = False
        while True:
            with suppress(*AWAY):
                last = next((event["id"] for event in reversed(self._got) if "id" in event), None)
                stream = await self._client.listen(last)
                assert stream.status == 200, (stream.status, last)
                if not begun or last is None:
                    await self._client.result("conversationStream", {"conversation_id": self._conversation, "after": 0})
                    begun = True
                try:
                    async for event in stream.events():
                        self._got.append(event)
                finally:
                    stream.close()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _caught_up(self) -> None:
        """Until what it was shown says that no turn runs."""
        while True:
            kinds = [message.get("method") for message in messages_in(self._got)]
            if kinds.count("task_started") + self._in_snapshot("task_started") == kinds.count("task_complete") + self._in_snapshot(
                "task_complete"
            ):
                return
            await asyncio.sleep(0.05)

    def _in_snapshot(self, kind: str) -> int:
        return sum(event["msg"]["type"] == kind for message in messages_in(self._got) for event in snapshot_of(message))


def snapshot_of(message: Json) -> list[Json]:
    return message["params"]["initial_state"]["events"] if message.get("method") == "notifications/initial_state" else []


class Kills:
    def __init__(self, seed: int, folder: Path, clients: int) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self._clients = clients
        self.told = Told()
        self._model = WordyModel(seed)

    async def run(self, count: int, report: Callable[[int], None]) -> None:
        config = {"approval_policy": "never", "sandbox_mode": "danger-full-access", "understudy.serve.rate": 0}
        async with self._model.serving(), HttpServer(self._folder, self._model.url, config=config) as server:
            tasks = [asyncio.create_task(runner.run()) for runner in self._runners(server)]
            for number in range(count):
                await self._wait(tasks, self._random.uniform(0.02, 0.6))
                await server.kill()
                await server.start()
                report(number + 1)
            await self._wait(tasks, 1.0)
            self.told.ending.set()
            done, left = await asyncio.wait(tasks, timeout=LAST_SECONDS)
            for task in left:
                task.cancel()
            assert not left, f"{len(left)} clients still wait for something"
            for task in done:
                task.result()
            await server.stop()
        self.check(server.home.path)

    def _runners(self, server: HttpServer) -> list[LegacyCaller | ModernCaller | Listener]:
        kinds = (LegacyCaller, ModernCaller, LegacyCaller, ModernCaller, Listener)
        return [
            kinds[number % len(kinds)](HttpClient(server.port, server.token), self.told, f"client{number}")
            for number in range(self._clients)
        ]

    async def _wait(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
            raise AssertionError("a client ended before it was told to")

    # -- what the log says

    def check(self, home: Path) -> None:
        truth = Truth(home)
        try:
            kept = set(truth.conversations())
            told_of = {each for each, _ in (*self.told.messages, *self.told.answers, *self.told.calls)}
            assert told_of <= kept, "a conversation that was told of is not in the store"
            for conversation in kept:
                self._check_conversation(truth, conversation)
            for conversation, messages in self.told.listened.items():
                check_listened(truth, conversation, messages)
        finally:
            truth.close()

    def _check_conversation(self, truth: Truth, conversation: ConversationId) -> None:
        check_log(answered(truth.log.read(conversation)))
        messages = Counter(truth.messages(conversation))
        for message in (message for name, message in self.told.messages if name == conversation):
            assert messages[message] == 1, "a message that was acknowledged is not in the log once"
        logged = [event for _, event in truth.events(conversation, marked=False)]
        said = {event["message"] for event in logged if event["type"] == "agent_message"}
        for text in (text for name, text in self.told.answers if name == conversation):
            assert text in said, "an answer that was given is not in the log"
        for events in (events for name, events in self.told.calls if name == conversation):
            check_call(logged, events)


def check_call(logged: list[Json], events: list[Json]) -> None:
    """What a call was shown stands in the log as one piece, without a gap and nothing twice."""
    shown = [event for event in events if not event["type"].endswith("_delta")]
    opened = [event for event in shown if event["type"] == "session_configured"]
    rest = [event for event in shown if event["type"] != "session_configured"]
    assert len(opened) <= 1
    assert any(logged[at : at + len(rest)] == rest for at in range(len(logged) - len(rest) + 1)), (rest, logged)


def check_listened(truth: Truth, conversation: str, messages: list[Json]) -> None:
    """Every event of the conversation, once and in order, from its beginning."""
    seen: list[tuple[int, Json]] = []
    for message in messages:
        params = message.get("params", {})
        told = snapshot_of(message) or ([params] if "seq" in params.get("_meta", {}) and "msg" in params else [])
        if message.get("method") == "notifications/initial_state" and seen:
            seen.clear()  # it was asked for again, because nothing of it had come
        seen += [(each["_meta"]["seq"], each["msg"]) for each in told if not each["msg"]["type"].endswith("_delta")]
    logged = truth.events(ConversationId(conversation), marked=True)
    assert seen == logged[: len(seen)], (conversation, seen, logged)
    assert len(logged) - len(seen) <= 1, (seen[-1:], logged[-3:])


async def run_http_kills(
    seed: int, count: int, *, clients: int = CLIENTS, folder: Path | None = None, report: Callable[[int], None] = lambda _: None
) -> Told:
    """`folder` is left as it is at the end, for those who want to look at it; without one it is a temporary one."""
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="understudy-kills-") as place:
        kills = Kills(seed, Path(place), clients)
        await kills.run(count, report)
        return kills.told


def allow_descriptors() -> None:
    """As many as there may be: 50 clients, the model's connections, and those of servers that were just killed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.http_kills", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, help="where the server has its home, kept afterwards")
    options = parser.parse_args()
    allow_descriptors()
    began = time.monotonic()

    def report(done: int) -> None:
        if done % 25 == 0 or done == options.count:
            print(f"{done} of {options.count} kills, {time.monotonic() - began:.0f} s", flush=True)

    print(f"{options.count} kills with {options.clients} clients from seed {options.seed}", flush=True)
    told = asyncio.run(run_http_kills(options.seed, options.count, clients=options.clients, folder=options.folder, report=report))
    print(
        f"{len(told.answers)} answers, {len(told.messages)} messages, {told.resumed} calls resumed or waited for again, "
        f"{told.lost} tries that found no server or one that was killed before it said anything: all as the log has it"
    )


if __name__ == "__main__":
    main()
