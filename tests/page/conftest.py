"""Closes the browser that the tests of the page share."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from tests.page.browser import shared


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def close_the_browser() -> AsyncGenerator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    await shared.close()
