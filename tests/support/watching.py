"""Records in, messages to one client out, as lines that can be read: what a viewer of a conversation says on the wire.

The log, the tail and the client's side are real; only nobody asks a model, so that a test chooses every record.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import read_line
from understudy.protocol.ops import Accepted
from understudy.protocol.records import Delta, Overrides, Record
from understudy.servers.mcp.call import Call, CallViewer, ClientContext
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.progress import Progress
from understudy.servers.mcp.results import SESSION
from understudy.servers.mcp.stream_viewer import StreamViewer
from understudy.servers.pipes import PipeSink
from understudy.servers.wire_events.presentation import Presentation
from understudy.testing.waiting import WAIT_SECONDS, Watched

Json = dict[str, Any]


class Taker(asyncio.WriteTransport):
    """The client's end, which takes all at once."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Json] = []
        self.watched = Watched()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.frames += [json.loads(line) for line in bytes(data).splitlines()]
        self.watched.change()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def _nobody_else(_: object) -> None:
    """No other process is looked out for."""


class Watching:
    """One conversation, one client, and the calls and streams by which it watches."""

    def __init__(self, folder: Path, *, can_be_asked: bool = True) -> None:
        self._folder = folder
        self._can_be_asked = can_be_asked
        self.answered: list[int | str] = []  # calls that said they were, in order
        self._taker = Taker()
        self._asked: dict[int, str] = {}  # our requests to the client, by what they ask about

    async def __aenter__(self) -> Watching:
        loop = asyncio.get_running_loop()
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        settings = [("model", "m"), ("model_provider", "oss")]
        self._engine = Engine(cli=settings, env={**os.environ, "CODEX_HOME": str(home)})
        self.handle = await self._engine.create(LOCAL, Overrides(cwd=str(self._folder)))
        self.conversation = self.handle._conversation  # pyright: ignore[reportPrivateUsage]  # whose records the test chooses
        self.conversation.on_watch_needed = _nobody_else  # or its turn, which nobody runs, is taken for one of a dead process
        self.sink = PipeSink(loop)
        self.sink.attach(self._taker)
        self.client = Peer()
        self.client.can_be_asked = self._can_be_asked
        self.client.methods = "codex/event"
        self._context = ClientContext(self._engine, LOCAL, self.client, self.sink)
        await self._settle()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await self._engine.close()

    # -- who watches

    def call(self, request_id: int | str, presentation: Presentation | None = None, *, progress: bool = False) -> CallViewer:
        presentation = presentation or Presentation(thread_in_text=False)
        call = Call(request_id, None, self.sink, self._context)
        call.shape = SESSION
        call.when_answered(lambda call: self.answered.append(call.id))
        loop = asyncio.get_running_loop()
        told = Progress(f"p{request_id}", self.sink, request_id, loop, self.handle.id) if progress else None
        viewer = CallViewer(call, self.handle, presentation, told)
        viewer.following.go_live()
        viewer.following.wait()
        return viewer

    def sent(self, request_id: int | str, turn: str, *, joined: bool = False, held: bool = False, **more: Any) -> CallViewer:
        """A call whose message, named as the call is, was taken."""
        call = self.call(request_id, **more)
        call.following.follow_message(Accepted(f"m{request_id}", turn, joined=joined, held=held))
        return call

    async def stream(
        self, request_id: int | str, after: int | None = None, presentation: Presentation | None = None
    ) -> StreamViewer:
        stream = StreamViewer(self.client, self.sink, self.handle, request_id, None, presentation or Presentation(), after)
        while not await stream.gather():
            pass
        return stream

    # -- what happens

    async def record(self, *records: Record, turn: str = "1") -> None:
        """They come to the log, and those who watch are shown them."""
        self.conversation.tail.append(*records, turn=_copy(turn))
        await self._settle()

    async def delta(self, delta: Delta, turn: str = "1") -> None:
        self.conversation.tail.emit(delta, _copy(turn))
        await self._settle()

    def respond(self, frame: Json) -> None:
        """The client answers a request of ours."""
        response: Any = read_line(json.dumps(frame).encode())
        self.client.answer(response)

    async def _settle(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await self.conversation.tail.committed()
        self.sink.flush()

    # -- what the client is told

    def frames(self) -> list[Json]:
        """Since this or `said` was last asked."""
        self.sink.flush()
        frames, self._taker.frames = self._taker.frames, []
        return frames

    def said(self) -> list[str]:
        return [self._line(frame) for frame in self.frames()]

    async def said_until(self, count: int) -> list[str]:
        """So many lines at least, once they have come."""
        await self._taker.watched.until(lambda: len(self._taker.frames) >= count or None, f"{count} messages")
        return self.said()

    @property
    def thread(self) -> ConversationId:
        return self.conversation.id

    def _line(self, frame: Json) -> str:
        params: Json = frame.get("params", {})
        match frame.get("method"):
            case None:
                result = frame["result"]
                return f"{frame['id']} {'fails' if result.get('isError') else 'answered'}: {result['content'][0]['text']}"
            case "elicitation/create":
                self._asked[frame["id"]] = params["codex_call_id"]
                return f"{params['codex_mcp_tool_call_id']} asks about {params['codex_call_id']} of turn {params['codex_event_id']}"
            case "notifications/cancelled":
                return f"withdraws {self._asked[params['requestId']]}"
            case "notifications/progress":
                return f"{params['progressToken']} step {params['progress']}: {params['message']}"
            case "notifications/initial_state":
                return f"snapshot of {' '.join(_event(one['msg']) for one in params['initial_state']['events'])}".rstrip()
            case method:
                meta: Json = params.get("_meta", {})
                who = (
                    f"{meta['requestId']} turn {params['id']}" if "requestId" in meta else f"stream {meta.get('seq', '')}".rstrip()
                )
                own = "" if method == "codex/event" else " by its own name"
                return f"{who}: {_event(params['msg'])}{own}"


def _copy(turn: str) -> str:
    """Equal, and another object, as from a log that was read."""
    return turn.encode().decode()


def _event(message: Json) -> str:
    words = next((str(message[key]) for key in ("delta", "message", "text") if key in message), "")
    return f"{message['type']} {words}".rstrip()
