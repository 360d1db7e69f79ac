"""Nobody of the same user can look into a running server."""

import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.sandbox.arena import PLAIN_UID, as_user, plain_python
from understudy.servers.process import process
from understudy.testing.waiting import WAIT_SECONDS

LOOK = """
import os, runpy, subprocess, sys
look = [sys.executable, "-I", "-c", f"print(open('/proc/{os.getpid()}/environ').read().count('SECRET'))"]
def seen(): return subprocess.run(look, capture_output=True, text=True, timeout=60).stdout.strip()
before = seen()
runpy.run_path(sys.argv[1])["hide_memory"]()
descriptor = os.open("/", os.O_RDONLY)
print(before, seen() or "refused", os.stat(f"/proc/self/fd/{descriptor}").st_ino == os.stat("/").st_ino)
"""

SERVER = """
import ctypes, os, sys
sys.argv = ["understudy", "mcp-server"]
from understudy.cli.main import main
main()
os.write(2, b"dumpable %d" % ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""

PROGRAM = """
import ctypes, os, sys
from understudy.cli.main import main
try:
    main()
finally:
    os.write(2, b"dumpable %d" % ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
    os._exit(0)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="by a call of Linux")


def test_the_environment_cannot_be_read_by_another_process_of_a_plain_user() -> None:
    uid = PLAIN_UID if os.geteuid() == 0 else os.geteuid()
    folder = tempfile.mkdtemp(dir="/var/tmp")
    try:
        os.chmod(folder, 0o755)
        script = Path(folder) / "hiding.py"  # alone: a plain user's Python has only its own library
        value = vars(process)["_PR_SET_DUMPABLE"]
        script.write_text(f"import sys\n_PR_SET_DUMPABLE = {value}\n{inspect.getsource(process.hide_memory)}")
        words = [plain_python(), "-I", "-c", LOOK, str(script)]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, env={"KEY": "SECRET"}, cwd="/", **as_user(uid)
        )
        assert done.stdout.split() == ["1", "refused", "True"], done.stderr
    finally:
        shutil.rmtree(folder)


def test_a_server_hides_itself_once_it_has_greeted(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    said = "".join(json.dumps(line) + "\n" for line in lines)
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SERVER],
        input=said,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
        cwd=tmp_path,
        env=env,
    )
    assert done.stderr.endswith("dumpable 0"), done.stderr


@pytest.mark.parametrize("words", [("app-server",), ("acp",), ("proto",), ("resume", "0123abcd"), ("approvals",)], ids=" ".join)
def test_every_program_that_runs_turns_hides_itself(words: tuple[str, ...], tmp_path: Path) -> None:
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        input="{}\n" if words == ("app-server",) else "",  # that one has nothing to hide before a client has spoken
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
        cwd=tmp_path,
        env=env,
    )
    assert done.stderr.endswith("dumpable 0"), done.stderr
