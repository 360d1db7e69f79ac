"""The app server of codex and ours, as editors start them: what it costs until `initialize` is answered, and for turns."""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.client import BenchError
from benchmarks.model.process import Model
from benchmarks.peers import NEWEST_VERSION, find_exec_peers
from benchmarks.servers import ServerSpec, ours

SECONDS = 60.0
TURNS, COMMANDS = 20, 10
INFO = {"name": "benchmark", "title": "benchmark", "version": "0"}


@dataclass(frozen=True)
class AppServer:
    name: str
    spec: ServerSpec


@dataclass(frozen=True)
class Served:
    """Milliseconds of processor time, of the server and of what it waited for."""

    initialize: float
    first_turn: float  # since it was started
    reply: float
    command: float
    stream: float  # an answer in 10,000 pieces
    memory: float  # megabytes at the end


def app_servers(peers: Path) -> list[AppServer]:
    own = ours()
    codex = find_exec_peers(peers)[0]
    return [
        AppServer("understudy app-server", replace(own, command=(own.command[0], "app-server"))),
        AppServer(f"codex {NEWEST_VERSION} app-server", replace(codex, command=(codex.command[0], "app-server"))),
    ]


class _Talk:
    """Requests on its standard input, line by line."""

    def __init__(self, spec: ServerSpec, model: Model, folder: Path) -> None:
        home, self.work = folder / "home", folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        spec.write_config(home / ".codex", model)
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "CODEX_HOME": str(home / ".codex"), "NO_PROXY": "*"}
        self._process = subprocess.Popen(
            spec.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.work, env=env
        )
        self._count = 0
        self.tool = spec.tools[0]

    def send(self, method: str, params: dict[str, Any], until: str = "") -> dict[str, Any]:
        """Its result, once a notification of that name has come as well."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        line = json.dumps({"id": self._count, "method": method, "params": params})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        result: dict[str, Any] | None = None
        over = not until
        deadline = time.monotonic() + SECONDS
        while result is None or not over:
            said = self._process.stdout.readline()
            if not said or time.monotonic() > deadline:
                raise BenchError(f"no end of {method}")
            message = json.loads(said)
            over = over or message.get("method") == until
            if message.get("id") == self._count and "method" not in message:
                if "error" in message:
                    raise BenchError(f"{method}: {message['error']}")
                result = message["result"]
        return result

    def note_initialized(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b'{"method":"initialized"}\n')

    def turn(self, thread: str, directive: str) -> None:
        item = {"type": "text", "text": f"bench:{directive};"}
        self.send("turn/start", {"threadId": thread, "input": [item]}, "turn/completed")

    def used(self) -> float:
        """Milliseconds so far, with children that have ended."""
        return 1e3 * sum(_seconds(pid) for pid in processes.tree(self._process.pid))

    def memory(self) -> float:
        return processes.memory(self._process.pid).held

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = Path(f"/proc/{pid}/task").iterdir()
        now = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9  # finer than the ticks of `stat`
    except OSError:
        return 0.0
    return now + (int(fields[13]) + int(fields[14])) / processes.TICKS


def measure_server(server: AppServer, folder: Path) -> Served:
    with Model() as model:
        talk = _Talk(server.spec, model, folder)
        try:
            talk.send("initialize", {"clientInfo": INFO})
            initialize = talk.used()
            talk.note_initialized()
            thread = talk.send("thread/start", {"cwd": str(talk.work), "approvalPolicy": "never"})["thread"]["id"]
            talk.turn(thread, "say")
            first = talk.used()
            talk.turn(thread, f"run:{talk.tool}:true")
            time.sleep(2)  # what is loaded in the background
            reply = _each(talk, thread, "say", TURNS)
            command = _each(talk, thread, f"run:{talk.tool}:true", COMMANDS)
            stream = _each(talk, thread, "stream:10000:8", 1)
            return Served(initialize, first, reply, command, stream, talk.memory())
        finally:
            talk.close()


def _each(talk: _Talk, thread: str, directive: str, times: int) -> float:
    before = talk.used()
    for _ in range(times):
        talk.turn(thread, directive)
    time.sleep(0.1)
    return (talk.used() - before) / times


def servers_table(served: dict[str, Sequence[Served]] | dict[str, list[Served]]) -> list[str]:
    """Medians."""
    columns = ("`initialize`", "first turn", "a reply", "a command", "10,000 deltas")
    lines = [f"| CPU in ms | {' | '.join(columns)} | MB held |", "| --- |" + " --- |" * (len(columns) + 1)]
    for name, found in served.items():
        if not found:
            lines.append(f"| {name} | failed |" + " |" * len(columns))
            continue
        rows = zip(*(tuple(asdict(each).values()) for each in found), strict=True)
        lines.append(f"| {name} | " + " | ".join(f"{statistics.median(row):,.1f}" for row in rows) + " |")
    return lines
