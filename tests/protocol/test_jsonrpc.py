"""What a line is: the classification table, and that no bytes at all can make it raise."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.protocol.jsonrpc import (
    INVALID_REQUEST,
    LARGEST_ID,
    PARSE_ERROR,
    Malformed,
    Notification,
    Request,
    Response,
    error_line,
    notification_line,
    read_line,
    request_line,
    result_line,
    too_long,
)

DEEP = 100_000


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 1),
        (b'{"id":1,"method":"ping"}', 1),  # `jsonrpc` is not asked for
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1),
        (b'{"id":"1","method":"ping"}', "1"),
        (b'{"id":"","method":"ping"}', ""),
        (b'{"id":0,"method":"ping"}', 0),
        (b'{"id":-7,"method":"ping"}', -7),
        (b'{"id":9223372036854775807,"method":"ping"}', LARGEST_ID),
        (b'{"id":-9223372036854775808,"method":"ping"}', -LARGEST_ID - 1),
        (b'{"id":1,"method":"ping","result":{}}', 1),  # a method makes it a request, whatever else it has
        (b'{"id":1,"id":2,"method":"ping"}', 2),  # of a key given twice the last one counts
        ('{"id":"ключ","method":"ping"}'.encode(), "ключ"),
        (b' {"id" : 1 , "method" : "ping" } ', 1),
        (b'{"id":1,"method":"ping","params":null}', 1),
    ],
)
def test_a_line_with_an_id_and_a_method_is_a_request(line: bytes, request_id: int | str) -> None:
    message = read_line(line)
    assert isinstance(message, Request)
    assert message == Request(request_id, "ping", None)
    assert type(message.id) is type(request_id)


@pytest.mark.parametrize(
    ("line", "method"),
    [
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', "notifications/initialized"),
        (b'{"method":""}', ""),
    ],
)
def test_a_method_without_an_id_is_a_notification(line: bytes, method: str) -> None:
    assert read_line(line) == Notification(method, None)


@pytest.mark.parametrize(
    ("line", "response"),
    [
        (b'{"id":1,"result":null}', Response(1, None)),
        (b'{"id":1,"result":{"decision":"approved"}}', Response(1, {"decision": "approved"})),
        (b'{"id":"a","result":[]}', Response("a", [])),
        (b'{"id":1,"result":{},"error":{"code":1}}', Response(1, None, {"code": 1}, failed=True)),  # no clear answer is an error
        (b'{"id":1,"result":{},"error":null}', Response(1, {})),
        (b'{"id":1,"result":null,"error":null}', Response(1, None)),
        (b'{"id":1,"error":{"code":-1,"message":"no"}}', Response(1, None, {"code": -1, "message": "no"}, failed=True)),
        (b'{"id":1,"error":null}', Response(1, None, None, failed=True)),
    ],
)
def test_an_id_with_a_result_or_an_error_is_a_response(line: bytes, response: Response) -> None:
    assert read_line(line) == response


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b'{"id":null,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":1.5,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":1.0,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":true,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":{},"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":9223372036854775808,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":-9223372036854775809,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":1' + b"0" * 400 + b',"method":"ping"}', INVALID_REQUEST, None),
        (b'{"id":7,"method":5}', INVALID_REQUEST, 7),
        (b'{"id":7,"method":null}', INVALID_REQUEST, 7),
        (b'{"id":7}', INVALID_REQUEST, 7),
        (b'{"id":null,"error":{"code":1}}', INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0"}', INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
        (b'[{"id":1,"method":"ping"}]', INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b"5", INVALID_REQUEST, None),
        (b'"hello"', INVALID_REQUEST, None),
        (b"hello", PARSE_ERROR, None),
        (b"{", PARSE_ERROR, None),
        (b'{"id":1,"method":"ping"', PARSE_ERROR, None),
        (b'{"id":1,"method":"ping"} {}', PARSE_ERROR, None),
        (b'{"id":1,"method":"ping",}', PARSE_ERROR, None),
        (b"{'id':1}", PARSE_ERROR, None),
        (b'{"id":1,"method":"p\xff"}', PARSE_ERROR, 1),
        (b'{"id":"\xff","method":"ping"}', PARSE_ERROR, None),
        (b'{"id":1,"method":"m","params":{"a":"\xff"}}', PARSE_ERROR, 1),
        (b'{"id":1,"method":"m","params":{"a":"\xed\xa0\x80"}}', PARSE_ERROR, 1),
        (b'{"id":"\\ud800","method":"ping"}', PARSE_ERROR, None),
        (b'{"id":"x\xff","method":"ping"}', PARSE_ERROR, None),  # the id itself cannot be read
        (b'{"id":"a","method":"m","params":"\\ud83d"}', PARSE_ERROR, "a"),
        (b'{"method":"m","params":{"a":"\\ud83d"},"jsonrpc":"2.0","id":8}', PARSE_ERROR, 8),
        (b'{"method":"m","params":' + b"[" * DEEP + b"]" * DEEP + b',"jsonrpc":"2.0","id":8}', PARSE_ERROR, 8),
        (b'{"id":0,"result":{"a":"\xff"}}', PARSE_ERROR, None),  # the id of a response is one of ours
        (b'{"id":1' + b"0" * 6000 + b',"method":"m"}', PARSE_ERROR, None),
        (b"\x00", PARSE_ERROR, None),
        (b"\xff\xfe{\x00}\x00", PARSE_ERROR, None),
        (b"[" * DEEP, PARSE_ERROR, None),
        (b'{"id":1,"method":"m","params":' + b"[" * DEEP + b"]" * DEEP + b"}", PARSE_ERROR, 1),
        (b'{"id":1,"result":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", PARSE_ERROR, None),
    ],
)
def test_anything_else_is_malformed_with_the_code_that_is_due(line: bytes, code: int, request_id: int | str | None) -> None:
    message = read_line(line)
    assert isinstance(message, Malformed)
    assert (message.code, message.id) == (code, request_id)
    assert message.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id":1,"method":"m","params":"\xff"}', "the text is not UTF-8 (byte 31)"),
        (b'{"id":1,"method":"m","params":"\\ud83d"}', "half a character"),
        (b'{"id":1,"method":"m","params":' + b"[" * DEEP + b"]" * DEEP + b"}", "nested too deeply"),
    ],
)
def test_what_is_unreadable_is_said(line: bytes, reason: str) -> None:
    message = read_line(line)
    assert isinstance(message, Malformed)
    assert reason in message.reason


@pytest.mark.parametrize("request_id", [LARGEST_ID, -LARGEST_ID - 1])
def test_what_is_unreadable_is_answered_to_the_smallest_and_the_largest_id(request_id: int) -> None:
    message = read_line(b'{"id":%d,"method":"m","params":Infinity}' % request_id)
    assert isinstance(message, Malformed)
    assert message.id == request_id


def test_of_a_line_that_is_too_long_the_sender_is_known_by_its_beginning() -> None:
    told = too_long(b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"x":"yyyyyyy', 5)
    assert told == Malformed(PARSE_ERROR, "Parse error: a line may have at most 5 bytes", "a")
    assert too_long(b'{"id":1,"result":', 5).id is None
    assert too_long(b"garbage", 5).id is None


def test_a_batch_is_named_as_one() -> None:
    message = read_line(b'[{"id":1,"method":"ping"}]')
    assert isinstance(message, Malformed)
    assert "batches" in message.reason


def test_params_are_kept_as_they_came() -> None:
    message = read_line(b'{"id":1,"method":"m","params":{"b":1,"a":[1.50,null]}}')
    assert isinstance(message, Request)
    assert message.params is not None
    assert bytes(message.params) == b'{"b":1,"a":[1.50,null]}'


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_no_bytes_make_it_raise(line: bytes) -> None:
    read_line(line)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "result", "error", "jsonrpc", "x"]), _json, max_size=7))
@settings(max_examples=200)
def test_every_object_is_classified_by_the_members_it_has(message: dict[str, object]) -> None:
    read = read_line(json.dumps(message).encode())
    given_id = message.get("id")
    whole = isinstance(given_id, int) and not isinstance(given_id, bool) and -LARGEST_ID - 1 <= given_id <= LARGEST_ID
    good_id = whole or isinstance(given_id, str)
    if "method" in message and not isinstance(message["method"], str):
        assert isinstance(read, Malformed)
    elif "method" in message and "id" not in message:
        assert isinstance(read, Notification)
    elif "id" in message and not good_id:
        assert isinstance(read, Malformed)
    elif "method" in message:
        assert isinstance(read, Request)
    elif "id" in message and ("result" in message or "error" in message):
        assert isinstance(read, Response)
    else:
        assert isinstance(read, Malformed)


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        (b'{"jsonrpc":"2.0","id":7}', 7),
        (b'{"id":"a","jsonrpc":"2.0"}', "a"),
        (b'{"id":7,"result":"\\ud800"}', 7),
        (b'{"result":"\xff","id":7}', 7),
        (b'{"id":7,"error":' + b"[" * 100_000 + b"}", 7),
        (b'{"id":7,"result":' + b"[" * 300 + b"]" * 300 + b"}", None),  # can be read
        (b'{"id":7.5}', None),
        (b'{"result":"\\ud800"}', None),
        (b'{"id":7,"method":"ping","params":"\\ud800"}', None),
        (b'{"id":7,"method":3}', None),
        (b"{", None),
        (b"[]", None),
    ],
)
def test_what_was_to_be_an_answer_says_to_what(line: bytes, answers: int | str | None) -> None:
    message = read_line(line)
    assert getattr(message, "answers", None) == answers


def test_an_answer_that_is_too_long_says_to_what() -> None:
    told = too_long(b'{"jsonrpc":"2.0","id":7,"result":{"decision":"approved","x":"', 5)
    assert (told.id, told.answers) == (None, 7)


def test_answers_have_the_members_in_the_order_of_the_wire() -> None:
    assert result_line(3, {"a": 1}) == b'{"id":3,"jsonrpc":"2.0","result":{"a":1}}\n'
    assert result_line("3", b'{"ready":true}') == b'{"id":"3","jsonrpc":"2.0","result":{"ready":true}}\n'
    assert error_line(9, -32600, "no") == b'{"error":{"code":-32600,"message":"no"},"id":9,"jsonrpc":"2.0"}\n'
    assert error_line(None, -32700, "no", {"a": 1}) == (
        b'{"error":{"code":-32700,"message":"no","data":{"a":1}},"id":null,"jsonrpc":"2.0"}\n'
    )
    assert notification_line("m", {"a": 1}) == b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}\n'
    assert request_line(0, "m", {}) == b'{"id":0,"jsonrpc":"2.0","method":"m","params":{}}\n'


@given(st.text(), st.integers(-(2**63), 2**63 - 1) | st.text())
def test_what_we_write_is_one_line_that_reads_back(text: str, request_id: int | str) -> None:
    for line in (
        request_line(request_id, text, {"t": text}),
        notification_line(text, {"t": text}),
        result_line(request_id, {"t": text}),
    ):
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert msgspec.json.decode(line)
        assert not isinstance(read_line(line[:-1]), Malformed)
