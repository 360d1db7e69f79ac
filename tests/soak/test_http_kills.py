"""Kills of a server over HTTP, under load by clients of both eras. `python -m tests.soak.http_kills` runs many more of them."""

import pytest

from tests.soak.http_kills import run_http_kills


@pytest.mark.slow
async def test_clients_of_both_eras_lose_nothing_by_fifty_kills() -> None:
    told = await run_http_kills(seed=1, count=50)
    assert told.resumed > 0
    assert told.answers
    assert told.messages
