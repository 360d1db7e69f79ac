"""A stage for the probes: a workspace, things outside it that must not be touched, and processes that must not be reached."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from understudy.testing.waiting import WAIT_SECONDS

PLAIN_UID = 12345
PROTECTED = [".git", ".codex", ".agents", ".mcp.json", ".linked", "nested/kept"]
LIBRARY = Path(__file__).parents[2] / "src"
DRIVER = Path(__file__).with_name("driver.py")
PROBES = Path(__file__).with_name("probes.py")
HOBBLED = Path(__file__).with_name("hobbled.py")

_VICTIM = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
secret = ctypes.create_string_buffer(b"VICTIM")
_, terminal = os.openpty()
path = "/dev/shm/understudy-victim-%d" % os.getpid()
open(path, "w").close()
os.chmod(path, 0o600)
shm = libc.shmget(0, 4096, 0o1600)
print(ctypes.addressof(secret), shm, os.ttyname(terminal), path, flush=True)
sys.stdin.read()
libc.shmctl(shm, 0, None)
os.unlink(path)
"""


@dataclass
class Arena:
    folder: Path
    uid: int  # who owns the workspace and everything around it
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def workspace(self) -> Path:
        return self.folder / "parent" / "workspace"

    def containment(self, **changes: object) -> dict[str, Any]:
        return {
            "mode": "workspace-write",
            "writable_roots": [str(self.workspace)],
            "network": "off",
            "masked": [str(self.folder / "home" / ".secrets")],
            "protected": PROTECTED,
            "private_tmp": str(self.folder / "private"),
            "workspace": str(self.workspace),
            **changes,
        }


def plain_python() -> str:
    """An interpreter that a plain user can read, or the test is skipped."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        if _runs_as(candidate, PLAIN_UID if os.geteuid() == 0 else os.geteuid()):
            return candidate
    pytest.skip("no Python of 3.11 or newer is readable to a plain user")


def _runs_as(program: str, uid: int) -> bool:
    check = [program, "-I", "-c", "import sys, ctypes; sys.exit(sys.version_info < (3, 11))"]
    try:
        with subprocess.Popen(check, **as_user(uid), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}) as process:
            return process.wait(WAIT_SECONDS) == 0
    except OSError:
        return False


def as_user(uid: int) -> dict[str, Any]:
    """Arguments for subprocess that make it run as `uid`."""
    if uid == os.geteuid():
        return {}
    return {"user": uid, "group": uid, "extra_groups": []}


@contextmanager
def arena(uid: int) -> Generator[Arena]:
    """A fresh stage whose files belong to `uid`, removed afterwards."""
    with ExitStack() as stack:
        # Not under /tmp, which is empty inside: what lies outside must be seen there to prove that it is safe.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp", prefix="arena-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        stage = Arena(folder, uid)
        _furnish(stage)
        _listen(stage, stack)
        _give(folder, uid)
        if os.geteuid() == 0:
            program = folder / "suid-id"
            shutil.copy("/usr/bin/id", program)
            os.chown(program, 0, 0)
            program.chmod(0o4755)
            stage.facts["setuid_program"] = str(program)
        _start_victim(stage, stack)
        yield stage


def _furnish(stage: Arena) -> None:
    folder, workspace = stage.folder, stage.workspace
    outside, home = folder / "parent" / "outside", folder / "home"
    for path in (workspace / ".git" / "hooks", outside, home / ".secrets", folder / "private", workspace / "nested" / "kept"):
        path.mkdir(parents=True)
    (folder / "private").chmod(0o700)
    (workspace / ".git" / "config").write_text("[core]\n")
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (workspace / ".linked").symlink_to("nested/kept")
    for name in ("victim", "to-unlink", "to-rename"):
        (outside / name).write_text("untouched content")
    os.mkfifo(outside / "pipe")
    (home / ".secrets" / "key").write_text("TOP SECRET")
    stage.facts |= {
        "workspace": str(workspace),
        "workspace_parent": str(workspace.parent),
        "outside": str(outside),
        "home": str(home),
        "victim_file": str(outside / "victim"),
        "secret_file": str(home / ".secrets" / "key"),
        "setuid_program": "",
    }
    shutil.copytree(LIBRARY, folder / "library", ignore=shutil.ignore_patterns("__pycache__"))
    for script in (DRIVER, PROBES, HOBBLED):
        shutil.copy(script, folder / script.name)


def _give(folder: Path, uid: int) -> None:
    if uid == os.geteuid():
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


def _listen(stage: Arena, stack: ExitStack) -> None:
    """Servers outside the sandbox, on everything a command might reach them by."""
    tcp4 = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    tcp6 = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    abstract.bind("\0" + stage.folder.name)
    stream = stack.enter_context(socket.socket(socket.AF_UNIX))
    stream.bind(str(stage.folder / "parent" / "outside" / "stream.sock"))
    datagram = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    datagram.bind(str(stage.folder / "parent" / "outside" / "dgram.sock"))
    reader = os.open(stage.folder / "parent" / "outside" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    stack.callback(os.close, reader)
    for listener in (abstract, stream):
        listener.listen(64)
    answerer = threading.Thread(target=_answer, args=(udp,), daemon=True)
    answerer.start()
    stack.callback(answerer.join, 5)
    stack.callback(_stop_answering, udp.getsockname())
    stage.facts |= {
        "tcp4_port": tcp4.getsockname()[1],
        "tcp6_port": tcp6.getsockname()[1],
        "udp_port": udp.getsockname()[1],
        "abstract_name": stage.folder.name,
        "unix_stream": stream.getsockname(),
        "unix_dgram": datagram.getsockname(),
    }


def _answer(endpoint: socket.socket) -> None:
    while True:
        message, sender = endpoint.recvfrom(10)
        if message == b"stop":
            return
        endpoint.sendto(b"heard", sender)


def _stop_answering(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.sendto(b"stop", address)


def _start_victim(stage: Arena, stack: ExitStack) -> None:
    process = stack.enter_context(
        subprocess.Popen(
            [plain_python(), "-I", "-c", _VICTIM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"VICTIM_SECRET": "x"},
            **as_user(stage.uid),
        )
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stack.callback(process.stdin.close)
    address, shm, terminal, shared = process.stdout.readline().split()
    stage.facts |= {
        "victim_pid": process.pid,
        "victim_address": int(address),
        "shm_id": int(shm),
        "terminal": terminal,
        "shared_memory": shared,
    }


def drive(
    stage: Arena,
    commands: Sequence[tuple[list[str], dict[str, Any] | None]],
    *,
    uid: int,
    rung: str | None = None,
    wrapper: tuple[str, ...] = (),
    waiting: bool = False,
) -> list[dict[str, Any]]:
    """Run commands (argv, containment) by a server that is `uid`; returns exit code, output and set-up error of each.

    `wrapper` are words put before the server's command line; `waiting`: each but the first is run by a cell that waited for it.
    """
    request = {
        "library": str(stage.folder / "library"),
        "arena": stage.facts,
        "arena_file": str(stage.folder / "arena.json"),
        "rung": rung,
        "commands": [
            {
                "argv": argv,
                "cwd": str(stage.workspace),
                "env": {"PATH": "/usr/bin:/bin", "HOME": str(stage.folder / "home")},
                "timeout": 60,
                "containment": containment,
                "waiting": waiting and number > 0,
            }
            for number, (argv, containment) in enumerate(commands)
        ],
    }
    done = subprocess.run(
        [*wrapper, plain_python(), "-I", str(stage.folder / "driver.py")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"SERVER_SECRET": "x", "PATH": "/usr/bin:/bin"},
        **as_user(uid),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def probe(
    stage: Arena,
    containment: dict[str, Any] | None,
    *names: str,
    uid: int,
    rung: str | None = None,
    wrapper: tuple[str, ...] = (),
) -> dict[str, tuple[str, str]]:
    """Run the probes in one command, on the full rung in a cell that waited for it; returns outcome and how, by name."""
    argv = [plain_python(), "-I", str(stage.folder / "probes.py"), str(stage.folder / "arena.json"), *names]
    waiting = rung == "full" and containment is not None
    commands = [(["true"], containment), (argv, containment)] if waiting else [(argv, containment)]
    *_, answer = drive(stage, commands, uid=uid, rung=rung, wrapper=wrapper, waiting=waiting)
    assert answer["setup_error"] is None, answer
    assert answer["exit_code"] == 0, answer
    lines = [json.loads(line) for line in answer["stdout"].splitlines()]
    return {line["name"]: (line["outcome"], line["how"]) for line in lines}
