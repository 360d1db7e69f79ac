"""Plays a recorded run of `codex exec` with ours: the same files, configuration, arguments, input and model."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import golden
from tests.golden.servers import patient
from understudy.testing import CodexHome, ScriptedModel
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

RECORDINGS = Path(__file__).parent / "recordings"
LONGEST = 4 * WAIT_SECONDS
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)

Json = dict[str, Any]

FIRST_SESSION = "1001"  # the number of a conversation's first command that outlives its call


def names() -> list[str]:
    return sorted(path.stem for path in RECORDINGS.glob("*.json"))


def load(name: str) -> Json:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


@dataclass
class PlayedStep:
    exit: int
    events: list[Json]
    text: str  # standard output that is no JSON
    asked: list[Json]
    err: str = ""


@dataclass
class Played:
    steps: list[PlayedStep] = field(default_factory=list[PlayedStep])
    files: dict[str, str] = field(default_factory=dict[str, str])
    other_dirs: dict[str, Any] = field(default_factory=dict[str, Any])


class Names:
    """What changes from run to run, and the names that stand for it in a recording."""

    def __init__(self, base: Path) -> None:
        self.base, self.cwd, self.home = base, base / "work", base / "user"
        self.ids: dict[str, str] = {}
        self.port = 0

    def fill(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.fill(each) for each in value]  # pyright: ignore
        if isinstance(value, dict):
            return {key: self.fill(each) for key, each in value.items()}  # pyright: ignore
        if not isinstance(value, str):
            return value
        for name, real in self._places():
            value = value.replace(name, real)
        return re.sub(r"<uuid-(\d+)>", lambda found: self._id(found[0]), value)

    def hide(self, text: str) -> str:
        for name, real in self._places():
            text = text.replace(real, name)
        for name, real in self.ids.items():
            text = text.replace(real, name)
        return text

    def learn(self, thread: str) -> None:
        if thread not in self.ids.values():
            self.ids[f"<uuid-{len(self.ids) + 1}>"] = thread

    def _places(self) -> list[tuple[str, str]]:
        places = [("<python>", sys.executable), ("<tiny_mcp>", str(Path(golden.__file__).parent / "tiny_mcp.py"))]
        places += [("<CWD>", str(self.cwd)), ("<HOME>", str(self.home)), ("<BASE>", str(self.base))]
        return [*places, ("127.0.0.1:<port>", f"127.0.0.1:{self.port}")] if self.port else places

    def _id(self, name: str) -> str:
        return self.ids.setdefault(name, "00000000-0000-4000-8000-00000000000" + name[6])


async def play(recording: Json, base: Path) -> Played:
    names_ = Names(base)
    _set_up(recording, names_)
    played = Played()
    for step in recording["steps"]:
        played.steps.append(await _play_step(step, recording, names_))
    played.files = dict(_files(names_.cwd))
    played.other_dirs = {
        folder.name: dict(_files(folder)) for folder in sorted(base.iterdir()) if folder not in (names_.cwd, names_.home)
    }
    return played


def _set_up(recording: Json, names_: Names) -> None:
    setup = recording["setup"]
    for folder in ("work", "user/.codex", "a", "b", "other"):
        (names_.base / folder).mkdir(parents=True)
    for path, text in setup.get("files", {}).items():
        _write(names_.cwd / path, text)
    for path, text in setup.get("home_files", {}).items():
        _write(names_.home / path, text)
    if setup["git"]:
        git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run([*git, *words], cwd=names_.cwd, check=True, capture_output=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PNG if text == "<png>" else text.encode())


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for place, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in files:
            path = Path(place) / name
            yield str(path.relative_to(folder)), path.read_bytes().decode(errors="replace")


async def _play_step(step: Json, recording: Json, names_: Names) -> PlayedStep:
    answers = _Answers(step.get("model", []), names_)
    async with ScriptedModel(answers) as model:
        names_.port = model.port if "model" in step else 9  # where nobody listens
        config = patient(names_.fill(recording["setup"]["config"]))
        (names_.home / ".codex" / "config.toml").write_text(config)
        argv = [sys.executable, "-m", "understudy", *names_.fill(step["argv"])[1:]]
        env = CodexHome(names_.home / ".codex").environment({"TMPDIR": "", **names_.fill(step.get("env", {}))})
        if "terminal" in step:
            exit_, out, err = await asyncio.to_thread(_run_in_terminal, argv, names_.cwd, env)
        else:
            exit_, out, err = await _run(argv, step, names_, env, model)
        asked = [_asked(request, names_) for request in model.received]
    events, text = _read(out, names_)
    return PlayedStep(exit_, events, text, asked, names_.hide(err))


class _Answers:
    def __init__(self, script: list[Json], names_: Names) -> None:
        self._script = [names_.fill(translate(entry)) for entry in script]
        self._next = 0

    def __call__(self, request: ReceivedRequest) -> Entry:
        if self._next >= len(self._script):
            return {"status": 400, "body": '{"error":{"message":"the script has no more answers"}}'}
        entry = self._script[self._next]
        if not entry.get("forever"):
            self._next += 1
        return entry


async def _run(argv: list[str], step: Json, names_: Names, env: dict[str, str], model: ScriptedModel) -> tuple[int, bytes, str]:
    given: str | None = step.get("stdin")
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=names_.cwd,
        env=env,
        limit=1 << 24,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if process.stdin is not None and given is not None and given != "<open>":
            process.stdin.write(_bytes(given))
            process.stdin.close()
        err = asyncio.ensure_future(process.stderr.read())
        out, sent = b"", False
        async with asyncio.timeout(LONGEST):
            async for line in process.stdout:
                out += line
                if not sent and "signal" in step and step["signal"]["after"].encode() in line:
                    sent = True
                    await _until_busy(step, model, names_.cwd)
                    process.send_signal(signal.Signals[step["signal"]["send"]])
            code = await process.wait()
            return code, out, (await err).decode(errors="replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if process.stdin is not None:
            process.stdin.close()


async def _until_busy(step: Json, model: ScriptedModel, cwd: Path) -> None:
    """The signal is to meet the silent model, or the command in its sleep."""
    if step["signal"]["after"] != "command_execution":
        await model.next_request(1)
        return
    while not any(_sleeps_in(process, cwd) for process in Path("/proc").iterdir() if process.name.isdecimal()):  # noqa: ASYNC110
        await asyncio.sleep(0.02)  # within the bound of the whole run


def _sleeps_in(process: Path, cwd: Path) -> bool:
    try:
        return (process / "cmdline").read_bytes().startswith(b"sleep\0") and (process / "cwd").readlink() == cwd
    except OSError:  # it is gone, or somebody else's
        return False


def _run_in_terminal(argv: list[str], cwd: Path, env: dict[str, str]) -> tuple[int, bytes, str]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env={**env, "TERM": "xterm-256color", "COLUMNS": "100"}
    )
    os.close(theirs)
    out = b""
    try:
        while chunk := _read_terminal(ours):
            out += chunk
        return process.wait(LONGEST), b"", out.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _bytes(given: str) -> bytes:
    found = re.fullmatch(r"<\d+ bytes: ([0-9a-f]+)…>", given)
    return bytes.fromhex(found[1]) if found else given.encode()


def _read(out: bytes, names_: Names) -> tuple[list[Json], str]:
    events: list[Json] = []
    text = ""
    for line in out.decode(errors="surrogateescape").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            text += names_.hide(line) + "\n"
            continue
        if event["type"] == "thread.started":
            names_.learn(event["thread_id"])
        events.append(json.loads(names_.hide(line)))
    return events, text


def _asked(request: ReceivedRequest, names_: Names) -> Json:
    texts = [
        names_.hide(part["text"])
        for entry in request.body.get("input", [])
        if entry.get("role") == "user"
        for part in entry["content"]
        if part["type"] == "input_text"
    ]
    return {"model": request.body.get("model"), "user": [text for text in texts if not text.startswith("<environment_context>")]}


# -- the model's calls of tools that have other names here


def translate(entry: Json) -> Json:
    if "events" not in entry:
        return entry
    return {**entry, "events": [_translate_event(event) for event in entry["events"]]}


def _decoded(arguments: str) -> Json | None:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def _translate_event(event: Json) -> Json:
    item = event.get("item", {})
    if item.get("type") != "function_call":
        return event
    if item["name"] == "write_stdin":
        return {**event, "item": {**item, "arguments": item["arguments"].replace("<n>", FIRST_SESSION)}}
    if item["name"] == "exec_command":
        given = _decoded(item["arguments"])
        if given is None:
            return {**event, "item": {**item, "name": "shell"}}
        if "yield_time_ms" in given:  # it may outlive its call, as ours of that name
            return event
        ours: Json = {"command": ["bash", "-lc", given["cmd"]]}
        if "workdir" in given:
            ours["workdir"] = given["workdir"]
        if given.get("sandbox_permissions") == "require_escalated":
            ours |= {"with_escalated_permissions": True, "justification": given.get("justification", "")}
        return {**event, "item": {**item, "name": "shell", "arguments": json.dumps(ours)}}
    return event
