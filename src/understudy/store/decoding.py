"""Decoders that are made when something is first read: to know every kind of record takes a millisecond of a start."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

T = TypeVar("T")


def decoding(make: Callable[[], Callable[[bytes], T]]) -> Callable[[bytes], T]:
    made = cache(make)
    return lambda data: made()(data)
