"""What requests have alike is encoded once, and again as soon as it is something else."""

import msgspec

from understudy.models.wires.encoding import Unchanging


def test_the_same_object_is_encoded_once_and_another_at_once() -> None:
    encoded: list[object] = []

    def encode(value: object) -> bytes:
        encoded.append(value)
        return msgspec.json.encode(value)

    part = Unchanging(encode)
    first, second = ("a",), ("b",)
    assert [part.encode(value) for value in (first, first, second, second, first)] == [
        b'["a"]',
        b'["a"]',
        b'["b"]',
        b'["b"]',
        b'["a"]',
    ]
    assert encoded == [first, second, first]


def test_an_equal_value_that_is_another_object_is_encoded_as_it_is() -> None:
    part = Unchanging(msgspec.json.encode)
    assert (part.encode([1]), part.encode([1.0]), part.encode([True])) == (b"[1]", b"[1.0]", b"[true]")
