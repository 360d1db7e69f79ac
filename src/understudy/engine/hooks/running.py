"""Runs one hook's program: its input comes on standard input, its time and output are limited, and it ends with the turn at the
latest.

A hook from the user's own files runs with the user's rights, unless the model may write what it would run. A hook of a folder runs
in the sandbox, even if the conversation has none. Neither is given a key.
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace

from understudy.config.hooks.entries import Hook
from understudy.engine.hooks.answers import Ran
from understudy.protocol.choices import OutputStream
from understudy.sandbox.spec import NOT_EXECUTABLE, NOT_FOUND, Command, Containment, Limits
from understudy.tools.acts.dependencies import depended_on, run_by
from understudy.tools.acts.wildcards import TooWide
from understudy.tools.host import RunsCommands, ToolSettings

MOST_OUTPUT = 1024 * 1024  # bytes, of both streams together
MOST_PROCESSES = 512  # processes of one contained hook
GRACE_SECONDS = 0.2  # for processes that the hook left running
_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "CODEX_HOME"),
    # to show windows and notifications
    *("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS"),
)
_VARIABLE = re.compile(r'"\$(?:(\w+)|\{(\w+)\})"|\$(?:(\w+)|\{(\w+)\})')
_NOWHERE = "/dev/null"  # an empty folder


class _TooMuch(Exception):
    """The hook printed more than anybody would read."""


def words_of(hook: Hook) -> tuple[str, ...]:
    return ("/bin/sh", "-c", hook.command)


def spelled_out(hook: Hook, cwd: str) -> tuple[str, ...]:
    """The command's words with path variables filled in, to find the files it depends on."""
    known = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    known |= {"PWD": cwd, "CLAUDE_PROJECT_DIR": hook.file.folder or cwd}
    return ("/bin/sh", "-c", _VARIABLE.sub(lambda found: known.get(next(filter(None, found.groups())), found[0]), hook.command))


def scripts_of(hook: Hook) -> tuple[str, ...]:
    """Real paths of the files that the hook runs wherever it is started; empty if there are too many to tell."""
    try:
        return tuple(run_by(spelled_out(hook, _NOWHERE), _NOWHERE))
    except TooWide:
        return ()


def environment(hook: Hook, given: Mapping[str, str], cwd: str, conversation_id: str) -> dict[str, str]:
    """A short environment, taken from the one of the agent's commands, so it has no provider's key."""
    short = {name: given[name] for name in _VARIABLES if name in given}
    if hook.file.family == "claude":
        project = hook.file.folder or cwd
        short |= {"CLAUDE_PROJECT_DIR": project, "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": conversation_id}
        short |= {"CLAUDE_CODE_ENTRYPOINT": "understudy"}
    return short


def containment_of(hook: Hook, settings: ToolSettings, private_tmp: str, kept: Collection[str] = ()) -> Containment | None:
    """None: the hook runs with the user's rights. `kept`: scripts that are protected only because a hook runs them."""
    if hook.file.source == "user" and not _can_be_written(hook, settings, kept):
        return None
    given = settings.containment
    if given is None:
        given = Containment(
            mode="workspace-write",
            writable_roots=settings.roots,
            network="on",
            protected=settings.protected,
            masked=settings.places.masks.paths,
            workspace=settings.cwd,
            pinned=settings.places.pinned,
        )
    limits = given.limits
    fewer = MOST_PROCESSES if limits.processes is None else min(limits.processes, MOST_PROCESSES)
    return replace(given, private_tmp=private_tmp, limits=_with_processes(limits, fewer))


def _with_processes(limits: Limits, processes: int) -> Limits:
    return replace(limits, processes=processes, seconds=None)


def _can_be_written(hook: Hook, settings: ToolSettings, kept: Collection[str]) -> bool:
    """Whether the agent may write, now or in another mode, something that the hook runs: it could then be the model's own code."""
    if settings.containment is None:
        return False
    try:
        paths = map(os.path.realpath, depended_on(spelled_out(hook, settings.cwd), settings.cwd))
    except TooWide:
        return True
    return any(path in kept or settings.places.judge.place(path).place == "inside" for path in paths)


async def run_hook(
    hook: Hook,
    payload: bytes,
    *,
    sandbox: RunsCommands,
    cwd: str,
    env: dict[str, str],
    containment: Containment | None,
    owner: str,
) -> Ran:
    """Run a hook to its end. However this function is left, none of the hook's processes remains."""
    output: dict[OutputStream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def feed(stream: OutputStream, chunk: bytes) -> None:
        if sum(map(len, output.values())) + len(chunk) > MOST_OUTPUT:
            raise _TooMuch
        output[stream] += chunk

    began = asyncio.get_running_loop().time()
    source = _as_input(payload)
    try:
        if containment is not None and containment.private_tmp is not None:
            os.makedirs(containment.private_tmp, mode=0o700, exist_ok=True)
        command = Command(words_of(hook), cwd, env, hook.seconds, containment, input=source, owner=owner)
        command = replace(command, grace_seconds=GRACE_SECONDS)
        result = await sandbox.run(command, feed)
    except _TooMuch:
        seconds = asyncio.get_running_loop().time() - began
        return Ran(-1, problem=f"it printed more than {MOST_OUTPUT} bytes, and was ended", seconds=seconds)
    finally:
        os.close(source)
    problem = result.setup_error or result.lost or result.spawn_error or result.ended_because
    if result.timed_out:
        problem = f"hook timed out after {hook.seconds:g}s"
    elif result.limit is not None:
        problem = f"it went beyond its limit of {result.limit}, and was ended"
    elif result.exit_code in (NOT_FOUND, NOT_EXECUTABLE):
        problem = f"its program cannot be run (exit code {result.exit_code})"
    elif result.signal is not None:
        problem = f"it was ended by signal {result.signal}"
    stdout, stderr = (bytes(output[stream]).decode(errors="replace") for stream in ("stdout", "stderr"))
    return Ran(result.exit_code, stdout, stderr, problem, result.duration)


def _as_input(payload: bytes) -> int:
    """A descriptor to read the payload from, without a file that somebody else could change."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hook", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
