"""Links that log a browser in: how long they are good for. That each works once is tried over HTTP in e2e/rest."""

import time
from base64 import b32encode
from pathlib import Path

import msgspec
import pytest

from understudy.servers.page.links import LIFETIME_SECONDS, Links
from understudy.servers.sealing import IdSeal


def link_of_age(state_dir: Path, seconds: int) -> str:
    body = msgspec.msgpack.encode((b"a" * 12, int(time.time()) - seconds))
    return b32encode(IdSeal(state_dir, b"page link").close_bytes(body)).decode().rstrip("=")


@pytest.mark.parametrize(("age", "is_good"), [(0, True), (500, True), (600, False), (86_400, False), (-3600, False)])
def test_a_link_is_good_for_ten_minutes(tmp_path: Path, age: int, is_good: bool) -> None:
    assert LIFETIME_SECONDS == 600
    assert (Links(tmp_path).use(link_of_age(tmp_path, age)) is not None) is is_good


def test_a_link_of_another_home_is_good_for_nothing(tmp_path: Path) -> None:
    code = Links(tmp_path / "one").make()
    assert not Links(tmp_path / "other").use(code)
    assert Links(tmp_path / "one").use(code)
