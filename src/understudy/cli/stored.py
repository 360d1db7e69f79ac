"""The store, as commands use it: opened for one task, written to and waited for."""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from understudy.config.home import find_home
from understudy.errors import StoreError, UnknownConversation
from understudy.store.answered import answered
from understudy.store.log import LATEST, Committed, Listed, Status, Store
from understudy.store.lookup import find_id
from understudy.store.opening import open_store

DISK_SECONDS = 30.0


def home() -> Path:
    """Raises `ConfigError` where CODEX_HOME names no folder."""
    return find_home(os.environ)


@contextmanager
def open_stored() -> Generator[Store]:
    """Raises `StoreError`."""
    log = open_store(home())
    try:
        yield log
    finally:
        log.close()


def find(log: Store, spelled: str) -> Listed:
    """By id or the beginning of one. Raises `UnknownConversation` or `BadRequest`."""
    listed = answered(log.find(answered(find_id(log, spelled))))
    if listed is None:
        raise UnknownConversation(f"no conversation {spelled}")
    return listed


def status_of(log: Store, listed: Listed) -> Status:
    """What holds now: a turn whose process is gone is not running, whatever its last record says."""
    status = listed.summary.status
    if status == "idle" or answered(log.holder(listed.conversation_id)) is not None:
        return status
    return "waiting" if listed.summary.pending else "idle"


def write(submit: Callable[[Committed], None]) -> None:
    """Queue a write and wait until it is on disk. Raises what kept it from getting there."""
    done = threading.Event()
    failures: list[BaseException] = []

    def on_done(error: BaseException | None) -> None:
        if error is not None:
            failures.append(error)
        done.set()

    submit(on_done)
    if not done.wait(DISK_SECONDS):
        raise StoreError(f"conversation store: the disk did not answer within {DISK_SECONDS:.0f} seconds")
    if failures:
        raise failures[0]


def rfc3339(seconds: float) -> str:
    seconds = min(max(seconds, 0.0), LATEST)  # a clock may have been anywhere
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
