"""Web Push: a browser that has subscribed is told that a question waits, by ids alone, which only it can read."""

import asyncio
import json
import os
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.models.authority import make_authority
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient, log_in
from understudy.testing import ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
SECRET = "touch launch-codes-7391.txt"


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Browser:
    """What a browser keeps of its subscription."""

    def __init__(self, endpoint: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.auth = os.urandom(16)
        form = serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        self.point = self.key.public_key().public_bytes(*form)
        self.subscription = {"endpoint": endpoint, "keys": {"p256dh": text_of(self.point), "auth": text_of(self.auth)}}

    def read(self, body: bytes) -> Any:
        salt, (_, size) = body[:16], struct.unpack("!IB", body[16:21])
        theirs, sealed = body[21 : 21 + size], body[21 + size :]
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
        material = derived(shared, self.auth, b"WebPush: info\0" + self.point + theirs, 32)
        key, nonce = (
            derived(material, salt, b"Content-Encoding: " + kind + b"\0", n) for kind, n in ((b"aes128gcm", 16), (b"nonce", 12))
        )
        opened = AESGCM(key).decrypt(nonce, sealed, None)
        assert opened.endswith(b"\x02")
        return json.loads(opened[:-1])


def derived(secret: bytes, salt: bytes, about: bytes, size: int) -> bytes:
    return HKDF(hashes.SHA256(), size, salt, about).derive(secret)


@dataclass
class Service:
    """A push service on this machine."""

    port: int = 0
    status: int = 201
    got: asyncio.Queue[tuple[dict[str, str], bytes]] = field(default_factory=asyncio.Queue[tuple[dict[str, str], bytes]])

    @property
    def name(self) -> str:
        return f"localhost:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:] if line)}
            body = await reader.readexactly(int(headers["content-length"]))
            writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            self.got.put_nowait((headers, body))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def next(self) -> tuple[dict[str, str], bytes]:
        return await asyncio.wait_for(self.got.get(), WAIT_SECONDS)


@asynccontextmanager
async def serving(tmp_path: Path, model: ScriptedModel | None, **config: Any) -> AsyncGenerator[tuple[HttpServer, Service]]:
    folder = tmp_path / "authority"
    folder.mkdir()
    authority = make_authority(folder)
    service = Service()
    listening = await asyncio.start_server(service.serve, "127.0.0.1", 0, ssl=authority.context)
    service.port = listening.sockets[0].getsockname()[1]
    push = {"understudy.push.subject": "mailto:me@example.org", "understudy.push.services": [service.name]}
    env = {"SSL_CERT_FILE": str(authority.certificate)}
    try:
        async with HttpServer(tmp_path, model, config={**ASKING, **push, **config}, env=env) as server:
            yield server, service
    finally:
        listening.close()
        await listening.wait_closed()


async def subscribe(browser: RestClient, subscription: Any) -> int:
    return (await browser.request("POST", "/push", subscription, {"Origin": browser.origin})).status


def check_sender(headers: dict[str, str], key: str, service: Service) -> None:
    scheme, _, rest = headers["authorization"].partition(" ")
    given = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert (scheme, given["k"]) == ("vapid", key)
    head, claims, signature = given["t"].split(".")
    raw = bytes_of(signature)
    signed = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes_of(key))
    public.verify(signed, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    told = json.loads(bytes_of(claims))
    assert (told["aud"], told["sub"]) == (f"https://{service.name}", "mailto:me@example.org")


async def test_a_question_is_told_by_ids_that_only_the_browser_can_read(tmp_path: Path) -> None:
    script = [call("shell", command=SECRET.split(), call_id="c1"), say("Done.")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, service):
        page = await log_in(server)
        key = (await page.get("/push", Origin=page.origin))["key"]
        browser = Browser(f"https://{service.name}/to/me")
        assert await subscribe(page, browser.subscription) == 204
        begun = await page.create(server.cwd, "make it")
        headers, body = await service.next()
        assert browser.read(body) == {"conversation": begun["id"], "call": "c1"}
        assert b"launch" not in body
        assert (headers["content-encoding"], headers["urgency"]) == ("aes128gcm", "high")
        assert int(headers["ttl"]) > 0
        check_sender(headers, key, service)
        kept = server.home.path / "understudy"
        assert [os.stat(kept / name).st_mode & 0o777 for name in ("push.key", "push.json")] == [0o600, 0o600]
        await page.post(f"/v1/conversations/{begun['id']}/decisions", {"call_id": "c1", "decision": "denied"})


async def test_whoever_logs_out_or_is_not_subscribed_any_more_is_told_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, None) as (server, service):
        page, nobody = await log_in(server), RestClient(server.port)
        entered = await nobody.request("POST", "/login", {"token": server.token}, {"Origin": nobody.origin})
        other = RestClient(server.port, cookie=entered.headers["set-cookie"].partition(";")[0])
        for client, path in ((page, "mine"), (other, "theirs")):
            assert await subscribe(client, Browser(f"https://{service.name}/{path}").subscription) == 204
        assert (await page.request("POST", "/logout", {}, {"Origin": page.origin})).status == 204
        kept = (server.home.path / "understudy" / "push.json").read_text()
        assert ("/mine" in kept, "/theirs" in kept) == (False, True)
        assert (await page.request("GET", "/push", headers={"Origin": page.origin})).status == 401


async def test_whoever_had_a_token_of_the_same_name_before_is_told_nothing(tmp_path: Path) -> None:
    script = [call("shell", command=SECRET.split(), call_id="c1"), say("Done.")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, service):
        before, now = (Browser(f"https://{service.name}/{who}") for who in ("before", "now"))
        old = await logged_in(server, await server.make_token("phone", "--rights", "run,approve,read"))
        assert await subscribe(old, before.subscription) == 204
        await server.revoke_token("phone")
        page = await logged_in(server, await server.make_token("phone", "--rights", "run,approve,read"))
        assert await subscribe(page, now.subscription) == 204
        begun = await page.create(server.cwd, "make it")
        _, body = await service.next()
        assert now.read(body) == {"conversation": begun["id"], "call": "c1"}
        assert service.got.empty()
        await page.post(f"/v1/conversations/{begun['id']}/decisions", {"call_id": "c1", "decision": "denied"})


async def logged_in(server: HttpServer, token: str) -> RestClient:
    """Once the server knows the token."""
    nobody = RestClient(server.port)
    async with asyncio.timeout(WAIT_SECONDS):
        while (entered := await nobody.request("POST", "/login", {"token": token}, {"Origin": nobody.origin})).status != 204:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return RestClient(server.port, cookie=entered.headers["set-cookie"].partition(";")[0])


async def test_a_browser_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    script = [call("shell", command=SECRET.split(), call_id="c1"), say("Done.")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, service):
        service.status = 410
        page = await log_in(server)
        assert await subscribe(page, Browser(f"https://{service.name}/gone").subscription) == 204
        begun = await page.create(server.cwd, "make it")
        await service.next()
        async with asyncio.timeout(WAIT_SECONDS):
            while "/gone" in (server.home.path / "understudy" / "push.json").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await page.post(f"/v1/conversations/{begun['id']}/decisions", {"call_id": "c1", "decision": "denied"})


@pytest.mark.parametrize(
    ("endpoint", "status"),
    [
        ("http://{name}/x", 403),
        ("https://169.254.169.254/latest", 403),
        ("https://evil.example/{name}", 403),
        ("https://{name}@evil.example/", 403),
        ("https://{name}.evil.example/", 403),
        ("not an address", 403),
    ],
)
@pytest.mark.quick(2)
async def test_messages_go_to_no_address_but_that_of_a_known_service(tmp_path: Path, endpoint: str, status: int) -> None:
    async with serving(tmp_path, None) as (server, service):
        page = await log_in(server)
        assert await subscribe(page, Browser(endpoint.format(name=service.name)).subscription) == status


async def test_keys_that_are_none_and_strangers_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, None) as (server, service):
        page = await log_in(server)
        good = Browser(f"https://{service.name}/x").subscription
        for keys in ({}, {"p256dh": "x", "auth": "y"}, {"p256dh": text_of(b"\x04" + bytes(64)), "auth": text_of(bytes(16))}):
            assert await subscribe(page, {**good, "keys": keys}) == 400
        assert await subscribe(page, [1]) == 400
        assert await subscribe(RestClient(server.port), good) == 401
        foreign = await page.request("POST", "/push", good, {"Origin": "https://evil.example"})
        assert foreign.status == 403
        assert not (server.home.path / "understudy" / "push.json").exists()


async def test_where_it_is_not_configured_it_is_not_offered(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        page = await log_in(server)
        assert await page.get("/push", Origin=page.origin) == {"key": None}
        assert await subscribe(page, Browser("https://fcm.googleapis.com/x").subscription) == 404
        assert not (server.home.path / "understudy" / "push.key").exists()
