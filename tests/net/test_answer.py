"""How an answer is parsed, beside h11: the same verdict and the same body for whatever a server sends, in whatever pieces.

Where the two differ, it is for a reason that is named here, and nearly always we are the stricter one.
"""

import gc
from collections.abc import Sequence
from typing import Literal, NamedTuple

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from understudy.net.connection import HEAD_LIMIT, ParsedAnswer, Phase
from understudy.net.failures import AnswerCut

Verdict = Literal["open", "whole", "cut", "bad"]


class Heard(NamedTuple):
    verdict: Verdict
    status: int
    body: bytes
    reusable: bool  # another answer may follow on the connection
    reason: str  # of what is bad


# What h11 takes and we refuse: our word for it, and why.
STRICTER = {
    "Invalid HTTP version": "there is no such version, so whatever speaks it is not what it seems",
    "Invalid header value char": "a control character in a header is an attack or a broken server",
    "Missing expected CR after": "a line that ends with LF alone: where lines end must not be a matter of opinion",
    "Invalid response status": "the same, right after the status",
    "Invalid character in Content-Length": "several lengths in one line: which of them counts is a matter of opinion",
    "Duplicate Content-Length": "the same, in several lines",
    "Content-Length can't be present with": "two ways to tell the length",
    "Transfer-Encoding can't be present with": "the same, the other way round",
    "Unexpected whitespace after header value": "a header folded over lines, which nobody may send any more (RFC 9112, 5.2)",
    "Invalid character in chunk": "white space or control characters around the size of a chunk",
    "bytes of headers": "h11 takes more if it comes in one piece; what is too much must not depend on the pieces",
}


def hear(pieces: Sequence[bytes], *, ends: bool) -> Heard:
    answer = ParsedAnswer()
    for piece in pieces:
        answer.feed(piece)
    if ends:
        answer.end(None)
    match answer.phase:
        case Phase.COMPLETE | Phase.CLOSING:
            verdict = "whole"
        case Phase.FAILED:
            verdict = "cut" if isinstance(answer.failure, AnswerCut) else "bad"
        case _:
            verdict = "open"
    body = b"".join(answer.chunks)
    return Heard(verdict, answer.status, body, not ends and answer.phase is Phase.COMPLETE, str(answer.failure))


def hear_h11(pieces: Sequence[bytes], *, ends: bool) -> Heard:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "h"), ("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    verdict: Verdict = "open"
    status, body, reason = 0, b"", ""
    try:
        for piece in (*pieces, *([b""] if ends else [])):
            if verdict != "open":
                break
            connection.receive_data(piece)
            while verdict == "open" and (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                match event:
                    case h11.Response():
                        status = event.status_code
                    case h11.Data():
                        body += bytes(event.data)
                    case h11.EndOfMessage():
                        verdict = "whole"
                    case h11.ConnectionClosed():
                        verdict = "cut"
                    case _:
                        pass  # an interim answer
    except h11.RemoteProtocolError as error:
        reason = str(error)
        closed = ("peer closed connection", "ConnectionClosed", "unexpectedly closed")
        verdict = "cut" if any(word in reason for word in closed) else "bad"
    reusable = verdict == "whole" and connection.their_state is h11.DONE and not connection.trailing_data[0] and not ends
    return Heard(verdict, status, body, reusable, reason)


def assert_heard_alike(pieces: Sequence[bytes], *, ends: bool) -> None:
    ours, theirs = hear(pieces, ends=ends), hear_h11(pieces, ends=ends)
    data = b"".join(pieces)
    if ours.verdict == "bad":
        if theirs.verdict == "whole":
            assert any(word in ours.reason for word in STRICTER), f"refused without a named reason: {ours.reason}"
        return  # else h11 refuses it too, or would once the line is complete: we look at each byte as it comes
    if theirs.verdict == "bad":
        assert _has_odd_reason_phrase(data), f"h11 refuses it: {theirs.reason}"
        return
    assert (ours.verdict, ours.status, ours.body) == (theirs.verdict, theirs.status, theirs.body)
    if ours.reusable and not theirs.reusable:
        assert data.endswith((b"\r", b"\n")), "something follows the answer"  # blank lines, which no one can take for an answer


def _has_odd_reason_phrase(data: bytes) -> bool:
    """Control characters in the words behind the status, on which nothing depends."""
    lines = [line for line in data.split(b"\n") if line.startswith(b"HTTP/")]
    return any((byte < 32 and byte not in b"\r\t") or byte == 127 for line in lines for byte in line)


# -- what a server may send

_MANY = 8  # the usual form comes so much more often than each of the odd ones
_LINE_END = st.sampled_from([b"\r\n"] * 15 + [b"\n"])
_VERSION = st.sampled_from([b"HTTP/1.1"] * _MANY + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/11", b"ICY"])
_STATUS = st.sampled_from([b"200"] * _MANY + [b"204", b"304", b"404", b"500", b"599", b"099", b"20", b"2000", b"101", b"600"])
_REASON = st.sampled_from([b" OK", b" OK", b"", b" ", b" \xff", b"  two words", b"\tOK"])
_INTERIM = st.sampled_from([b""] * _MANY + [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nContent-Length: 3\r\n\r\n"])
_HEADERS = st.sampled_from(
    [b"A: b"] * _MANY
    + [b"Connection: close", b"Connection: keep-alive", b"Connection: Close, x", b"Connection: upgrade", b"Upgrade: h2c"]
    + [b"X:", b"X : y", b" folded", b"\tfolded", b"no colon", b": no name", b"Bad Name: 1", b"(x): y"]
    + [b"O: \xff\xfe", b"N: a\x00b", b"N: a\x01b", b"U: \x7f", b"R: a\rb", b"Z: " + b"z" * HEAD_LIMIT]
)
_CODING = st.sampled_from([b"chunked"] * _MANY + [b"Chunked", b" chunked ", b"gzip, chunked", b"chunked, gzip", b"identity", b""])
_SIZE = st.sampled_from(["%x", "%x", "%X", "0%x", "0000%x"])
_EXTENSION = st.sampled_from([b""] * _MANY + [b";a=b", b";a", b';a="q;\\"z"', b" ;a", b" ", b"; a = b", b";\x01", b"g", b"\t"])
_LAST_CHUNK = st.sampled_from([b"0"] * _MANY + [b"00", b"0;x=y", b"-0", b""])
_TRAILERS = st.sampled_from([b""] * _MANY + [b"T: v\r\n", b"Content-Length: 9\r\n", b"T: v\r\n folded\r\n", b"no colon\r\n"])
_AFTER = st.sampled_from([b""] * _MANY + [b"garbage", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"\r\n", b" "])


@st.composite
def _lengths(draw: st.DrawFn, body: bytes) -> bytes:
    length = len(body)
    right = [b"%d" % length] * _MANY
    wrong = [b"%d" % (length + 2), b"%d" % max(0, length - 2), b"+5", b"-1", b"0x5", b"", b"9" * 30, b"5 5"]
    return draw(st.sampled_from([*right, b" %d " % length, b"00%d" % length, b"%d, %d" % (length, length), b"5, 6", *wrong]))


@st.composite
def _chunks(draw: st.DrawFn, body: bytes, end: bytes) -> bytes:
    sent = b""
    while body:
        size = draw(st.integers(1, len(body)))
        head = (draw(_SIZE) % size).encode() + draw(_EXTENSION) + draw(st.sampled_from([end] * _MANY + [b"\n", b"\r", b""]))
        sent += head + body[:size] + draw(st.sampled_from([end] * _MANY + [b"\n", b"xx", b""]))
        body = body[size:]
    return sent + draw(_LAST_CHUNK) + end + draw(_TRAILERS) + end


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    end = draw(_LINE_END)
    body = draw(st.binary(max_size=30))
    framing = draw(st.sampled_from(["length", "chunked", "both", "none"]))
    headers = draw(st.lists(_HEADERS, max_size=3))
    if framing in ("length", "both"):
        headers += [b"Content-Length: " + draw(_lengths(body)) for _ in range(draw(st.sampled_from([1] * _MANY + [2])))]
    if framing in ("chunked", "both"):
        headers.append(b"Transfer-Encoding: " + draw(_CODING))
    headers = draw(st.permutations(headers))
    head = draw(_VERSION) + b" " + draw(_STATUS) + draw(_REASON) + end + b"".join(header + end for header in headers) + end
    sent = draw(_INTERIM) + head + (draw(_chunks(body, end)) if framing in ("chunked", "both") else body) + draw(_AFTER)
    return draw(st.sampled_from([sent, sent, sent[: draw(st.integers(0, len(sent)))], _changed(draw, sent)]))


def _changed(draw: st.DrawFn, sent: bytes) -> bytes:
    """One byte of it is another."""
    at = draw(st.integers(0, len(sent) - 1))
    return sent[:at] + bytes([draw(st.integers(0, 255))]) + sent[at + 1 :]


@st.composite
def pieces_of(draw: st.DrawFn, sent: st.SearchStrategy[bytes]) -> list[bytes]:
    data = draw(sent)
    size = draw(st.sampled_from([1, 2, 7, 64, len(data) + 1]))
    first = draw(st.integers(0, size))
    return [piece for piece in (data[:first], *(data[at : at + size] for at in range(first, len(data), size))) if piece]


@given(pieces_of(answers()), st.booleans())
@example([b"HTTP/1.1 099 No\r\n\r\n"], False)
@example([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nbody"], True)
@example([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\n"], False)
@settings(max_examples=150, deadline=None)
def test_an_answer_is_taken_as_h11_takes_it(pieces: list[bytes], ends: bool) -> None:
    assert_heard_alike(pieces, ends=ends)


@pytest.mark.slow
@given(pieces_of(answers()), st.booleans())
@settings(max_examples=1500, deadline=None)
def test_very_many_answers_are_taken_as_h11_takes_them(pieces: list[bytes], ends: bool) -> None:
    assert_heard_alike(pieces, ends=ends)


@given(pieces_of(answers()), st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_pieces_in_which_an_answer_comes_do_not_matter(pieces: list[bytes], ends: bool) -> None:
    whole, cut = hear([b"".join(pieces)] if pieces else [], ends=ends), hear(pieces, ends=ends)
    assert cut.verdict == whole.verdict
    if cut.verdict != "bad":  # of a bad one, more or less of the body has been read when it is noticed
        assert cut[:3] == whole[:3]


ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n02\r\nlo\r\n0\r\nT: v\r\n\r\n",
    "until it closes": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "last": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    "no body": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("ends", [False, True])
def test_an_answer_that_is_cut_at_any_byte_is_taken_as_h11_takes_it(name: str, ends: bool) -> None:
    data = ANSWERS[name]
    for at in range(len(data) + 1):
        assert_heard_alike([data[:at]] if at else [], ends=ends)
        assert_heard_alike([data[:at], data[at:]] if 0 < at < len(data) else [data], ends=ends)


@pytest.mark.parametrize("data", [ANSWERS["length"], ANSWERS["chunks"]])
@pytest.mark.parametrize("more", [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", ANSWERS["chunks"]])
@pytest.mark.parametrize("apart", [False, True])
def test_what_follows_an_answer_is_no_part_of_it_and_ends_the_connection(data: bytes, more: bytes, apart: bool) -> None:
    heard = hear([data, more] if apart else [data + more], ends=False)
    assert heard == Heard("whole", 200, b"hello", reusable=False, reason="None")


def test_an_answer_that_is_over_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        for data in ANSWERS.values():
            hear([data], ends=True)
        assert not [thing for thing in gc.get_objects() if isinstance(thing, ParsedAnswer)]
    finally:
        gc.enable()
