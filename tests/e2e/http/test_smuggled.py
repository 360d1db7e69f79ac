"""Requests that a proxy before us could understand otherwise: none hides a second one, and each is answered at most once."""

import asyncio
from pathlib import Path

from tests.support.http_server import serving
from understudy.testing.waiting import WAIT_SECONDS

POST = "POST /mcp HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
GET = "GET /v1/me HTTP/1.1\r\n"
GET_OF_US = "GET http://{host}/v1/me HTTP/1.1\r\n"
CLOSE = "Connection: close\r\n\r\n"
NO_CHUNKS = "\r\n\r\n0\r\n\r\n{hidden}"

REFUSED = {
    "length and chunks": POST + "Content-Length: 9\r\nTransfer-Encoding: chunked" + NO_CHUNKS,
    "chunks and length": POST + "Transfer-Encoding: chunked\r\nContent-Length: 4" + NO_CHUNKS,
    "two lengths": POST + "Content-Length: 0\r\nContent-Length: 200\r\n\r\n{hidden}",
    "the same length twice": POST + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}",
    "a list of lengths": POST + "Content-Length: 0, 200\r\n\r\n{hidden}",
    "a length with a sign": POST + "Content-Length: +2\r\n\r\n{{}}{hidden}",
    "a length below zero": POST + "Content-Length: -1\r\n\r\n{hidden}",
    "an unknown encoding": POST + "Transfer-Encoding: xchunked" + NO_CHUNKS,
    "chunks that are not the last": POST + "Transfer-Encoding: chunked, identity" + NO_CHUNKS,
    "a blank before the colon": POST + "Transfer-Encoding : chunked" + NO_CHUNKS,
    "a line that goes on": GET + "{head}X-A: b\r\n folded: c\r\n\r\n",
    "a token on a line that goes on": GET + "Host: {host}\r\nAuthorization:\r\n Bearer {token}\r\n\r\n",
    "lines that end with LF": "GET /v1/me HTTP/1.1\nHost: {host}\nAuthorization: Bearer {token}\n\n",
    "CR in a value": GET + "{head}X-A: b\rX-B: c\r\n\r\n",
    "NUL in a value": GET + "{head}X-A: b\0c\r\n\r\n",
    "LF in what a chunk says besides its size": POST + "Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n{hidden}",
    "a chunk below zero": POST + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk without end": POST + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    "two hosts": GET + "{head}Host: evil.example\r\nConnection: close\r\n\r\n",
    "no host": GET + "Authorization: Bearer {token}\r\nConnection: close\r\n\r\n",
    "no host, as of old": "GET /v1/me HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n",
    "another host in the target": "GET http://evil.example/v1/me HTTP/1.1\r\n{head}" + CLOSE,
    "another host in the target, and nothing after it": "GET http://evil.example HTTP/1.1\r\n{head}" + CLOSE,
    "our own host as the name of somebody": "GET http://{host}@evil.example/v1/me HTTP/1.1\r\n{head}" + CLOSE,
    "somebody at our own host": "GET http://somebody@{host}/v1/me HTTP/1.1\r\n{head}" + CLOSE,
    "our own host before a question": "GET http://{host}?/v1/me HTTP/1.1\r\n{head}" + CLOSE,
    "our own host in the target, and two others": GET_OF_US + "{head}Host: evil.example\r\n" + CLOSE,
    "our own host in the target, and no other": GET_OF_US + "Authorization: Bearer {token}\r\n" + CLOSE,
    "a target of another kind": "GET ftp://{host}/v1/me HTTP/1.1\r\n{head}" + CLOSE,
    "no path at all": "OPTIONS * HTTP/1.1\r\n{head}\r\n",
    "a way through": "CONNECT evil.example:443 HTTP/1.1\r\n{head}\r\n",
    "the beginning of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
ANSWERED = {
    "our own host in the target": GET_OF_US + "{head}" + CLOSE,
    "our own host in the target, in capitals": "GET HTTP://{host}/v1/conversations?search=/b HTTP/1.1\r\n{head}" + CLOSE,
    "our own host in the target, and another one": GET_OF_US + "Host: evil.example\r\nAuthorization: Bearer {token}\r\n" + CLOSE,
    "a body that is not asked for": GET + "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{hidden}",
    "a web socket wanted": GET
    + "{head}Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    + "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    "another protocol wanted": GET + "{head}Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n{hidden}",
}


async def answers(port: int, data: bytes) -> bytes:
    """Everything that is said until the server closes the connection."""
    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), WAIT_SECONDS)
    said = b""
    try:
        writer.write(data)
        await writer.drain()
        while more := await asyncio.wait_for(reader.read(1 << 16), WAIT_SECONDS):
            said += more
    except ConnectionError:
        pass  # let go, perhaps without a word
    finally:
        writer.close()
    return said


async def test_what_two_readers_could_understand_differently_is_refused_and_hides_no_second_request(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        host = f"127.0.0.1:{server.port}"
        head = f"Host: {host}\r\nAuthorization: Bearer {server.token}\r\n"
        hidden = f"GET /v1/me HTTP/1.1\r\n{head}\r\n"
        for name, form in (REFUSED | ANSWERED).items():
            text = form.format(head=head, host=host, token=server.token, hidden=hidden, length=len(hidden))
            said = await answers(server.port, text.encode("latin-1"))
            assert said.count(b"HTTP/1.1 ") <= 1, (name, said)
            if name in ANSWERED:
                assert said.startswith(b"HTTP/1.1 200 "), (name, said)
            else:
                assert not said or said.split()[1] in (b"400", b"421"), (name, said)
                assert b"sandbox_modes" not in said, name
