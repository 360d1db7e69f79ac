"""Plays a recorded session of `codex app-server` with ours: the same files, configuration, requests and model."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests import golden
from tests.golden.servers import patient
from tests.golden_app_server.scripts import SCRIPTS
from tests.golden_exec.play import PNG
from tests.support.app_client import LineClient
from understudy.protocol.ids import new_uuid
from understudy.servers.app_server import turn_shape
from understudy.testing import CodexHome, ScriptedModel
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry

RECORDINGS = Path(__file__).parent / "recordings"
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
CONFIG = (
    'model = "gpt-5.5"\nmodel_provider = "mock"\n\n[model_providers.mock]\nname = "mock"\nbase_url = "http://127.0.0.1:<port>/v1"\n'
    'wire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
)

Json = dict[str, Any]


def names() -> list[str]:
    return sorted(path.stem for path in RECORDINGS.glob("*.json"))


def load(name: str) -> Json:
    recording = json.loads((RECORDINGS / f"{name}.json").read_text())
    recording.setdefault("setup", {"config": CONFIG, "git": False})
    if "stop" not in recording["session"][-1]:  # recorded beside a client, of whose end nothing is known
        recording["session"] = [step for begin in _processes(recording["session"]) for step in [*begin, {"stop": "eof", "exit": 0}]]
    return recording


def _processes(session: list[Json]) -> list[list[Json]]:
    starts = [number for number, step in enumerate(session) if "start" in step]
    return [session[begin:end] for begin, end in zip(starts, [*starts[1:], len(session)], strict=True)]


class Names:
    """What changes from run to run, and the names that stand for it in a recording."""

    def __init__(self, base: Path) -> None:
        self.base, self.cwd, self.home = base, base / "work", base / "user"
        self.port = 0
        self.ids: dict[str, str] = {}  # by the name in the recording

    def fill(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.fill(each) for each in cast(list[Any], value)]
        if isinstance(value, dict):
            return {key: self.fill(each) for key, each in cast(Json, value).items()}
        return self._fill_text(value) if isinstance(value, str) else value

    def _fill_text(self, text: str) -> str:
        places = {
            "<python>": sys.executable,
            "<tiny_mcp>": str(Path(golden.__file__).parent / "tiny_mcp.py"),
            "<CWD>": str(self.cwd),
            "<HOME>": str(self.home),
            "127.0.0.1:<port>": f"127.0.0.1:{self.port}",
        }
        for name, real in places.items():
            text = text.replace(name, real)
        return text

    def ids_in(self, value: Any) -> Any:
        """With ids for the names that stand for one: what the server said, or one that nobody knows."""
        text = json.dumps(value, default=str)
        return json.loads(re.sub(r"<uuid-\d+>", lambda found: self.ids.setdefault(found[0], new_uuid()), text))

    # -- learning

    def learn(self, wanted: Any, seen: Any) -> None:
        """Ids that stand in the same places."""
        if isinstance(wanted, dict) and isinstance(seen, dict):
            there = cast(Json, seen)
            for key, value in cast(Json, wanted).items():
                if key in there:
                    self.learn(value, there[key])
        elif isinstance(wanted, list) and isinstance(seen, list):
            for one, other in zip(cast(list[Any], wanted), cast(list[Any], seen), strict=False):
                self.learn(one, other)
        elif isinstance(wanted, str) and isinstance(seen, str) and re.fullmatch(r"<uuid-\d+>", wanted):
            self.ids.setdefault(wanted, seen)


@dataclass
class Played:
    messages: list[Json] = field(default_factory=list[Json])
    exits: list[int] = field(default_factory=list[int])
    asked: list[Json] = field(default_factory=list[Json])
    files: dict[str, str] = field(default_factory=dict[str, str])


async def play(name: str, recording: Json, base: Path) -> tuple[Played, Names]:
    names_ = Names(base)
    _set_up(recording, names_)
    played = Played()
    async with ScriptedModel(_Answers(SCRIPTS[name])) as model:
        names_.port = model.port
        home = CodexHome(names_.home / ".codex")
        (home.path / "config.toml").write_text(patient(names_.fill(recording["setup"]["config"])))
        steps = names_.fill(recording["session"])
        for process in _processes(steps):
            words = process[0]["start"][1:]
            client = LineClient([sys.executable, "-m", "understudy", *words], names_.cwd, home.environment({"TMPDIR": ""}))
            session = _Session(client, names_)
            async with client:
                await session.play(process[1:])
                played.exits.append(await _stop(client, process[-1]["stop"]))
            played.messages += session.told()
        played.asked = [request.body for request in model.received]
    played.files = {
        str(path.relative_to(names_.cwd)): path.read_bytes().decode(errors="replace")
        for path in sorted(Path(folder, name) for folder, _, files in os.walk(names_.cwd) for name in files)
        if path.is_file() and ".git" not in path.parts
    }
    return played, names_


async def _stop(client: LineClient, how: str) -> int:
    if how == "15":
        client.terminate()
        client.exit_code = await client.ended()
        return client.exit_code
    return await client.close()


def _set_up(recording: Json, names_: Names) -> None:
    (names_.home / ".codex").mkdir(parents=True)
    names_.cwd.mkdir()
    for path, text in recording["setup"].get("files", {}).items():
        file = names_.cwd / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(PNG if text == "<png>" else text.encode())
    if recording["setup"]["git"]:
        git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run([*git, *words], cwd=names_.cwd, check=True, capture_output=True)


class _Answers:
    def __init__(self, script: list[Json]) -> None:
        self._script = iter(script)

    def __call__(self, request: ReceivedRequest) -> Entry:
        return next(self._script, {"status": 400, "body": '{"error":{"message":"the script has no more answers"}}'})


class _Session:
    """One process: before each message of the client, what the recorded client had been told by then is waited for."""

    def __init__(self, client: LineClient, names_: Names) -> None:
        self._client = client
        self._names = names_
        self._ends = 0
        self._commands = 0
        self._is_told_again = False

    def told(self) -> list[Json]:
        """All that our server has said. What it repeats for a client that may listen late counts once: a clock says how often."""
        if not self._is_told_again:
            return self._client.messages
        told: list[Json] = []
        for message in self._client.messages:
            if message.get("method") not in turn_shape.REPEATED or message not in told:
                told.append(message)
        return told

    async def play(self, steps: list[Json]) -> None:
        for step in steps:
            if "server" in step and not step.get("late"):
                await self._expect(step["server"])
            elif "client" in step:
                if step["client"].get("method") == "initialize":
                    self._is_told_again = step["client"]["params"]["clientInfo"]["name"] in turn_shape.NAMES
                self._client.send(self._names.ids_in(step["client"]))
            elif "client_raw" in step:
                self._client.send_line(step["client_raw"])

    async def _expect(self, message: Json) -> None:
        if message.get("id") is not None:
            await self._expect_numbered(message)
        elif message.get("method") == "turn/completed":
            self._ends += 1
            await self._nth(self._ends, lambda seen: seen.get("method") == "turn/completed", "turn/completed")
        elif message.get("method") == "item/started" and message["params"]["item"]["type"] == "commandExecution":
            self._commands += 1
            await self._nth(self._commands, _is_command, "a command")

    async def _expect_numbered(self, message: Json) -> None:
        wanted = self._names.ids_in(message["id"])
        asks = "method" in message
        seen = await self._client.until(
            lambda seen: seen.get("id") == wanted and ("method" in seen) == asks, f"{'question' if asks else 'answer'} {wanted}"
        )
        self._names.learn(message, seen)

    async def _nth(self, number: int, fits: Callable[[Json], bool], what: str) -> None:
        await self._client.until(lambda _: sum(map(fits, self.told())) >= number, f"{what} {number}")


def _is_command(message: Json) -> bool:
    return message.get("method") == "item/started" and message["params"]["item"]["type"] == "commandExecution"
