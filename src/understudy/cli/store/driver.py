"""The driver of PostgreSQL, which is an extra."""

from importlib.util import find_spec

from understudy.errors import StoreError, how_to_add


def need_driver() -> None:
    """Raises `StoreError` where it is not installed."""
    if find_spec("psycopg") is None:
        raise StoreError(f"conversation store: the driver of PostgreSQL is missing; {how_to_add('postgres')}")
