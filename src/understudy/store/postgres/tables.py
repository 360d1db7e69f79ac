"""Makes the tables, upgrades older ones, and refuses those that are newer than this build knows."""

from typing import Any, cast

from psycopg import Connection
from psycopg.sql import SQL

from understudy.errors import StoreError
from understudy.store.postgres.schema import FUNCTIONS, MIGRATIONS, MIN_READER, VERSION
from understudy.store.postgres.schema_of_hosts import FUNCTIONS_OF_HOSTS

_ONE_AT_A_TIME = 7265


def init_tables(connection: Connection[Any], place: str) -> int | None:
    """Make or upgrade the tables in one transaction. Returns the earlier version; None if there were no tables."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
        before = _version(connection)
        if before is not None:
            _refuse_newer(*before, place)
        found = 0 if before is None else before[0]
        for migration in MIGRATIONS[found:]:
            connection.execute(SQL(cast(Any, migration)))
        if found <= VERSION:
            connection.execute(SQL(cast(Any, FUNCTIONS + FUNCTIONS_OF_HOSTS)))
            connection.execute(
                "INSERT INTO about(version, min_reader) VALUES (%s, %s) ON CONFLICT (only_row)"
                " DO UPDATE SET version = excluded.version, min_reader = excluded.min_reader",
                (VERSION, MIN_READER),
            )
        return None if before is None else before[0]


def check_version(connection: Connection[Any], place: str) -> None:
    """Raises `StoreError` unless this build can use these tables."""
    found = _version(connection)
    if found is None:
        raise StoreError(f"conversation store: {place} has no tables of ours yet: run `understudy store init`")
    _refuse_newer(*found, place)
    if found[0] < VERSION:
        raise StoreError(
            f"conversation store: the tables of {place} are of version {found[0]}, and this understudy needs {VERSION}: "
            "run `understudy store init`"
        )


def _version(connection: Connection[Any]) -> tuple[int, int] | None:
    there = connection.execute("SELECT to_regclass('about') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return None
    return connection.execute("SELECT version, min_reader FROM about").fetchone()


def _refuse_newer(version: int, min_reader: int, place: str) -> None:
    if min_reader > VERSION:
        raise StoreError(
            f"conversation store: the tables of {place} were made by a newer understudy (version {version}, for builds that know "
            f"{min_reader}; this one knows {VERSION}); upgrade understudy"
        )
