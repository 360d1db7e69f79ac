"""Plays a recording against a server: its set-up, its scripted model, its client messages in causal order."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tomllib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tests.golden import modern, servers
from tests.golden.normalise import Placeholders, comparable_request, offered_tools
from tests.golden.recording import OUTPUT_DELTA, TEXT_DELTAS, Json, Recording, Step, fold_frames, join_deltas
from understudy.testing import McpProcess, ScriptedModel
from understudy.testing.waiting import WAIT_SECONDS, Watched

_LAST_PING = "the last ping"
_PATIENCE = 2 * WAIT_SECONDS  # a step may hold a retry, a time limit or a pause of the model


@dataclass
class ModelRequest:
    compared: Json
    tools: set[str]
    headers: Json


@dataclass
class Played:
    server: list[Step]
    model: list[ModelRequest]
    files: Json
    faults: list[str]  # frames that break JSON-RPC or MCP
    stalled: str | None  # what was waited for in vain


async def play(
    recording: Recording,
    base: Path,
    server: Sequence[str],
    *,
    check_frames: bool,
    pause: float = 0,
    by_arguments: bool = False,
    in_modern: bool = False,
) -> Played:
    """`pause` seconds pass before each client message: the recorded server is still busy for a moment after it has answered.

    `by_arguments`: the configuration is given as `-c` arguments, and there is no file. `in_modern`: with `wire = "modern"`.
    """
    names = Placeholders(base, server[0])
    work, home = _set_up(recording, base, names)
    watched = Watched()
    model = ScriptedModel(recording.model, watched=watched)
    async with model.serving():
        config = str(names.fill(servers.patient(recording.setup["config"]).replace("<port>", str(model.port)))) + (
            modern.SETTING if in_modern else ""
        )
        if not by_arguments:
            (home / "config.toml").write_text(config)
        client = McpProcess(
            cwd=work,
            home=home,
            command=server,
            args=as_arguments(tomllib.loads(config)) if by_arguments else (),
            env={"TMPDIR": "", **recording.setup.get("env", {})},
            initialize=False,
            check_frames=check_frames,
            watched=watched,
        )
        await client.start()
        try:
            stalled = await _Player(recording, client, model, names, watched).run(pause)
        finally:
            await client.kill()
    return _collect(client, model, names, work, stalled, twins=not in_modern)


def as_arguments(table: Json, prefix: str = "") -> list[str]:
    """A configuration as `-c` arguments: each value by its dotted key. JSON spells the values that occur as TOML does."""
    words: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            words += as_arguments(cast(Json, value), f"{prefix}{key}.")
        else:
            words += ["-c", f"{prefix}{key}={json.dumps(value, ensure_ascii=False)}"]
    return words


def _set_up(recording: Recording, base: Path, names: Placeholders) -> tuple[Path, Path]:
    work, home = base / "work", base / ".codex"
    work.mkdir()
    home.mkdir()
    for folder, key in ((work, "files"), (home, "home_files")):
        for name, content in recording.setup.get(key, {}).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else bytes(content))
    if "git" in recording.setup:
        subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    return work, home


class _Player:
    def __init__(
        self, recording: Recording, client: McpProcess, model: ScriptedModel, names: Placeholders, watched: Watched
    ) -> None:
        self._recording = recording
        self._client = client
        self._model = model
        self._names = names
        self._watched = watched

    async def run(self, pause: float) -> str | None:
        """Send the client's messages, each when all that was recorded before it has been seen. Returns what never came."""
        expected: Counter[Hashable] = Counter()
        try:
            for step in self._recording.steps:
                if step.kind == "client":
                    await self._see(expected)
                    await asyncio.sleep(pause)
                    await self._send(step.value)
                else:
                    _count(expected, _kind(step))
            await self._see(expected)
            self._client.request("ping", request_id=_LAST_PING)  # whatever was under way is out when this is answered
            await self._client.answer(_LAST_PING)
        except AssertionError as error:
            return str(error)
        return None

    async def _see(self, expected: Counter[Hashable]) -> None:
        def seen() -> bool | None:
            return expected <= self._seen() or None

        try:
            await self._watched.until(seen, "", _PATIENCE)
        except AssertionError as error:
            missing = ", ".join(f"{count} x {kind}" for kind, count in (expected - self._seen()).items())
            raise AssertionError(f"{error} {missing}\n{self._client.stderr}") from None

    def _seen(self) -> Counter[Hashable]:
        counter: Counter[Hashable] = Counter({"model": len(self._model.received)})
        for frame in self._client.frames:
            if frame.get("method") == "codex/event":
                kind = _kind(Step("event", frame["params"]))
            elif "method" in frame:
                kind = _kind(Step("request" if "id" in frame else "notification", frame))
            else:
                kind = _kind(Step("response", frame))
            _count(counter, kind)
        return counter

    async def _send(self, message: Json) -> None:
        if "_raw" in message:
            await self._client.send_raw(message["_raw"].encode())
            return
        if "method" not in message:
            asked = [frame["id"] for frame in self._client.frames if "method" in frame and "id" in frame]
            message = message | {"id": asked[message["id"]]}
        # ids are bound by what the server has sent so far
        self._names.name(self._client.frames)
        await self._client.send(self._names.fill(message))


def _kind(step: Step) -> Hashable:
    """What a step is, for waiting: enough to know that it has come, not what it says."""
    match step.kind:
        case "event":
            return "event", str(step.value.get("_meta", {}).get("requestId")), step.event
        case "response":
            return "response", repr(step.value.get("id"))
        case "model":
            return "model"
        case _:
            params = step.value.get("params", {})
            streamed = "msg" in params and "_meta" not in params  # else it may be the twin of a call's event
            return ("streamed", step.value["method"]) if streamed else step.value["method"]


def _count(counter: Counter[Hashable], kind: Hashable) -> None:
    is_delta = isinstance(kind, tuple) and kind[-1] in (*TEXT_DELTAS, OUTPUT_DELTA)
    counter[kind] = 1 if is_delta else counter[kind] + 1


def _collect(
    client: McpProcess, model: ScriptedModel, names: Placeholders, work: Path, stalled: str | None, *, twins: bool
) -> Played:
    frames = [frame for frame in client.frames if frame.get("id") != _LAST_PING]
    steps = [Step(step.kind, names.name(step.value)) for step in join_deltas(fold_frames(frames, twins=twins))]
    for count, step in enumerate(step for step in steps if step.kind == "request"):
        step.value["id"] = count  # each server counts its requests in its own way
    requests = [
        ModelRequest(
            comparable_request(names.name({"path": request.path, "body": request.body})),
            offered_tools({"body": request.body}),
            names.name(dict(request.headers)),
        )
        for request in model.received
    ]
    return Played(steps, requests, _read_files(work), client.frame_faults, stalled)


def _read_files(work: Path) -> Json:
    files: Json = {}
    # Not `rglob`: the empty folders that hold a place for a killed server's command go a moment later.
    for path in sorted(Path(folder, name) for folder, _, names in os.walk(work) for name in names):
        name = path.relative_to(work).as_posix()
        if path.is_file() and not name.startswith(".git/"):
            data = path.read_bytes()
            try:
                files[name] = data.decode()
            except UnicodeDecodeError:
                files[name] = list(data)
    return files
