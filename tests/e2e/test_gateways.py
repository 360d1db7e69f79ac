"""Gateways that alter what passes: whatever form an answer comes in, it is the same answer, or the reason is told."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.scenes import told_to_model
from tests.support.gateway import Form, Gateway, Headers, Whole, chunked, cut, gzipped, head
from understudy.testing import McpProcess, ScriptedModel, call, deltas, text_of
from understudy.testing.script import Wire

TEXT = ["Grüße, ", "that is ", "all: 🦓", " \n\n", "data: [DONE]\r\n", "end."]
CHUNKED = b"Transfer-Encoding: chunked"


def without_type(whole: Whole) -> Whole:
    return whole._replace(headers={name: value for name, value in whole.headers.items() if name != b"content-type"})


def length(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


def buffered(whole: Whole) -> Iterator[bytes]:
    yield head(whole, length(whole.body), b"Connection: close") + whole.body


def until_closed(whole: Whole) -> Iterator[bytes]:
    yield head(whole, version=b"1.0") + whole.body


def byte_by_byte(whole: Whole) -> Iterator[bytes]:
    yield head(whole, CHUNKED)
    yield from chunked(cut(whole.body, 1))


def pieces_of_seven(whole: Whole) -> Iterator[bytes]:
    yield head(whole, CHUNKED)
    yield from chunked(cut(whole.body, 7))


def no_type(whole: Whole) -> Iterator[bytes]:
    yield from buffered(without_type(whole))


def other_type(whole: Whole) -> Iterator[bytes]:
    headers = Headers({b"content-type": b"text/plain; charset=iso-8859-1", b"X-Cache": b"MISS", b"Via": b"1.1 gateway"})
    yield from pieces_of_seven(whole._replace(headers=headers))


def packed_at_once(whole: Whole) -> Iterator[bytes]:
    body = b"".join(gzipped([whole.body]))
    yield head(whole, b"Content-Encoding: gzip", length(body), b"Vary: Accept-Encoding") + body


def packed_as_it_comes(whole: Whole) -> Iterator[bytes]:
    yield head(whole, b"content-encoding: GZIP", CHUNKED)
    yield from chunked(gzipped(cut(whole.body, 11)))


def packed_and_cut(whole: Whole) -> Iterator[bytes]:
    yield head(whole, b"Content-Encoding: x-gzip", CHUNKED)
    yield from chunked(cut(b"".join(gzipped(cut(whole.body, 50))), 3))


def deflated(whole: Whole) -> Iterator[bytes]:
    body = b"".join(gzipped([whole.body], form=zlib.MAX_WBITS))
    yield head(whole, b"Content-Encoding: deflate", length(body)) + body


def raw_deflated(whole: Whole) -> Iterator[bytes]:
    """As some servers understood the word."""
    body = b"".join(gzipped(cut(whole.body, 20), form=-zlib.MAX_WBITS))
    yield head(whole, b"Content-Encoding: deflate", length(body)) + body


def in_two_members(whole: Whole) -> Iterator[bytes]:
    """Files of gzip may be joined, and so may answers."""
    half = len(whole.body) // 2
    body = b"".join(gzipped([whole.body[:half]]) + gzipped([whole.body[half:]]))
    yield head(whole, b"Content-Encoding: gzip", length(body)) + body


def other_line_ends(whole: Whole) -> Iterator[bytes]:
    body = b"\xef\xbb\xbf" + whole.body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    yield head(whole, CHUNKED)
    yield from chunked(cut(body, 9))


def only_carriage_returns(whole: Whole) -> Iterator[bytes]:
    yield from pieces_of_seven(whole._replace(body=whole.body.replace(b"\r\n", b"\n").replace(b"\n", b"\r")))


def with_comments(whole: Whole) -> Iterator[bytes]:
    events = whole.body.replace(b"\r\n", b"\n").split(b"\n\n")
    body = b": hello\n\n" + b"\n\n: still here\n\nid: 7\nretry: 100\n".join(events)
    yield from pieces_of_seven(whole._replace(body=body))


def after_hints(whole: Whole) -> Iterator[bytes]:
    yield b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"
    yield from pieces_of_seven(whole)


def with_trailers(whole: Whole) -> Iterator[bytes]:
    yield head(whole, b"TRANSFER-ENCODING:   Chunked", b"Trailer: X-Sum")
    *pieces, _ = chunked(cut(whole.body, 64))
    yield b"".join(pieces) + b"0;last=1\r\nX-Sum: 1\r\n\r\n"


FORMS: list[Form] = [
    buffered,
    until_closed,
    byte_by_byte,
    pieces_of_seven,
    no_type,
    other_type,
    packed_at_once,
    packed_as_it_comes,
    packed_and_cut,
    deflated,
    raw_deflated,
    in_two_members,
    other_line_ends,
    only_carriage_returns,
    with_comments,
    after_hints,
    with_trailers,
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
async def test_in_whatever_form_it_comes_it_is_the_same_answer(tmp_path: Path, form: Form, wire: Wire) -> None:
    script = [call("shell", command=["sh", "-c", "echo run >> ran; echo was run"]), deltas(TEXT)]
    async with ScriptedModel(script) as model:
        async with Gateway(model.port, form) as gateway, McpProcess(gateway.url, cwd=tmp_path, wire=wire) as client:
            assert text_of(await client.codex("go")) == "".join(TEXT)
            assert gateway.requests == 2
        if wire == "chat":
            assert "was run" in told_to_model(model.requests[1])
    assert (tmp_path / "ran").read_text() == "run\n"
