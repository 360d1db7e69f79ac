"""Cookies of browsers: how long one is good for."""

import time
from pathlib import Path

import pytest

from understudy.config.serve import ServeSettings
from understudy.servers.http.browsers import Logins
from understudy.servers.http.principals import Principals


@pytest.mark.parametrize(("seconds", "good"), [(None, True), (600.0, True), (-1.0, False), (-600.0, False)])
def test_a_cookie_does_not_outlive_the_token_it_was_made_for(tmp_path: Path, seconds: float | None, good: bool) -> None:
    principals = Principals(ServeSettings(state_dir=tmp_path, token_file=tmp_path / "token"))
    logins = Logins(tmp_path, principals)
    local = principals.current("local")
    assert local is not None
    cookie = logins.make(local, None if seconds is None else time.time() + seconds)
    assert (logins.read(cookie) is not None) is good
