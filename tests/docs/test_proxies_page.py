"""docs/proxies.md: nginx and Caddy run with the files of the page, before a server that is told what the page says."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tomllib
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, all_blocks
from tests.e2e.http.test_decided_from import decided, waiting
from tests.e2e.http.test_resuming import take_until_text
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, Response
from tests.support.rest_client import RestClient
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

NAME = "agent.example.org"
PERSON = "127.0.0.9"  # where the person's connection comes from
MEGABYTE = 1 << 20
BLOCKS = {block.language: block.text for block in all_blocks() if block.page == ROOT / "docs" / "proxies.md"}

pytestmark = pytest.mark.slow


def settings() -> dict[str, Any]:
    return {f"understudy.serve.{key}": value for key, value in tomllib.loads(BLOCKS["toml"])["understudy"]["serve"].items()}


class Server(HttpServer):
    """One that tells its public address, and not its port."""

    async def start(self) -> None:
        with kept_port() as self.port:
            port = self.port
            await super().start()
            self.port = port


@contextmanager
def kept_port() -> Generator[int]:
    """Only who names it gets it, because what keeps it does not listen."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


class Person(HttpClient):
    """Who comes by the public name, through TLS, and says of themselves where they come from."""

    tls: ssl.SSLContext

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.tls, server_hostname=NAME, local_addr=(PERSON, 0), limit=1 << 26
        )

    async def raw(self, data: bytes) -> Response:
        head, end, body = data.partition(b"\r\n\r\n")
        return await super().raw(re.sub(rb"Host: [^\r]+", f"Host: {NAME}\r\nX-Forwarded-For: 6.6.6.6".encode(), head) + end + body)


@dataclass(frozen=True)
class Place:
    """Where a proxy keeps what it has, and the port that is kept for it."""

    folder: Path
    port: int
    upstream: int

    @property
    def certificate(self) -> Path:
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"


def nginx(place: Place) -> list[str]:
    server = _replaced(
        BLOCKS["nginx"],
        {
            "listen 443 ssl;": f"listen 127.0.0.1:{place.port} ssl;",
            f"/etc/ssl/{NAME}.pem": str(place.certificate),
            f"/etc/ssl/{NAME}.key": str(place.key),
            "127.0.0.1:8722": f"127.0.0.1:{place.upstream}",
        },
    )
    kept = "\n".join(f"{name}_temp_path {place.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""  # pytest's folder is closed to others
    own = f"{user}\ndaemon off;\nerror_log stderr;\npid {place.folder}/nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{kept}\n"
    (place.folder / "nginx.conf").write_text(f"{own}{server}}}\n")
    return ["nginx", "-p", str(place.folder), "-e", "stderr", "-c", str(place.folder / "nginx.conf")]


def caddy(place: Place) -> list[str]:
    site = _replaced(
        BLOCKS["caddyfile"],
        {
            f"{NAME} {{": f"{NAME}:{place.port} {{\n\tbind 127.0.0.1\n\ttls {place.certificate} {place.key}",
            "127.0.0.1:8722": f"127.0.0.1:{place.upstream}",
        },
    )
    (place.folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tgrace_period 1s\n\tauto_https disable_redirects\n}}\n{site}")
    return ["caddy", "run", "--config", str(place.folder / "Caddyfile"), "--adapter", "caddyfile"]


def _replaced(text: str, places: Mapping[str, str]) -> str:
    for before, after in places.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def make_certificate(place: Place) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=Test", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(place.key), "-out", str(place.certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True, timeout=WAIT_SECONDS)


PROXIES = {"nginx": nginx, "caddy": caddy}
Made = Callable[[Place], list[str]]


@pytest.fixture(params=PROXIES)
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    for program in (request.param, "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt-get install {program})")
    return PROXIES[request.param]


@asynccontextmanager
async def behind(
    made: Made, tmp_path: Path, model: ScriptedModel, config: Mapping[str, Any] | None = None
) -> AsyncGenerator[tuple[HttpServer, Person]]:
    folder = tmp_path / "proxy"
    folder.mkdir()
    async with Server(tmp_path, model, config={**settings(), **(config or {})}) as server:
        with kept_port() as port:
            place = Place(folder, port, server.port)
            make_certificate(place)
            env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
            with (folder / "log").open("wb") as log:
                process = await asyncio.create_subprocess_exec(*made(place), cwd=folder, env=env, stdout=log, stderr=log)
            try:
                await _until_it_listens(place, process)
                person = Person(place.port, server.token)
                person.tls = ssl.create_default_context(cafile=str(place.certificate))
                yield server, person
            finally:
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(process.wait(), WAIT_SECONDS)


async def _until_it_listens(place: Place, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            assert process.returncode is None, (place.folder / "log").read_text()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", place.port)
            except ConnectionError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def test_words_come_through_while_the_model_still_speaks(made: Made, tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["Once ", HOLD, "upon a time"])]) as model, behind(made, tmp_path, model) as (_, person):
        await person.initialize()
        response = await person.call("codex", {"prompt": "tell"})
        assert response.is_stream
        await take_until_text(response, "Once ")
        model.release()
        assert (await response.messages())[-1]["result"]["structuredContent"]["content"] == "Once upon a time"


async def test_those_who_watch_over_rest_see_each_step_at_once(made: Made, tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["Once ", HOLD, "upon a time"])]) as model, behind(made, tmp_path, model) as (server, person):
        local = RestClient(server.port, person.token)
        conversation = (await local.create(server.cwd, "tell"))["id"]
        watching = await person.request(
            "GET", {"Accept": "text/event-stream"}, path=f"/v1/conversations/{conversation}/events?stream=1"
        )
        kinds: list[str] = []
        async for event in watching.events():
            kinds.append(event["data"]["msg"]["type"])
            if kinds[-1] == "agent_message_content_delta":
                model.release()
            if kinds[-1] == "task_complete":
                break
        assert "agent_message_content_delta" in kinds
        watching.close()


async def test_a_decision_is_recorded_with_where_the_person_really_is(made: Made, tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, behind(made, tmp_path, model, FORBIDDING) as (server, person):
        await person.initialize()
        conversation = await waiting(person)
        await person.result("conversationApprove", {"conversation_id": conversation, "call_id": "call1", "decision": "approved"})
        await model.next_request(2)
        [record] = await decided(server, conversation)
        assert (record["by"], record["address"]) == ("local", PERSON)


async def test_large_bodies_go_through_and_larger_ones_are_refused(made: Made, tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, behind(made, tmp_path, model) as (_, person):
        await person.initialize()
        pinged = await person.post("ping", {"_meta": {"filling": "x" * (20 * MEGABYTE)}})
        assert (await pinged.json())["result"] == {}
        response = await person.post("ping", {"_meta": {"filling": "x" * (33 * MEGABYTE)}})
        assert response.status == 413


async def test_nobody_comes_in_without_a_token_or_by_another_name(made: Made, tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, behind(made, tmp_path, model) as (_, person):
        page = await person.request("GET", {"Accept": "text/html"}, path="/")
        assert page.status == 200
        person.token = None
        refused = await person.request("POST", body=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode())
        assert refused.status == 401
