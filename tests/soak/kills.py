"""`kill -9` at random moments of a busy server, over and over on one store: it opens every time, and holds all it acknowledged."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.soak.moody_model import MoodyModel
from tests.soak.truth import Truth, check_commands, check_log, events_of
from tests.store.records import position_of
from tests.support.answered import answered
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import TurnEnded
from understudy.testing import McpProcess

REVIVED = 3  # conversations of earlier rounds that each round goes on with


class Rounds:
    """One home, one model, and many short-lived servers."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = random.Random(seed)
        self._model = MoodyModel(seed)
        self._home = folder / "home"
        self._work = folder / "work"
        self._known: list[str] = []
        self._home.mkdir()
        self._work.mkdir()

    async def run(self, count: int, report: Callable[[], None]) -> None:
        async with self._model.serving():
            for _ in range(count):
                await self._round()
                report()
            await self._last_round()

    async def _round(self) -> None:
        server = await self._launch()
        try:
            await self._be_busy(server)
        finally:
            await server.kill()
        self._check(server)

    async def _launch(self) -> McpProcess:
        config = {"model_providers.mock.stream_max_retries": 1, "approval_policy": "never", "sandbox_mode": "danger-full-access"}
        server = McpProcess(self._model.url, cwd=self._work, home=self._home, config=config, check_frames=False)
        await server.start()
        await server.initialize()
        return server

    async def _be_busy(self, server: McpProcess) -> None:
        """Everything at once, and then the end, wherever it has got to."""
        for name in self._random.sample(self._known, min(REVIVED, len(self._known))):
            server.call_tool("conversationStream", conversation_id=name, after=0)
            server.call_tool("codex-reply", threadId=name, prompt="go on")
            content = [{"type": "text", "text": "more"}]
            server.call_tool("conversationSendMessage", conversation_id=name, content=content)
        for _ in range(2):
            server.call_tool("codex", {"prompt": "call", "approval-policy": "never"})
            server.call_tool("conversationCreate", prompt="begin")
        if self._random.random() < 0.8:
            await server.frames_until(2)  # it is at work
        await asyncio.sleep(self._random.choice([0.0, 0.02, 0.05, 0.1, 0.2, 0.4]) * self._random.random())

    def _check(self, server: McpProcess) -> None:
        truth = Truth(self._home)  # it opens
        try:
            touched = self._check_answers(server, truth) | self._check_events(server, truth)
            for name in touched:
                check_log(answered(truth.log.read(ConversationId(name))))
            self._known += sorted(touched - set(self._known))
            self._known = self._known[-40:]
        finally:
            truth.close()

    def _check_answers(self, server: McpProcess, truth: Truth) -> set[str]:
        touched: set[str] = set()
        sent = {message["id"]: message["params"] for message in server.sent if message["method"] == "tools/call"}
        for frame in server.frames:
            if "result" not in frame or frame["id"] not in sent or frame["result"].get("isError"):
                continue
            params, result = sent[frame["id"]], frame["result"]
            match params["name"]:
                case "conversationCreate":
                    name = result["structuredContent"]["conversation_id"]
                    assert position_of(truth.log, name) is not None, f"{name} was acknowledged and is lost"
                    touched.add(name)
                case "conversationSendMessage":
                    name, message = params["arguments"]["conversation_id"], result["_meta"]["messageId"]
                    assert truth.messages(name).count(message) == 1, f"message {message} was acknowledged and is lost"
                    touched.add(name)
                case "codex" | "codex-reply":
                    name = result["structuredContent"]["threadId"]
                    said = [entry.record.message for entry in answered(truth.log.read(name)) if isinstance(entry.record, TurnEnded)]
                    assert result["structuredContent"]["content"] in said, f"an answer of {name} is lost"
                    touched.add(name)
                case _:
                    pass
        return touched

    def _check_events(self, server: McpProcess, truth: Truth) -> set[str]:
        """What was shown is in the log."""
        shown: dict[str, list[dict[str, Any]]] = {}
        for frame in server.frames:
            params: dict[str, Any] = frame.get("params") or {}
            if frame.get("method") == "codex/event" and not params["msg"]["type"].endswith("_delta"):
                shown.setdefault(params["_meta"]["threadId"], []).append(params["msg"])
        for name, events in shown.items():
            entries = answered(truth.log.read(ConversationId(name)))
            logged = [msg for entry in entries for _, msg in events_of(entry, marked=True)]
            for event in events:
                assert event in logged, f"{event} of {name} was shown and is lost"
        return set(shown)

    async def _last_round(self) -> None:
        """Everything is in order, and every conversation can be gone on with."""
        self._model.calm = True
        server = await self._launch()
        try:
            for name in self._known:
                result = await server.call_tool("codex-reply", threadId=name, prompt="last words")
                assert result["structuredContent"]["content"] == "calm", result
        finally:
            await server.kill()
        truth = Truth(self._home)
        try:
            assert answered(truth.log.check()) == "ok"
            log = self._work / "log"
            printed = log.read_text().split() if log.exists() else []
            assert len(set(printed)) == len(printed), "a command ran twice"
            accounted: set[str] = set()
            for name in truth.conversations():
                entries = answered(truth.log.read(name))
                check_log(entries)
                accounted |= check_commands(entries, printed)
            assert accounted == set(printed), "something ran that is not on record"
        finally:
            truth.close()


async def run_kills(first_seed: int, count: int, *, at_once: int = 2, report: Callable[[int], None] | None = None) -> None:
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if report:
            report(done)

    async def work(number: int) -> None:
        with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
            seed = first_seed + number
            try:
                share = count // at_once + (1 if number < count % at_once else 0)
                await Rounds(seed, Path(folder)).run(share, one_more)
            except BaseException as error:
                error.add_note(f"kills of seed {seed}")
                raise

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(work(number))
