"""What is wrong with a body is told as it is."""

import pytest

from understudy.servers.http.answers import Refusal
from understudy.servers.http.asked import read_body
from understudy.servers.rest.acting import NewMessage


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"text":"\\ud800"}', "a text has half a character"),
        (b'{"text":"\\udc00x"}', "a text has half a character"),
        (b'{"text":"\\ud800', "truncated"),
        (b'{"text":"ok","mode":"s\xff"}', "the text is not UTF-8 (byte 22)"),
        (b'{"config":{"a":' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_the_reason(body: bytes, told: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_body(body, NewMessage)
    assert refused.value.status == 400
    assert told in str(refused.value), str(refused.value)
