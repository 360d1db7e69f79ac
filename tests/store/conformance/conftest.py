"""Every test of the suite runs on every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.conformance.stores import STORES, SharedStore


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SharedStore]:
    store = STORES[request.param](tmp_path)
    yield store
    store.close()
