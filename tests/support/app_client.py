"""A client of `understudy app-server` for tests: requests, their answers, what comes unasked, and the server's own questions."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from understudy.testing import CodexHome
from understudy.testing.calls import ServerDied
from understudy.testing.child import Child
from understudy.testing.waiting import Watched

Json = dict[str, Any]
INFO: Json = {"name": "probe", "title": "Probe", "version": "1.0.0"}


class RpcFailed(Exception):
    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]


class LineClient:
    """A program that speaks JSON-RPC line by line, as a child process."""

    def __init__(self, command: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> None:
        self._watched = Watched()
        self._next_id = 1
        self.messages: list[Json] = []  # all that the server has said, in order
        self.exit_code: int | None = None
        self._child = Child(
            [str(word) for word in command],
            cwd=cwd,
            env=env,
            seconds=self._watched.seconds,
            on_line=self._take,
            on_end=lambda reason: self._watched.fail(ServerDied(reason)),
        )

    async def __aenter__(self) -> Self:
        await self._child.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None and self.exit_code is None:
                self.exit_code = await self._child.close()
        finally:
            await self._child.kill()

    # -- speaking

    def send(self, message: Json) -> None:
        self.send_line(json.dumps(message))

    def send_line(self, line: str) -> None:
        self._child.write(line.encode() + b"\n")

    def ask(self, method: str, /, **params: Any) -> int:
        """Send a request and do not wait. Its id."""
        number = self._next_id
        self._next_id += 1
        self.send({"id": number, "method": method, "params": params})
        return number

    async def call(self, method: str, /, **params: Any) -> Json:
        """The result. Raises `RpcFailed`."""
        return await self.answer(self.ask(method, **params))

    async def answer(self, number: int | str) -> Json:
        found = await self.until(lambda message: message.get("id") == number and "method" not in message, f"the answer to {number}")
        if "error" in found:
            raise RpcFailed(found["error"])
        return found["result"]

    def respond(self, question: Json, result: Json) -> None:
        self.send({"id": question["id"], "result": result})

    @contextmanager
    def not_reading(self) -> Generator[None]:
        """What the server writes stays in the pipe."""
        transport: Any = getattr(self._child.process, "_transport").get_pipe_transport(1)  # noqa: B009
        transport.pause_reading()
        try:
            yield
        finally:
            transport.resume_reading()

    # -- hearing

    async def until(self, fits: Callable[[Json], bool], what: str, after: int = 0) -> Json:
        """The first message from the `after`th on that fits."""

        def find() -> Json | None:
            return next((message for message in self.messages[after:] if fits(message)), None)

        return await self._watched.until(find, what)

    async def told(self, method: str, after: int = 0, **params: Any) -> Json:
        """The params of the first notification of that method, and with these params, from the `after`th message on."""

        def fits(message: Json) -> bool:
            given = message.get("params", {})
            return message.get("method") == method and all(given.get(name) == value for name, value in params.items())

        return (await self.until(fits, method, after))["params"]

    async def question(self, number: int = 0) -> Json:
        """The request of the server with this id."""
        return await self.until(lambda message: message.get("id") == number and "method" in message, f"question {number}")

    def methods(self, after: int = 0) -> list[str]:
        return [message["method"] for message in self.messages[after:] if "method" in message]

    def pause(self) -> None:
        """The server does nothing until `go_on`."""
        self._child.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._child.process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        await self._child.kill()
        self.exit_code = -9

    async def close(self) -> int:
        self.exit_code = await self._child.close()
        return self.exit_code

    def terminate(self) -> None:
        self._child.process.terminate()

    async def ended(self) -> int:
        async with asyncio.timeout(self._watched.seconds):
            return await self._child.process.wait()

    @property
    def stderr(self) -> str:
        return self._child.stderr

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def _take(self, line: bytes) -> None:
        self.messages.append(json.loads(line))
        self._watched.change()


class AppClient(LineClient):
    """The app server. `initialize` has been answered by the time the block begins, unless that is not wanted."""

    def __init__(
        self,
        home: Path,
        cwd: Path,
        *,
        arguments: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        greets: bool = True,
        capabilities: Json | None = None,
    ) -> None:
        command = [sys.executable, "-m", "understudy", "app-server", *arguments]
        super().__init__(command, cwd, CodexHome(home).environment(dict(env or {})))
        self._greets = greets
        self._capabilities = capabilities
        self.hello: Json = {}

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._greets:
            params: Json = {"clientInfo": INFO}
            if self._capabilities is not None:
                params["capabilities"] = self._capabilities
            self.hello = await self.call("initialize", **params)
            self.send({"method": "initialized"})
        return self

    async def turn_over(self, thread_id: str, turn_id: str) -> Json:
        def fits(message: Json) -> bool:
            params = message.get("params", {})
            over = message.get("method") == "turn/completed" and params["threadId"] == thread_id
            return over and params["turn"]["id"] == turn_id

        return (await self.until(fits, f"the end of turn {turn_id}"))["params"]["turn"]

    async def start_thread(self, cwd: Path, **params: Any) -> str:
        return (await self.call("thread/start", cwd=str(cwd), **params))["thread"]["id"]

    async def start_turn(self, thread_id: str, text: str, **params: Any) -> str:
        said = [{"type": "text", "text": text}]
        return (await self.call("turn/start", threadId=thread_id, input=said, **params))["turn"]["id"]

    async def run_turn(self, thread_id: str, text: str, **params: Any) -> Json:
        """From its start to its end."""
        return await self.turn_over(thread_id, await self.start_turn(thread_id, text, **params))
