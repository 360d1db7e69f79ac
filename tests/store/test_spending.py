"""What people with a budget have used: counted by day, for all processes on one store."""

from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tests.store.conformance.stores import STORES
from tests.store.conformance.writing import written
from understudy.store.log import Spent, Store


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "memory"])
async def test_what_somebody_uses_is_counted_by_day_for_all_processes(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path)
    log, other = cast(Store, store.open()), cast(Store, store.open())
    for where, name, day, spent in (
        (log, "mia", "2026-01-31", Spent(100, 0.25, 1)),
        (other, "mia", "2026-01-31", Spent(10, 0.5, 1)),
        (other, "mia", "2026-02-01", Spent(1, 0.0, 1)),
        (log, "bob", "2026-02-01", Spent(7, 0.0, 1)),
    ):
        await written(partial(where.spend, name, day, spent))
    for reader in (log, other):
        assert await reader.spent("mia", "2026-01-31") == Spent(111, 0.75, 3)
        assert await reader.spent("mia", "2026-02-01") == Spent(1, 0.0, 1)
        assert await reader.spent("mia", "2026-02-02") == await reader.spent("eve", "2026-01-01") == Spent()
    store.close()
