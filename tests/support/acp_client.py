"""An editor that speaks ACP to `understudy acp`, for tests."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.app_client import Json, LineClient
from understudy.testing import CodexHome


class AcpClient(LineClient):
    """`initialize` has been answered by the time the block begins, unless that is not wanted."""

    def __init__(
        self,
        home: Path,
        cwd: Path,
        *,
        arguments: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        greets: bool = True,
        capabilities: Any = None,
    ) -> None:
        command = [sys.executable, "-m", "understudy", "acp", *arguments]
        super().__init__(command, cwd, CodexHome(home).environment(dict(env or {})))
        self._greets = greets
        self._capabilities: Any = {} if capabilities is None else capabilities
        self.hello: Json = {}

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._greets:
            self.hello = await self.call("initialize", protocolVersion=1, clientCapabilities=self._capabilities)
        return self

    def send(self, message: Json) -> None:
        super().send({"jsonrpc": "2.0", **message})

    async def new_session(self, cwd: Path, **params: Any) -> str:
        return (await self.call("session/new", cwd=str(cwd), mcpServers=[], **params))["sessionId"]

    def ask_prompt(self, session: str, text: str) -> int:
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    async def prompt(self, session: str, text: str) -> str:
        """The reason why the turn stopped."""
        return (await self.answer(self.ask_prompt(session, text)))["stopReason"]

    def choose(self, question: Json, option: str) -> None:
        self.respond(question, {"outcome": {"outcome": "selected", "optionId": option}})

    def updates(self, kind: str = "", after: int = 0) -> list[Json]:
        found = [message["params"]["update"] for message in self.messages[after:] if message.get("method") == "session/update"]
        return [update for update in found if kind in ("", update["sessionUpdate"])]

    async def update(self, kind: str, after: int = 0, **members: Any) -> Json:
        """The first update of that kind, and with these members, from the `after`th message on."""

        def fits(message: Json) -> bool:
            if message.get("method") != "session/update":
                return False
            told = message["params"]["update"]
            return told["sessionUpdate"] == kind and all(told.get(name) == value for name, value in members.items())

        return (await self.until(fits, f"{kind} {members}", after))["params"]["update"]

    def said(self, kind: str = "agent_message_chunk", after: int = 0) -> str:
        return "".join(update["content"].get("text", "<image>") for update in self.updates(kind, after))
