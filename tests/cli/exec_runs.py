"""`understudy exec` as a child process beside a scripted model: its events, and what else can be seen of a run."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.testing import CodexHome, ScriptedModel
from understudy.testing.waiting import WAIT_SECONDS

COMMAND = (sys.executable, "-m", "understudy")
LONGEST = 4 * WAIT_SECONDS


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def items(self) -> list[dict[str, Any]]:
        """Those that were completed."""
        return [event["item"] for event in self.events if event["type"] == "item.completed"]

    @property
    def thread(self) -> str:
        return self.events[0]["thread_id"]

    @property
    def failure(self) -> str:
        return self.events[-1]["error"]["message"]


@dataclass(frozen=True)
class Exec:
    """A place to run it in. `home` holds the configuration and the store, `cwd` is where it works."""

    home: CodexHome
    cwd: Path

    async def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int = asyncio.subprocess.PIPE,
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.cwd,
            env=self.home.environment(env),
            limit=1 << 24,
        )

    async def run(self, *words: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Run:
        """To its end. Without `stdin` there is none."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        process = await self.start(*words, env=env, stdin=None if data is None else asyncio.subprocess.PIPE)
        return await finish(process, data)

    async def json(self, *words: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Run:
        """With events, wherever it stands."""
        return await self.run("exec", "--json", "--skip-git-repo-check", *words, stdin=stdin, env=env)


async def finish(process: asyncio.subprocess.Process, data: bytes | None = None) -> Run:
    try:
        async with asyncio.timeout(LONGEST):
            out, err = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Run(process.returncode, out.decode(errors="surrogateescape"), err.decode(errors="surrogateescape"))


async def next_event(process: asyncio.subprocess.Process, wanted: str) -> dict[str, Any]:
    """Read on to the first event of that type, or item of that type."""
    assert process.stdout is not None
    async with asyncio.timeout(LONGEST):
        while line := await process.stdout.readline():
            event = json.loads(line)
            if wanted in (event["type"], event.get("item", {}).get("type")):
                return event
    raise AssertionError(f"no {wanted} came")


def place(model: ScriptedModel, tmp_path: Path, config: Mapping[str, Any] | None = None) -> Exec:
    """With a configuration that leaves sandbox and approvals to `exec`."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    home = CodexHome(tmp_path / "user" / ".codex", model, wire="responses", config=config)
    file = home.path / "config.toml"
    kept = [line for line in file.read_text().splitlines() if (config and _key(line) in config) or not _is_chosen_by_exec(line)]
    file.write_text("\n".join(kept) + "\n")
    return Exec(home, work)


def _key(line: str) -> str:
    return line.partition(" = ")[0]


def _is_chosen_by_exec(line: str) -> bool:
    return _key(line) in ("approval_policy", "sandbox_mode")


def item(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"item_{number}", "type": kind, **fields}
