"""TLS: only servers whose certificate is trusted, by whichever variable says so, are talked to."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.models.authority import Authority
from tests.models.loopback import BOUND, HANG, STREAM_HEAD, chunk, loopback
from understudy.net import AnswerSilent, HttpClient, Unreachable, parse_url

OK = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]


async def fetch(url: str, env: dict[str, str]) -> bytes:
    client = HttpClient(env, connect_seconds=BOUND)
    try:
        async with asyncio.timeout(BOUND):
            response = await client.post(parse_url(url), [], [b"{}"], seconds=BOUND)
            return (await response.read_text(BOUND, 1000)).encode()
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    "variable",
    ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CODEX_CA_CERTIFICATE", "NODE_EXTRA_CA_CERTS"],
)
async def test_an_authority_named_by_a_variable_is_trusted(authority: Authority, variable: str) -> None:
    async with loopback(OK, tls=authority.context) as server:
        assert await fetch(server.url, {variable: str(authority.certificate)}) == b"ok"


async def test_a_folder_of_authorities_is_trusted(authority: Authority, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "openssl", "x509", "-hash", "-noout", "-in", authority.certificate, stdout=asyncio.subprocess.PIPE
    )
    digest, _ = await asyncio.wait_for(process.communicate(), BOUND)
    shutil.copy(authority.certificate, tmp_path / f"{digest.decode().strip()}.0")
    async with loopback(OK, tls=authority.context) as server:
        assert await fetch(server.url, {"SSL_CERT_DIR": str(tmp_path)}) == b"ok"


async def test_an_unknown_authority_is_refused_once_and_for_all(authority: Authority) -> None:
    async with loopback(tls=authority.context) as server:
        with pytest.raises(Unreachable, match="certificate is not trusted") as refused:
            await fetch(server.url, {})
    assert not refused.value.transient


async def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    async with loopback(tls=authority.context, host="127.0.0.2") as server:
        with pytest.raises(Unreachable, match=r"certificate is not trusted .*127\.0\.0\.2"):
            await fetch(f"https://127.0.0.2:{server.port}/", {"SSL_CERT_FILE": str(authority.certificate)})


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_bundle_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    with pytest.raises(Unreachable, match=rf"cannot use the certificates of SSL_CERT_FILE \({bundle}\)") as refused:
        await fetch("https://127.0.0.1:1/", {"SSL_CERT_FILE": str(bundle)})
    assert not refused.value.transient


async def test_a_server_that_does_not_speak_tls_is_told_so(authority: Authority) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        with pytest.raises(Unreachable, match="TLS failed"):
            await fetch(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/", {})


async def test_connections_over_tls_are_kept_and_dropped_like_others(authority: Authority) -> None:
    client = HttpClient({"SSL_CERT_FILE": str(authority.certificate)})
    async with loopback(OK, OK, [STREAM_HEAD, chunk(b"x"), HANG], tls=authority.context) as server, asyncio.timeout(BOUND):
        url = parse_url(server.url)
        for _ in range(2):
            response = await client.post(url, [], [b"{}"], seconds=BOUND)
            assert await response.read_text(BOUND, 1000) == "ok"
        response = await client.post(url, [], [b"x" * 500_000] * 2, seconds=BOUND)
        assert await response.read(BOUND) == b"x"
        with pytest.raises(AnswerSilent):
            await response.read(0.05)
        response.abort()
        await server.hung_up.wait()
        assert server.connections == 1
        assert len(server.requests[2].body) == 1_000_000
        await client.aclose()
