"""Commands of two conversations cannot reach each other, on any rung."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.arena import arena, as_user, plain_python
from tests.sandbox.test_probes import PLAIN, ROOT, needs_bubblewrap

# One command keeps a secret in its environment, a file in /tmp, a semaphore and a socket; the other looks for them all.
BOTH = """
import asyncio, json, os, sys
given = json.loads(sys.argv[1])
sys.path.insert(0, given["library"])
from understudy.sandbox import Command, Containment, Sandbox

def contained(name):
    folder = given["folder"]
    return Containment("workspace-write", (f"{folder}/{name}",), private_tmp=f"{folder}/tmp-{name}", network=given["network"])

async def main():
    sandbox = Sandbox(rung=given["rung"])
    up, said = asyncio.Event(), []
    env = {"PATH": "/usr/bin:/bin", "CANARY": "egg"}
    mark = "keeper-of-" + given["folder"]
    keeper = Command((given["python"], "-I", "-c", given["keeper"], mark), given["folder"] + "/one", env, None, contained("one"))
    task = asyncio.create_task(sandbox.run(keeper, lambda stream, chunk: up.set()))
    await asyncio.wait_for(up.wait(), 60)
    pids = [name for name in os.listdir("/proc") if name.isdigit() and mark.encode() in read("/proc/" + name + "/cmdline")]
    seeker = Command((given["python"], "-I", "-c", given["seeker"], *pids), given["folder"] + "/two", env, 20, contained("two"))
    result = await sandbox.run(seeker, lambda stream, chunk: said.append(chunk.decode()))
    alive = not task.done()
    task.cancel()
    await asyncio.wait([task])
    await sandbox.close()
    answer = {"pids": len(pids), "said": "".join(said), "code": result.exit_code, "alive": alive, "error": result.setup_error}
    print(json.dumps(answer))

def read(path):
    try:
        return open(path, "rb").read()
    except OSError:
        return b""

asyncio.run(main())
"""
KEEPER = """
import tempfile, os, time
open(tempfile.gettempdir() + "/canary-file", "w").write("egg")
print("up", flush=True)
time.sleep(3600)
"""
SEEKER = """
import os, signal, sys, tempfile
for pid in sys.argv[1:]:
    for attempt in (lambda: os.kill(int(pid), signal.SIGTERM), lambda: open(f"/proc/{pid}/environ", "rb").read(),
                    lambda: open(f"/proc/{pid}/mem", "rb"), lambda: os.readlink(f"/proc/{pid}/cwd"),
                    lambda: os.listdir(f"/proc/{pid}/root")):
        try:
            print("reached", attempt())
        except OSError:
            pass
for folder in ("/tmp", "/dev/shm", tempfile.gettempdir()):
    if os.path.exists(folder + "/canary-file"):
        print("found in", folder)
try:
    open("../one/written", "w")
    print("wrote")
except OSError:
    pass
"""


@pytest.mark.parametrize("network", [pytest.param("off", marks=pytest.mark.slow), "loopback"])
@pytest.mark.parametrize(
    ("rung", "server"),
    [
        pytest.param("full", PLAIN),
        pytest.param(
            "full", 0, marks=pytest.mark.skipif(not ROOT, reason="shows what a server of root does: run the tests as root for it")
        ),
        pytest.param("landlock", PLAIN, marks=pytest.mark.slow),
        pytest.param("bubblewrap", PLAIN, marks=[pytest.mark.slow, needs_bubblewrap]),
    ],
)
def test_one_conversation_cannot_reach_into_another(rung: str, server: int, network: str) -> None:
    with arena(server) as stage:
        for name in ("one", "two", "tmp-one", "tmp-two"):
            make_folder(stage.folder / name, server)
        given = {
            "library": str(stage.folder / "library"),
            "folder": str(stage.folder),
            "rung": rung,
            "network": network,
            "python": plain_python(),
            "keeper": KEEPER,
            "seeker": SEEKER,
        }
        done = subprocess.run(
            [plain_python(), "-I", "-c", BOTH, json.dumps(given)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **as_user(server),
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
    assert answer.pop("pids") >= 1
    assert answer == {"said": "", "code": 0, "alive": True, "error": None}


def make_folder(path: Path, uid: int) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, uid, uid)
