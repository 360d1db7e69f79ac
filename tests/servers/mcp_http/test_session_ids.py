"""Ids of sessions hold for thirty days, and whatever the clock does meanwhile: no client begins another session by itself."""

import time
from pathlib import Path

import pytest

from understudy.servers.mcp.handshake import Handshake
from understudy.servers.mcp_http.ids import LIFETIME_SECONDS, SessionIds


@pytest.mark.parametrize(
    ("later", "known"),
    [(0, True), (LIFETIME_SECONDS - 1, True), (LIFETIME_SECONDS, False), (-30, True), (-7200, True), (-(10**8), True)],
)
def test_a_session_is_known_for_its_time_also_to_a_clock_that_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, known: bool
) -> None:
    begun = 1_900_000_000
    monkeypatch.setattr(time, "time", lambda: begun)
    ids = SessionIds(tmp_path)
    session_id = ids.make("alice", Handshake("2025-11-25", True, "raw", "0"), "2025-11-25")
    monkeypatch.setattr(time, "time", lambda: begun + later)
    found = SessionIds(tmp_path).read(session_id)
    assert (found is not None) is known
    if found is not None:
        ids.end(found)
        assert ids.read(session_id) is None
