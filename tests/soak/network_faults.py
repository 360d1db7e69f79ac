"""A network that fails between the server and its model: each call is answered, whole or with an error, and no command runs twice.

`python -m tests.soak network-faults --count 300` does many. Wire, TLS, proxy, and what happens after how many bytes in which
direction of which connection (it ends, is reset, stands still, pauses, or a byte is another one) is drawn from the seed.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.models.authority import make_authority
from tests.soak.runs import Report, each_plan
from understudy.net.client import CONNECT_SECONDS
from understudy.testing import McpProcess, ReceivedRequest, ScriptedModel, call, deltas
from understudy.testing.script import Entry, Wire
from understudy.testing.waiting import WAIT_SECONDS

TEXT = [f"piece {number} " for number in range(40)]
WIRES: tuple[Wire, ...] = ("chat", "responses", "anthropic")


@dataclass(frozen=True)
class Fault:
    what: str
    down: bool  # of what the model sends
    after: int  # bytes of its direction

    def changed(self, data: bytes, passed: int) -> bytes:
        at = self.after - passed
        return data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]


@dataclass
class Plan:
    """What is done. What it says is what a failure prints."""

    seed: int
    wire: Wire
    tls: bool
    proxy: bool
    turns: int
    faults: list[Fault | None] = field(
        default_factory=list["Fault | None"]
    )  # of the connections, in the order in which they are made

    @classmethod
    def drawn(cls, seed: int) -> Plan:
        draw = random.Random(seed)
        plan = cls(seed, draw.choice(WIRES), draw.random() < 0.6, draw.random() < 0.4, draw.randint(1, 3))
        flips = ["flip"] if plan.tls else []  # plain HTTP cannot tell a flipped byte
        kinds = ["end", "end", "reset", "reset", "stall", "pause", *flips]
        for _ in range(draw.randint(1, 5)):
            most = draw.choice([40, 700, 3000, 9000])
            kind = draw.choice(kinds)
            plan.faults.append(draw.choice([None, *[Fault(kind, draw.random() < 0.7, draw.randrange(most))] * 4]))
        return plan


class Way:
    """A server on loopback that passes on what it is sent, each connection until its fault. With a TLS context it takes TLS off."""

    def __init__(
        self, to: int, faults: Sequence[Fault | None] = (), *, is_proxy: bool = False, tls: ssl.SSLContext | None = None
    ) -> None:
        self._to = to
        self._faults = iter(faults)
        self._is_proxy = is_proxy
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        fault = next(self._faults, None)
        writers = [writer]
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # asyncio has a word about a cancelled one
            head = await reader.readuntil(b"\r\n\r\n") if self._is_proxy else b""
            its_reader, its_writer = await asyncio.open_connection("127.0.0.1", self._to)
            writers.append(its_writer)
            if head.startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                its_writer.write(head)
            up = self._pass(reader, its_writer, fault if fault and not fault.down else None)
            down = self._pass(its_reader, writer, fault if fault and fault.down else None)
            await asyncio.gather(up, down)
        for each in writers:
            each.transport.abort()
        self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault | None) -> None:
        passed = 0
        while data := await reader.read(1 << 16):
            if fault is not None and passed <= fault.after < passed + len(data):
                match fault.what:
                    case "end":
                        writer.write(data[: fault.after - passed])
                        break
                    case "reset":
                        writer.write(data[: fault.after - passed])
                        raise ConnectionResetError
                    case "stall":
                        await asyncio.Event().wait()
                    case "pause":
                        await asyncio.sleep(0.3)  # shorter than what the server bears
                    case _:
                        data = fault.changed(data, passed)
            passed += len(data)
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof() if writer.can_write_eof() else writer.close()


class Turns:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._model = ScriptedModel(self._answer)

    def _answer(self, request: ReceivedRequest) -> Entry:
        """A command in each turn, and then the text."""
        asked = str(request.body).count("go on: ")
        if f"ran-{asked}" not in str(request.body):
            return call("shell", call_id=f"call{asked}", command=["sh", "-c", f"echo {asked} >> ran; echo ran-{asked}"])
        return deltas(TEXT)

    async def run(self) -> None:
        plan = self._plan
        work = self._folder / "work"
        work.mkdir()
        async with self._model.serving(), AsyncExitStack() as ways:
            env: dict[str, str] = {"NO_PROXY": ""}
            to = self._model.port
            if plan.tls:
                authority = make_authority(self._folder)
                env["SSL_CERT_FILE"] = str(authority.certificate)
                to = (await ways.enter_async_context(Way(to, tls=authority.context))).port
            way = await ways.enter_async_context(Way(to, plan.faults, is_proxy=plan.proxy))
            scheme = "https" if plan.tls else "http"
            if plan.proxy:
                env |= {f"{scheme}_proxy": f"http://127.0.0.1:{way.port}"}
            url = f"{scheme}://127.0.0.1:{to if plan.proxy else way.port}/v1"
            await self._talk(url, work, env)

    async def _talk(self, url: str, work: Path, env: dict[str, str]) -> None:
        config = {f"model_providers.mock.{name}": value for name, value in RETRIES.items()}
        home = self._folder / "user" / ".codex"
        # a connection that stands still before its TLS is agreed upon is given up late
        seconds = WAIT_SECONDS + CONNECT_SECONDS * len(self._plan.faults)
        server = McpProcess(url, cwd=work, home=home, wire=self._plan.wire, config=config, env=env, wait_seconds=seconds)
        async with server:
            thread = None
            for turn in range(1, self._plan.turns + 1):
                thread = await self._turn(server, thread, turn)
            if thread is not None:
                assert await server.request("ping") == {}
            assert "Traceback" not in server.stderr, server.stderr
        ran = (work / "ran").read_text().split() if (work / "ran").exists() else []
        assert len(set(ran)) == len(ran), f"a command ran twice: {ran}"

    async def _turn(self, server: McpProcess, thread: str | None, number: int) -> str | None:
        """The thread that it went on with. A turn that failed is said to have failed, and has not told half a text as the whole."""
        more: dict[str, Any] = {} if thread is None else {"threadId": thread}
        running = server.call_tool("codex" if thread is None else "codex-reply", prompt=f"go on: {number}", **more)
        result = await running
        structured = result.get("structuredContent", {})
        if result.get("isError"):
            assert structured.get("error") or result["content"][0]["text"], result
        else:
            assert structured["content"] == "".join(TEXT), result
            events = server.events(running)
            shown = "".join(event["delta"] for event in events if event["type"] == "agent_message_delta")
            said = [event["message"] for event in events if event["type"] == "agent_message"]
            assert set(said) == {"".join(TEXT)}, said  # a message that was whole when the answer broke off stays said
            assert shown == "".join(said), f"shown piece by piece: {shown!r}"
        return structured.get("threadId", thread)


RETRIES = {"request_max_retries": 2, "stream_max_retries": 2, "stream_idle_timeout_ms": 1000}


async def run_network_faults(first_seed: int, count: int, *, at_once: int = 2, report: Report | None = None) -> None:
    """Raises all failures together, each with its seed and what was done."""

    async def play(plan: Plan, folder: Path) -> None:
        await Turns(plan, folder).run()

    await each_plan("network-faults", first_seed, count, draw=Plan.drawn, play=play, at_once=at_once, report=report)
