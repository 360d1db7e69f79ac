"""Two conversations with overlapping roots and a model that tries what chance tells it to, at once and again after restarts.

Whatever it renames, links, replaces, patches and reads, with forks and what the user undoes in between: no byte outside the
project changes, `.git` stays as it was, and nothing masked reaches the model, the client or the store.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import random
import shutil
import stat
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.golden_exec.play import PNG
from tests.security.house import ENV, NEVER, WITH_KEY, House, house
from tests.support.contents import contents
from understudy.testing import Answer, Entry, McpProcess, ReceivedRequest, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

SECRET = "MASKED-BYTES-OF-THE-HOUSE"
PICTURE = base64.b64encode(PNG).decode()[:60]
FEW, MANY = 4, 40
PATHS = (
    *(
        "x",
        "y",
        "y/z",
        "deep",
        "deep/er",
        "a.txt",
        "src",
        "secret.env",
        "conf",
        "conf/key",
        "conf/face.png",
        "AGENTS.md",
        "b/AGENTS.md",
    ),
    *("b", "b/inner", "b/inner/f", ".git", ".git/config", ".git/hooks/post-commit", ".codex", ".mcp.json", "b/.git", "later"),
)


class HostileModel(ScriptedModel):
    def __init__(self, seed: int, place: House) -> None:
        super().__init__(self._reply)
        self._random = random.Random(seed)
        self._place = place
        self._count = 0
        outside = (place.outside, place.outside / "kept.txt", place.home / ".ssh", place.home / ".ssh" / "id_ed25519")
        self._targets = [
            *map(str, outside),
            str(place.home),
            "/",
            "/tmp",
            "..",
            *PATHS,
            *(str(place.project / path) for path in PATHS),
        ]

    def _reply(self, request: ReceivedRequest) -> Entry:
        if self._random.random() < 0.3:
            return say("done")
        answer = self._act()
        for _ in range(self._random.randint(0, 2)):
            answer += self._act()
        return answer

    def _act(self) -> Answer:
        self._count += 1
        tool, arguments = self._random.choice((self._patch, self._patch, self._shell, self._shell, self._shell, self._files))()
        return call(tool, call_id=f"c{self._count}", arguments_text=json.dumps(arguments))

    def _path(self) -> str:
        path = self._random.choice(PATHS)
        return path if self._random.random() < 0.5 else str(self._place.project / path)

    def _shell(self) -> tuple[str, dict[str, Any]]:
        steps = [self._step() for _ in range(self._random.randint(1, 5))]
        arguments: dict[str, Any] = {"command": ["sh", "-c", "; ".join(steps)], "timeout": 20000}
        if self._random.random() < 0.15:
            arguments["workdir"] = self._random.choice(self._targets)
        return "shell", arguments

    def _step(self) -> str:
        first, second, target = self._path(), self._path(), self._random.choice(self._targets)
        return self._random.choice(
            (
                f"mv {first} {second}",
                f"mv -T {first} {second}",
                f"ln -s {target} {first}",
                f"rm -rf {first}; ln -sfn {target} {first}",
                f"ln {first} {second}",
                f"ln {target} {second}",
                f"cp -r {first} {second}",
                f"mkdir -p {first}",
                f"rm -rf {first}",
                f"chmod {self._random.choice(('0', '555', '777', '700'))} {first}",
                f"echo evil > {first}",
                f"echo evil >> {target}",
                f"cat {first} {target} {first}/* 2>/dev/null",
                f"mkdir -p {first} && echo evil > {first}/f",
                f"touch {target}/evil",
            )
        )

    def _files(self) -> tuple[str, dict[str, Any]]:
        """The tools that read and edit files, and a command that outlives its call."""
        path = self._random.choice((self._path(), self._random.choice(self._targets), self._path() + "/f"))
        return self._random.choice(
            (
                ("read_file", {"path": path}),
                ("search", {"pattern": self._random.choice((".", SECRET[:6])), "path": path}),
                ("search", {"pattern": SECRET[:6], "glob": "**/*"}),
                ("list_files", {"path": path, "depth": 4}),
                ("view_image", {"path": path}),
                ("edit_file", {"path": path, "old_text": self._random.choice(("evil", SECRET[:6])), "new_text": "edited"}),
                ("edit_file", {"path": path, "old_text": "", "new_text": "evil"}),
                ("exec_command", {"cmd": f"{self._step()}; sleep 0.05; {self._step()}", "yield_time_ms": 250}),
            )
        )

    def _patch(self) -> tuple[str, dict[str, Any]]:
        first, second = self._path(), self._path()
        if self._random.random() < 0.3:
            first = self._random.choice(self._targets) + "/evil"
        lines = self._random.choice(
            (
                (f"*** Add File: {first}", "+evil"),
                (f"*** Add File: {first}/new", "+evil"),
                (f"*** Delete File: {first}",),
                (f"*** Update File: {first}", "@@", "-evil", "+more evil"),
                (f"*** Update File: {first}", f"*** Move to: {second}", "@@", "-evil", "+moved"),
                (f"*** Update File: {first}", f"*** Move to: {second}", "@@", "+moved"),  # fits any file
            )
        )
        return "apply_patch", {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


class Siege:
    """The house under attack, and what must not change in it."""

    def __init__(self, place: House, seed: int) -> None:
        self.place = place
        self.inner = place.project / "b"
        self._random = random.Random(seed)
        self.inner.mkdir()
        (place.project / "conf").mkdir()
        for path in (place.project / "secret.env", place.project / "conf" / "key", place.home / ".ssh" / "id_ed25519"):
            path.write_text(f"{SECRET}\n")
        (place.home / ".ssh" / "face.png").write_bytes(PNG)
        (place.project / "conf" / "face.png").write_bytes(PNG)
        self.masks = [
            str(place.project / "secret.env"),
            str(place.project / "conf" / "key"),
            str(place.project / "conf" / "face.png"),
        ]
        self.masks.append(str(place.home / ".ssh"))
        self.settings: dict[str, Any] = {
            **WITH_KEY,
            **NEVER,
            "understudy.sandbox.mask": self.masks,
            "project_doc_max_bytes": 4096,
        }

    def kept(self) -> dict[str, str]:
        """Everything outside the project, its `.git` and what is masked in it: content, kind and mode of each."""
        project, state = str(self.place.project), str(self.place.settings / "understudy")
        inside = [str(self.place.project / ".git"), *self.masks[:3]]
        found: dict[str, str] = {}
        for top in (str(self.place.home), *inside):
            for folder, folders, files in os.walk(top):
                folders[:] = [name for name in folders if os.path.join(folder, name) not in (project, state)]
                for path in (os.path.join(folder, name) for name in (*folders, *files)):
                    found[path] = _fingerprint(path)
        return found | {path: _fingerprint(path) for path in inside}

    def put_back(self) -> bool:
        """The user makes the second conversation's folder anew where it is gone."""
        if self.inner.is_dir() and not self.inner.is_symlink():
            return False
        if self.inner.is_symlink() or self.inner.exists():
            self.inner.unlink()
        self.inner.mkdir()
        return True

    async def go(self, model: HostileModel, rounds: int) -> None:
        threads: dict[str, str | None] = {str(self.place.project): None, str(self.inner): None}
        while rounds > 0:
            async with self._server(model) as client:
                before = self.kept()
                for _ in range(self._random.randint(1, 3)):
                    rounds -= 1
                    await asyncio.gather(*(self._turn(client, cwd, threads) for cwd in threads))
                    await self._undo(client, threads)
                    await self._fork(client, threads)
                    assert self.kept() == before
                    assert SECRET not in json.dumps(client.frames)
                    assert SECRET not in json.dumps(model.requests)
                    assert PICTURE not in json.dumps(model.requests)
                    if self.put_back():
                        threads[str(self.inner)] = None
                assert SECRET not in client.stderr
                if self._random.random() < 0.5:
                    await client.kill()
        assert SECRET.encode() not in b"".join(contents(self.place.settings / "understudy").values())

    async def _undo(self, client: McpProcess, threads: dict[str, str | None]) -> None:
        """The user takes back what a turn has patched, from another process, whatever stands there now."""
        for thread in threads.values():
            if thread is not None and self._random.random() < 0.25:
                command = (sys.executable, "-m", "understudy", "undo", thread)
                env = {**os.environ, **ENV, "CODEX_HOME": str(self.place.settings), "HOME": str(self.place.home)}
                process = await asyncio.create_subprocess_exec(*command, cwd=self.place.home, env=env, stdout=DEVNULL, stderr=PIPE)
                _, said = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
                assert b"Traceback" not in said

    async def _fork(self, client: McpProcess, threads: dict[str, str | None]) -> None:
        for cwd, thread in threads.items():
            if thread is not None and self._random.random() < 0.2:
                result = await client.call_tool("conversationFork", conversation_id=thread)
                if not result["isError"]:
                    threads[cwd] = result["structuredContent"]["conversation_id"]

    def _server(self, model: HostileModel) -> McpProcess:
        return McpProcess(model.url, cwd=self.place.home, home=self.place.settings, config=self.settings, env=ENV)

    async def _turn(self, client: McpProcess, cwd: str, threads: dict[str, str | None]) -> None:
        thread = threads[cwd]
        if thread is None or self._random.random() < 0.2:
            result = await client.call_tool("codex", {"prompt": "go", "cwd": cwd})
        else:
            result = await client.call_tool("codex-reply", {"prompt": "go", "threadId": thread})
        content: dict[str, Any] = result.get("structuredContent") or {}
        threads[cwd] = content.get("threadId") or thread


def _fingerprint(path: str) -> str:
    status = os.lstat(path)
    content = hashlib.sha256(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
    return f"{status.st_mode:o} {os.readlink(path) if stat.S_ISLNK(status.st_mode) else content}"


async def besiege(seed: int, rounds: int) -> None:
    print(f"seed {seed}")
    with house() as place:
        siege = Siege(place, seed)
        model = HostileModel(seed, place)
        async with model.serving():
            await siege.go(model, rounds)
        _make_removable(place.home)


def _make_removable(folder: Path) -> None:
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o755)
    shutil.rmtree(folder / "project", ignore_errors=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_outside_changes_and_nothing_masked_is_told(seed: int) -> None:
    await besiege(seed, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(100, 106), None], ids=lambda seed: f"seed-{seed or 'by chance'}")
async def test_nothing_outside_changes_and_nothing_masked_is_told_in_the_long_run(seed: int | None) -> None:
    await besiege(random.SystemRandom().randrange(1 << 32) if seed is None else seed, MANY)
