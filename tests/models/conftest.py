"""Both event loops that users run: tests of what uses sockets are tried on each."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from tests.models.authority import Authority, make_authority

BOTH_LOOPS = ("test_http.py", "test_tls.py", "test_proxy.py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    plain = {"asyncio": asyncio.new_event_loop}
    return {**plain, "uvloop": uvloop.new_event_loop} if item.path.name in BOTH_LOOPS else plain


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))
