"""Opens connections to the database, and explains failures in words for people, never with the password."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from understudy.errors import StoreError, Unavailable

AWAY = (psycopg.OperationalError, psycopg.InterfaceError, OSError)  # the connection was lost or cannot be opened
CONNECT_SECONDS = 5

# So that this process notices within seconds that the database has vanished, and the database that this process has: otherwise
# its session would stay for hours, with all its locks.
_KEEPALIVES: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 9000,
}
_SESSION = (
    "SELECT set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '2', false),"
    " set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '9000', false),"
    " set_config('lock_timeout', '20s', false), set_config('idle_in_transaction_session_timeout', '30s', false),"
    # acknowledged data must be on disk; a stricter setting, which waits for replicas too, is kept
    " CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END"
)


def connect(
    url: str, purpose: str, *, prepares: bool = True, made: Callable[[Connection[Any]], None] | None = None
) -> Connection[Any]:
    """Connect. Calls `made` before the first statement, so that a connection which does not answer can be cut. Raises one of
    `AWAY`.

    Without `prepares`, the database keeps no prepared statements: one prepared within a group that failed would be missing without
    the driver's knowledge.
    """
    connection = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        application_name=f"understudy {purpose}",
        client_encoding="UTF8",
        prepare_threshold=3 if prepares else None,
        **_KEEPALIVES,
    )
    if made is not None:
        made(connection)
    try:
        connection.execute(_SESSION)
    except BaseException:
        connection.close()
        raise
    return connection


def cut(connection: Connection[Any]) -> None:
    """Break a connection from another thread, so that the thread which waits for its answer gets an error."""
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as held:
        held.shutdown(socket.SHUT_RDWR)


def place_of(url: str) -> str:
    """The address for people, without the password."""
    try:
        known = {**conninfo_to_dict(url)}
    except psycopg.Error:
        return "PostgreSQL"
    host, port = known.get("host") or "localhost", known.get("port")
    where = f"{host}:{port}" if port and not str(host).startswith("/") else f"{host}"
    user = f"{known['user']}@" if known.get("user") else ""
    return f"postgresql://{user}{where}/{known.get('dbname') or known.get('user') or ''}"


def checked_url(url: str) -> str:
    """Raises `StoreError` if it is not the address of a database. The error does not repeat it: it may hold a password."""
    try:
        return make_conninfo(url)
    except psycopg.Error as error:
        reason = str(error).partition(":")[0].strip()
        raise StoreError(
            f"conversation store: `understudy.store.url` is no address of a PostgreSQL database ({reason}); "
            'it should be like "postgresql://understudy@db.internal/understudy"'
        ) from None


def explain(error: BaseException, place: str) -> StoreError:
    """Explain a failure of the database: what is wrong and what to do."""
    if isinstance(error, StoreError):
        return error
    code = getattr(error, "sqlstate", None) or ""
    text = " ".join(str(error).split())
    if code in ("42P01", "42883", "3F000"):
        return StoreError(f"conversation store: {place} has no tables of ours yet, or older ones: run `understudy store init`")
    if code == "UD004":
        return StoreError(
            f"conversation store: the conversations of {place} have moved to {_message(error)}: set `understudy.store.url`"
        )
    if code == "42501":
        return StoreError(f"conversation store: {place} lacks a right: {_message(error)}")
    if code.startswith("53"):
        return StoreError(f"conversation store: the database {place} has no room: {_message(error)}")
    if isinstance(error, AWAY):
        return Unavailable(f"conversation store: the database {place} does not answer: {text}")
    return StoreError(f"conversation store: {place}: {_message(error)}")


def _message(error: BaseException) -> str:
    diagnosed = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return diagnosed or " ".join(str(error).split())
