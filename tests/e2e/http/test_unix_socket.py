"""`serve --unix`: who connects is known by their user, but not through a browser, a proxy or a sandbox."""

import asyncio
import fcntl
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import HttpServer
from understudy import Understudy, UnderstudyError
from understudy.testing import CodexHome, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

LIST = "/v1/conversations"
OTHER_USER = 65534
_ASK = """
import json, os, socket, sys
path, user, head = sys.argv[1:]
if int(user):
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
asking = socket.socket(socket.AF_UNIX)
asking.connect(path)
asking.sendall(head.encode())
answer = b""
while data := asking.recv(65536):
    answer += data
print(answer.decode())
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Short, as the name of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="us") as folder:
        yield Path(folder) / "s.sock"


def served(tmp_path: Path, place: Path, model: Any = None, **config: Any) -> HttpServer:
    return HttpServer(tmp_path, model, args=("--unix", str(place)), config=config, port_flag=False)


async def ask(place: Path, path: str = LIST, *, user: int = 0, by: Sequence[str] = (), **headers: Any) -> tuple[int, str]:
    """As a process of that user. The status and the body."""
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    command = (*by, sys.executable, "-I", "-c", _ASK, str(place), str(user), "\r\n".join([*lines, "", ""]))
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert process.returncode == 0, err.decode()
    head, _, body = out.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_the_same_user_needs_no_token_and_nothing_listens_on_a_port(tmp_path: Path, place: Path) -> None:
    async with served(tmp_path, place) as server:
        assert stat.S_IMODE(os.lstat(place).st_mode) == 0o600
        assert server.said == [f"understudy serves MCP at unix://{place}"]
        assert await ask(place) == (200, '{"conversations":[],"next_cursor":null}\n')
        assert (await ask(place, "/metrics"))[0] == 200
        assert (await ask(place, Authorization="Bearer wrong"))[0] == 401  # who sends one is judged by it
        assert (await ask(place, Authorization=f"Bearer {server.token}"))[0] == 200
        opened = await run(server, "open", "--print")
        assert opened.returncode == 1
        assert f"listens on {place} alone" in opened.stderr
    assert not os.path.lexists(place)


async def run(server: HttpServer, *args: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "understudy", *args)
    env = server.home.environment()
    return await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost:8722"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Cookie": "a=b"},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
    ids=lambda headers: next(iter(headers)),
)
@pytest.mark.quick(2)
async def test_a_browser_or_a_proxy_is_not_its_user(tmp_path: Path, place: Path, headers: dict[str, Any]) -> None:
    async with served(tmp_path, place):
        status, body = await ask(place, **headers)
        assert (status, "token is needed" in body) == (401, True)


async def test_behind_a_public_address_everybody_needs_a_token(tmp_path: Path, place: Path) -> None:
    async with served(tmp_path, place, **{"understudy.serve.public_url": "https://agents.example"}):
        assert (await ask(place))[0] == 401


async def test_a_host_that_was_pointed_here_is_refused(tmp_path: Path, place: Path) -> None:
    async with served(tmp_path, place):
        answer = await asyncio.to_thread(raw, place, "GET /v1/conversations HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert " 421 " in answer


def raw(place: Path, text: str) -> str:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(WAIT_SECONDS)
        asking.connect(str(place))
        asking.sendall(text.encode())
        return asking.recv(65536).decode()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed (apt-get install util-linux)")
async def test_a_process_in_a_pid_namespace_of_its_own_is_not_its_user(tmp_path: Path, place: Path) -> None:
    async with served(tmp_path, place):
        status, body = await ask(place, by=("unshare", "--user", "--map-root-user", "--pid", "--fork"))
        assert (status, "send a token" in body) == (403, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user: run this test as root")
async def test_other_users_have_the_rights_of_a_token_or_none(tmp_path: Path, place: Path) -> None:
    place.parent.chmod(0o755)
    users = {"understudy.serve.users": {str(OTHER_USER): "guest"}}
    async with served(tmp_path, place, **users) as server:
        assert stat.S_IMODE(os.lstat(place).st_mode) == 0o660
        os.chmod(place, 0o666)  # the group of the test cannot be given; the user is judged all the same
        status, body = await ask(place, user=OTHER_USER)
        assert (status, "`guest`" in body) == (403, True)  # there is no such token yet
        await server.make_token("guest", "--rights", "read")
        async with asyncio.timeout(WAIT_SECONDS):
            while (await ask(place, user=OTHER_USER))[0] != 200:
                pass
        assert (await ask(place, user=OTHER_USER + 1000))[0] == 403
        status, body = await ask(place, user=12345)
        assert (status, "12345" in body) == (403, True)
        await server.revoke_token("guest")
        async with asyncio.timeout(WAIT_SECONDS):
            while (await ask(place, user=OTHER_USER))[0] != 403:
                pass


async def test_a_socket_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path, place: Path) -> None:
    server = served(tmp_path, place)
    await server.start()
    await server.kill()
    assert place.is_socket()
    async with served(tmp_path / "user", place) as second:
        third = await run(second, "serve", "--unix", str(place))
        assert (third.returncode, "another server listens" in third.stderr) == (1, True)
        assert (await ask(place))[0] == 200


@pytest.mark.parametrize("what", ["file", "folder that all can write to", "long name", "no folder"])
def test_what_no_socket_can_be_made_of_is_said(tmp_path: Path, place: Path, what: str) -> None:
    match what:
        case "file":
            place.write_text("mine")
        case "folder that all can write to":
            place.parent.chmod(0o777)
        case "long name":
            place = place.with_name("x" * 120)
        case _:
            place = place.parent / "none" / "s"
    home = CodexHome(tmp_path / "home", None)
    command = (sys.executable, "-m", "understudy", "serve", "--unix", str(place))
    done = subprocess.run(command, env=home.environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert what != "file" or place.read_text() == "mine"


@pytest.mark.slow
def test_a_folder_that_somebody_keeps_locked_holds_up_no_server(tmp_path: Path, place: Path) -> None:
    home, folder = CodexHome(tmp_path / "home", None), os.open(place.parent, os.O_RDONLY)
    command = (sys.executable, "-m", "understudy", "serve", "--unix", str(place))
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        done = subprocess.run(command, env=home.environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    finally:
        os.close(folder)
    assert (done.returncode, "another program has locked the folder" in done.stderr) == (1, True), done.stderr


def test_a_server_that_has_only_a_socket_refuses_no_auth(tmp_path: Path, place: Path) -> None:
    command = (sys.executable, "-m", "understudy", "serve", "--no-auth", "--unix", str(place))
    home = CodexHome(tmp_path / "home", None)
    done = subprocess.run(command, env=home.environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert (done.returncode, "known by their user" in done.stderr) == (1, True)


async def test_the_library_talks_over_the_socket(tmp_path: Path, place: Path) -> None:
    async with (
        ScriptedModel([say("Over a socket.")]) as model,
        served(tmp_path, place, model) as server,
        Understudy(url=f"unix://{place}") as agent,
    ):
        conversation = await agent.start("hello", folder=str(server.cwd))
        assert "Over a socket." in str([item async for item in conversation.items()])
    with pytest.raises(UnderstudyError, match="cannot connect to unix://"):
        async with Understudy(url=f"unix://{place}") as agent:
            await agent.start("nobody is there")


async def test_a_command_that_may_use_sockets_cannot_reach_the_servers_own(tmp_path: Path, place: Path) -> None:
    """With the network and unix sockets open: the socket stands in its own folder, and the command is the server's user."""
    work = tmp_path / "work"
    work.mkdir()
    script = work / "ask.py"
    inside = work / "s" if len(str(work)) < 90 else place
    script.write_text(_ASK)
    config = {
        "understudy.sandbox.network": "on",
        "understudy.sandbox.unix_sockets": True,
        "approval_policy": "never",
        "sandbox_mode": "workspace-write",
    }
    head = f"GET {LIST} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    steps = [call("shell", command=["python3", str(script), str(inside), "0", head]), say("Tried.")]
    async with ScriptedModel(steps) as model, served(tmp_path, inside, model, **config) as server:
        async with Understudy(url=f"unix://{inside}") as agent:
            conversation = await agent.start("try", folder=str(server.cwd))
            _ = [item async for item in conversation.items()]
        told = json.dumps(model.requests[1])
        assert "next_cursor" not in told
        assert "PermissionError" in told or "FileNotFoundError" in told, told
