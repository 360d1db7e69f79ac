"""Runs git for a workspace, so that a repository is data and never a program.

No hook, filter, file system monitor, pager, editor or helper that a repository names is run. Repositories are reached only by
https, http, ssh or, if so named, by their path; nobody is asked for a password. Every run has a time limit and an output limit. If
the server is root, git has the rights of the workspace's owner.
"""

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from understudy.errors import WorkspaceFailed
from understudy.sandbox.starting import signal_group, start_process

MOST_OUTPUT = 64 * 1024 * 1024
LOCAL_SECONDS = 120.0
_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"}
)
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_ALWAYS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.pager": "cat",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "diff.ignoreSubmodules": "all",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    "transfer.bundleURI": "false",
    "credential.interactive": "false",
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.http.allow": "always",
    "protocol.ssh.allow": "always",
}
_USERINFO = re.compile(r"(://)[^/@\s]+@")
_WORDS_KEPT = 600


class Reach(NamedTuple):
    """How far git may reach. `network`: with the user's own git settings, which name proxies and password helpers."""

    network: bool = False
    paths: bool = False  # repositories of this machine, by their path


class Pipes(NamedTuple):
    """Descriptors that git reads from and prints to."""

    stdin: int = asyncio.subprocess.DEVNULL
    stdout: int = asyncio.subprocess.PIPE


ALONE = Reach()
NO_PIPES = Pipes()
GIT = ("git", "--no-pager", "--no-replace-objects")


class Git:
    """Git for one folder. `owner`: the user and group as whom root runs it in somebody else's folder."""

    def __init__(self, cwd: str, env: Mapping[str, str], owner: tuple[int, int] | None = None, most_mb: int = 0) -> None:
        self._cwd = cwd
        self.env = env
        self._owner = owner
        self._most_mb = most_mb

    async def run(
        self,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        reach: Reach = ALONE,
        given: bytes | None = None,
        seconds: float = LOCAL_SECONDS,
        allowed: Sequence[int] = (0,),
        pipes: Pipes = NO_PIPES,
    ) -> bytes:
        """Returns the output. Raises `WorkspaceFailed`; when cancelled, none of its processes remains."""
        pipes = Pipes(asyncio.subprocess.PIPE, pipes.stdout) if given is not None else pipes
        async with self._started((*GIT, *arguments), variables, reach, pipes) as process:
            return await _outcome(process, f"git {arguments[0]}", given, seconds, allowed)

    async def run_shell(self, script: str, seconds: float = LOCAL_SECONDS) -> None:
        """Run commands of ours with git's rights."""
        async with self._started(("sh", "-euc", script), None, ALONE, NO_PIPES) as process:
            await _outcome(process, "the shell", None, seconds, (0,))

    def started(
        self, *arguments: str, variables: Mapping[str, str] | None = None, reach: Reach = ALONE
    ) -> "AbstractAsyncContextManager[asyncio.subprocess.Process]":
        """A run whose output is read as it is printed. When the block ends, the run and everything it started have ended."""
        return self._started((*GIT, *arguments), variables, reach, NO_PIPES)

    @asynccontextmanager
    async def _started(
        self, argv: tuple[str, ...], variables: Mapping[str, str] | None, reach: Reach, pipes: Pipes
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        options: dict[str, object] = {} if self._owner is None else _rights_of(self._owner)
        if self._most_mb:
            argv = ("sh", "-c", f'ulimit -f {self._most_mb * 2048}; exec "$@"', "git", *argv)
        try:
            process = await start_process(
                *argv,
                stdin=pipes.stdin,
                stdout=pipes.stdout,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._cwd,
                env=environment(self.env, reach) | dict(variables or {}),
                **options,
            )
        except FileNotFoundError:
            missing = "its folder is gone" if not is_folder(self._cwd) else "git is not installed on this host"
            raise WorkspaceFailed(f"git cannot be run: {missing}") from None
        except OSError as error:
            raise WorkspaceFailed(f"git cannot be run: {error.strerror}") from None
        try:
            yield process
        finally:
            signal_group(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())


async def _outcome(
    process: asyncio.subprocess.Process, name: str, given: bytes | None, seconds: float, allowed: Sequence[int]
) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            out, err = await _communicate(process, given)
    except TimeoutError:
        raise WorkspaceFailed(f"{name} took longer than {seconds:g} s, and was ended") from None
    if process.returncode not in allowed:
        raise WorkspaceFailed(f"{name}: {_said(err, process.returncode)}")
    return out


async def carry(source: Git, target: Git, revisions: bytes, pack: int, variables: Mapping[str, str], seconds: float) -> None:
    """Transfer objects between two repositories, neither of which may act in the other's folder. `pack`: an empty file."""
    packing = ("pack-objects", "--revs", "--stdout", "-q")
    await source.run(*packing, given=revisions, pipes=Pipes(stdout=pack), seconds=seconds)
    os.lseek(pack, 0, os.SEEK_SET)
    await target.run("index-pack", "--stdin", pipes=Pipes(stdin=pack), variables=variables, seconds=seconds)


def environment(env: Mapping[str, str], reach: Reach = ALONE) -> dict[str, str]:
    """Git's environment variables: none that could hold a secret of ours, and none that would steer git."""
    chosen = {name: value for name, value in env.items() if name in _KEPT or name.lower() in _PROXIES}
    settings = dict(_ALWAYS)
    if reach.paths:
        settings["protocol.file.allow"] = "always"
    if not reach.network:
        for name in ("GIT_SSH", "GIT_SSH_COMMAND", "SSH_AUTH_SOCK"):
            chosen.pop(name, None)
        chosen |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for number, (key, value) in enumerate(settings.items()):
        chosen |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    chosen |= {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_TERMINAL_PROMPT": "0", "GIT_PROTOCOL_FROM_USER": "1"}
    chosen |= {"GIT_ASKPASS": "", "SSH_ASKPASS": "", "SSH_ASKPASS_REQUIRE": "never", "GIT_NO_LAZY_FETCH": "1"}
    return chosen | {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_EDITOR": "true", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def is_folder(path: str) -> bool:
    return os.path.isdir(path)


def without_secrets(text: str) -> str:
    return _USERINFO.sub(r"\1***@", text)


def _rights_of(owner: tuple[int, int]) -> dict[str, object]:
    return {"user": owner[0], "group": owner[1], "extra_groups": []}


async def _communicate(process: asyncio.subprocess.Process, given: bytes | None) -> tuple[bytes, bytes]:
    assert process.stderr is not None
    feeding = asyncio.create_task(_feed(process, given))
    try:
        out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
        await process.wait()
    finally:
        feeding.cancel()
    return out, err


async def _feed(process: asyncio.subprocess.Process, given: bytes | None) -> None:
    if process.stdin is None or given is None:
        return
    try:
        process.stdin.write(given)
        await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError):  # the program's own output says why
        pass


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    if stream is None:
        return b""
    chunks: list[bytes] = []
    left = MOST_OUTPUT
    while chunk := await stream.read(1 << 18):
        left -= len(chunk)
        if left < 0:
            raise WorkspaceFailed(f"git printed more than {MOST_OUTPUT >> 20} MB, and was ended")
        chunks.append(chunk)
    return b"".join(chunks)


def _said(err: bytes, code: int | None) -> str:
    lines = [line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
    if code is not None and code < 0 and not told:
        return "it was ended, perhaps because a file grew beyond `workspace_mb`"
    return without_secrets("; ".join(told))[:_WORDS_KEPT] or f"it failed with code {code}"
