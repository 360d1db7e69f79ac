"""Harm done to files of the home while servers are at work on it: nothing that they acknowledged is lost.

`python -m tests.soak harms --count 300` does many. Which file of a home as it stands then, how and when it is harmed, how many
servers there are, what they do, and how they end is drawn from the seed. As root, to take rights away from a file does nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

from tests.soak.busy_servers import Acknowledged, BusyServer, Door, Unanswered, Work, is_done
from tests.soak.runs import Report, each_plan
from tests.soak.truth import Truth, check_log
from tests.support.answered import answered
from understudy.errors import StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import TurnEnded, UserMessage
from understudy.testing import ReceivedRequest, ScriptedModel, ServerDied, say
from understudy.testing.script import Entry

HOWS = ("delete", "truncate", "cut", "replace by a copy", "replace by rubbish", "rename away and back", "rename away", "chmod")
STORE_FILES = ("conversations.db", "conversations.db-wal", "conversations.db-shm")
STATE = "understudy"  # the folder of the home that has them
KEPT = "/kept"  # in it: the second names of its files
BUSY = "turn running in another process"


class Done(NamedTuple):
    how: str
    name: str  # in the home


@dataclass
class Plan:
    """What is done. What it says is what a failure prints."""

    seed: int
    doors: list[Door]
    hows: list[str]
    pauses: list[float]  # before each of them, and while something is away
    after_calls: int  # before the first of them, of all servers together
    ends: str  # how the servers end
    newcomer: Door | None  # another server that comes before they end
    done: list[Done] = field(default_factory=list[Done])

    @classmethod
    def drawn(cls, seed: int) -> Plan:
        draw = random.Random(seed)
        hows: list[str] = draw.choices(HOWS, k=draw.choice([1, 1, 1, 2, 3]))
        return cls(
            seed=seed,
            doors=cast(list[Door], draw.choices(["pipe", "http"], [3, 1], k=draw.randint(1, 3))),
            hows=hows,
            pauses=[draw.choice([0, 0, 0.002, 0.02, 0.2]) * draw.random() for _ in hows],
            after_calls=draw.randint(0, 18),
            ends=draw.choice(["kill", "close", "terminate"]),
            newcomer=draw.choice([None, "pipe", "http", "pipe"]),
        )

    @property
    def destroys(self) -> bool:
        """Whether something was destroyed that stands nowhere else: the database itself, the folder, or a file and its double."""
        names = [each.name for each in self.done]
        cut = [each.name for each in self.done if each.how in ("truncate", "cut")]
        return (
            any(name.endswith("conversations.db") for name in cut)
            or any(each.name == STATE for each in self.done)
            or (any(name.endswith("-wal") for name in cut) and any(KEPT in name for name in names))
            or (any(KEPT in name for name in names) and any(name.startswith(f"{STATE}/conversations.db") for name in names))
        )

    @property
    def may_end_servers(self) -> bool:
        """Shared memory that is cut short the moment before SQLite looks at it ends the process: the kernel has it so."""
        return any(each.name.endswith("-shm") and each.how in ("truncate", "cut") for each in self.done)

    @property
    def breaks_seals(self) -> bool:
        return any(each.name.endswith("audit.key") for each in self.done)


def _answer(request: ReceivedRequest) -> Entry:
    return say(f"to {_last_prompt(request)}")


def _last_prompt(request: ReceivedRequest) -> str:
    content = [message["content"] for message in request.body["messages"] if message["role"] == "user"][-1]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Harm:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._random = random.Random(f"{plan.seed} files")
        self._model = ScriptedModel(_answer)
        self._home = folder / "user" / ".codex"
        self._work = folder / "work"
        self._home.mkdir(parents=True)
        self._work.mkdir()
        self._before = Acknowledged()  # or while it was done
        self._after = Acknowledged()
        self._calls = 0
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._stood_in: dict[Path, bytes] = {}  # what was put in the place of a file of the store

    async def run(self) -> None:
        plan = self._plan
        async with self._model.serving():
            servers = [BusyServer(door, self._home, self._work, self._model) for door in plan.doors]
            try:
                for server in servers:
                    await server.start()
                    await server.use_store()
                first = await servers[0].call("codex", {"prompt": "shared"})
                self._before.note(first, "shared")
                shared = first["structuredContent"]["threadId"]
                self._config = (self._home / "config.toml").read_bytes()
                (self._home / STATE / "tokens.toml").touch(mode=0o600)
                self._add_own_files()
                await servers[0].call("conversationsSearch", {"query": "shared"})  # which makes the index
                async with asyncio.TaskGroup() as group:
                    for number, server in enumerate(servers):
                        group.create_task(self._be_busy(server, Work(server, number, shared, plan.seed, self._before)))
                    await self._ready.wait()
                    for how, pause in zip(plan.hows, plan.pauses, strict=True):
                        await asyncio.sleep(pause)
                        await self._do(how, pause)
                    if plan.newcomer is not None:
                        await self._see_that_it_works("first", shared, plan.newcomer)
                    self._stop.set()
            finally:
                for server in servers:
                    await server.end(plan.ends)
            self._see_that_nothing_was_touched()
            for server in servers:
                assert "Traceback" not in server.stderr, server.stderr
            await self._see_that_it_works("second", shared, "pipe")
            await self._see_that_nothing_is_lost()

    def _add_own_files(self) -> None:
        """Of the user: what every turn looks at."""
        hook = {"hooks": [{"type": "command", "command": "true"}]}
        (self._home / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
        (self._home / "AGENTS.md").write_text("Be brief.\n")
        skill = self._home / "skills" / "some" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: some\ndescription: helps\n---\n")

    async def _be_busy(self, server: BusyServer, work: Work) -> None:
        """Until the harm is done, and a few calls more. Each call is answered, or its server is gone."""
        more = 4
        while more:
            more -= self._stop.is_set()
            try:
                await work.call_once()
            except ServerDied:
                if not self._plan.may_end_servers:
                    raise
                self._ready.set()
                return
            except Unanswered:
                if not self._is_token_harmed:  # a caller whose token does not hold any more is cut off
                    raise
            self._calls += 1
            if self._calls >= self._plan.after_calls:
                self._ready.set()

    # -- the harm

    async def _do(self, how: str, pause: float) -> None:
        name = self._random.choice(self._files())
        path = self._home / name
        self._plan.done.append(Done(how, name))
        aside = path.with_name(f"aside-{len(self._plan.done)}")
        try:
            if path.is_dir():
                await self._do_to_folder(how, path, aside, pause)
            else:
                await self._do_to_file(how, path, aside, pause)
        except FileNotFoundError:
            return  # the harm before was done to it, or it was only there for a moment

    def _files(self) -> list[str]:
        """All files and folders of the home as it stands; those of the store more than once."""
        found = [path.relative_to(self._home).as_posix() for path in sorted(self._home.rglob("*"))]
        found = [name for name in found if "aside" not in name]
        return found + 3 * [name for name in found if name in [f"{STATE}/{each}" for each in STORE_FILES]]

    async def _do_to_folder(self, how: str, path: Path, aside: Path, pause: float) -> None:
        match how:
            case "delete":
                shutil.rmtree(path, ignore_errors=True)
            case "rename away":
                path.rename(aside)
            case "chmod":
                path.chmod(0)
            case _:
                path.rename(aside)
                await asyncio.sleep(pause)
                if not path.exists():  # else a newcomer has made one
                    aside.rename(path)
                else:
                    self._plan.done.append(Done("rename away", self._plan.done[-1].name))

    async def _do_to_file(self, how: str, path: Path, aside: Path, pause: float) -> None:
        match how:
            case "delete":
                path.unlink()
                self._note_stands(path, None)
            case "truncate":
                os.truncate(path, 0)
            case "cut":
                os.truncate(path, self._random.randrange(path.stat().st_size + 1))
            case "replace by a copy":
                shutil.copy(path, aside)
                await asyncio.sleep(pause)
                self._note_stands(path, aside.read_bytes())
                aside.rename(path)
            case "replace by rubbish":
                aside.write_bytes(b"rubbish" * 3000)
                self._note_stands(path, aside.read_bytes())
                aside.rename(path)
            case "rename away and back":
                path.rename(aside)
                await asyncio.sleep(pause)
                aside.rename(path)
            case "rename away":
                path.rename(aside)
                self._note_stands(path, None)
            case _:
                path.chmod(0)

    def _note_stands(self, path: Path, content: bytes | None) -> None:
        """Nobody who had the store open may write there any more."""
        if path.parent.name == STATE and path.name in STORE_FILES and len(self._plan.hows) == 1:
            self._stood_in[path] = content or b""

    def _see_that_nothing_was_touched(self) -> None:
        """By servers that had other files open. A newcomer may have put things right before."""
        if self._plan.newcomer is None:
            for path, content in self._stood_in.items():
                assert (path.read_bytes() if path.exists() else b"") == content, f"{path.name} was written to"

    # -- what comes after it

    async def _see_that_it_works(self, word: str, shared: str, door: Door) -> None:
        (self._home / "config.toml").unlink(missing_ok=True)
        (self._home / "config.toml").write_bytes(self._config)
        server = BusyServer(door, self._home, self._work, self._model)
        try:
            await server.start()
        except ServerDied as error:
            if "Traceback" in str(error) or not (self._plan.destroys or (door == "http" and self._is_token_harmed)):
                raise
            return
        try:
            for prompt, thread in ((f"{word} new", None), (f"{word} shared", shared)):
                arguments = {"prompt": prompt} if thread is None else {"prompt": prompt, "threadId": thread}
                result = await server.call("codex" if thread is None else "codex-reply", arguments)
                if not self._plan.destroys and BUSY not in str(result):
                    assert is_done(result), (result, server.stderr)
                self._after.note(result, prompt)
            found = await server.call("conversationsSearch", {"query": f'"to {word} new"'})
            if not self._plan.destroys and not self._are_rights_harmed:
                assert found["structuredContent"]["hits"], (found, server.stderr)
        finally:
            await server.end("close" if door == "pipe" else "terminate")

    @property
    def _is_token_harmed(self) -> bool:
        return any("token" in each.name for each in self._plan.done)

    @property
    def _are_rights_harmed(self) -> bool:
        return os.geteuid() != 0 and any(each.how == "chmod" for each in self._plan.done)

    async def _see_that_nothing_is_lost(self) -> None:
        try:
            truth = Truth(self._home)
        except StoreError as error:
            if not self._plan.destroys or self._after.turns:
                raise AssertionError(f"the store cannot be opened: {error}") from error
            return
        try:
            if not self._plan.destroys:
                assert answered(truth.log.check()) == "ok"
                self._compare(truth, self._before)
            self._compare(truth, self._after)
        except StoreError as error:
            raise AssertionError(f"the store cannot be read: {error}") from error
        finally:
            truth.close()
        await self._see_that_it_is_called_whole()

    def _compare(self, truth: Truth, acknowledged: Acknowledged) -> None:
        for name, turns in acknowledged.turns.items():
            entries = answered(truth.log.read(ConversationId(name)))
            check_log(entries)
            sent = [entry.record.message.text() for entry in entries if isinstance(entry.record, UserMessage)]
            said = [entry.record.message for entry in entries if isinstance(entry.record, TurnEnded)]
            missing = [turn for turn in turns if turn[0] not in sent or turn[1] not in said]
            assert not missing, f"{missing} of {name} were acknowledged, and are lost: {sent} {said}"
            assert len(set(sent)) == len(sent), f"doubled in {name}: {sent}"

    async def _see_that_it_is_called_whole(self) -> None:
        verify = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "verify"),
            env={**os.environ, "CODEX_HOME": str(self._home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await verify.communicate()
        told = out.decode()
        if self._plan.breaks_seals and verify.returncode:  # what was sealed with the former key is called broken, and why
            assert "key" in told, told
        elif not self._plan.destroys:
            assert verify.returncode == 0, told


async def run_harms(first_seed: int, count: int, *, at_once: int = 2, report: Report | None = None) -> None:
    """Raises all failures together, each with its seed and what was done."""

    async def play(plan: Plan, folder: Path) -> None:
        await Harm(plan, folder).run()

    await each_plan("harms", first_seed, count, draw=Plan.drawn, play=play, at_once=at_once, report=report)
