"""Exceptions as wire errors and failed results: a bug is told with a number that the log has too."""

import json
import logging
import re
from typing import Any

import msgspec
import pytest

from understudy.errors import ConfigError, InvalidArguments
from understudy.servers.failures import InvalidRequest, MethodNotFound, answer_result, failed_result, to_rpc_error, to_text

BUG = re.compile(r"internal error\nThis is a bug in understudy\. .* look for `(bug [0-9a-f]{8})`\.")


@pytest.mark.parametrize(
    ("error", "code", "message", "data"),
    [
        (MethodNotFound("x/y"), -32601, "method not found: x/y", {"method": "x/y"}),
        (InvalidRequest("not now"), -32600, "not now", None),
        (msgspec.ValidationError("bad"), -32602, "Invalid params: bad", None),
        (InvalidArguments("no prompt"), -32602, "no prompt", {"kind": "invalid_arguments"}),
        (ConfigError("no model"), -32000, "no model", {"kind": "config_error"}),
    ],
)
def test_an_error_has_its_code(error: Exception, code: int, message: str, data: Any) -> None:
    told = {"code": code, "message": message} | ({} if data is None else {"data": data})
    assert json.loads(to_rpc_error(7, error)) == {"error": told, "id": 7, "jsonrpc": "2.0"}


def test_a_bug_is_told_by_a_number_that_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answered = json.loads(to_rpc_error(7, ValueError("secret detail")))["error"]
        called = to_text(ValueError("secret detail"))
    assert answered["code"] == -32603
    for text, record in zip((answered["message"], called), caplog.records, strict=True):
        number = BUG.fullmatch(text)
        assert number is not None
        assert number[1] in record.getMessage()
        assert record.exc_info is not None
        assert "secret detail" not in text


def test_a_failed_call_is_a_result() -> None:
    assert failed_result(to_text(ConfigError("no"))) == {"content": [{"text": "no", "type": "text"}], "isError": True}
    structured = {"threadId": "t", "content": "no", "refused": [1]}
    content = [{"text": "no", "type": "text"}, {"text": "\n\na\nb", "type": "text"}]
    assert failed_result("no", "t", ["a", "b"], refused=[1]) == {
        "content": content,
        "structuredContent": structured,
        "isError": True,
        "error": "no",
    }
    assert answer_result("yes", "t") == {
        "content": [{"text": "yes", "type": "text"}],
        "structuredContent": {"threadId": "t", "content": "yes"},
    }
