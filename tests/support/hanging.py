"""What becomes of a test whose time is up: it fails with the stacks of all that it waits in, and the run goes on.

pytest-timeout says how long a test may take (`timeout` in pyproject.toml, or a mark) and leaves the rest to these hooks. Its own
way shows threads but no tasks, leaves the end of a failed test unbounded, and has hypothesis look for more examples that hang.
"""

import faulthandler
import os
import signal
import threading
from collections.abc import Generator
from typing import Any

import pytest
import pytest_timeout
from _pytest.outcomes import OutcomeException  # pyright: ignore[reportPrivateImportUsage]

from tests.support.server_logs import logs_of
from tests.support.stacks import all_stacks, child_processes, frames_of_tasks

AGAIN_SECONDS = (
    30.0  # or its whole time again, if that is less: then a test that goes on waiting, perhaps in its clean-up, is stopped again
)
STUCK_TIMES = 4  # so often in vain, and the whole process ends: xdist then names the test, and goes on with another process

_settings = pytest.StashKey[Any]()
_found = pytest.StashKey[list[tuple[str, str]]]()
_STDERR = os.dup(2)  # pytest puts a file in place of standard error while a test runs


class TimeIsUp(OutcomeException):
    """The test took longer than it may.

    An outcome, so that pytest goes on with the rest of the clean-up; not an `Exception`, so that nothing on the way catches it.
    """


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    if threading.current_thread() is not threading.main_thread():
        return None  # only there can a signal stop a test; pytest-timeout has another way

    def stop(_signal: int, _frame: object) -> None:
        if pytest_timeout.is_debugging():  # pyright: ignore[reportUnknownMemberType]
            return
        item.stash[_found] = [
            ("stacks when time was up", all_stacks()),
            ("processes", child_processes()),
            *logs_of(frames_of_tasks()),
        ]
        raise TimeIsUp(f"the test took more than {settings.timeout:g} s")

    item.stash[_settings] = settings
    signal.signal(signal.SIGALRM, stop)
    again = min(settings.timeout, AGAIN_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, again)
    faulthandler.dump_traceback_later(settings.timeout + STUCK_TIMES * again, exit=True, file=_STDERR)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Also called when a part of the test has failed."""
    if _settings not in item.stash:
        return None
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """The end of a test has a bound too if the test has failed, which cancels that of the whole."""
    if (settings := item.stash.get(_settings, None)) is not None:
        pytest_timeout_set_timer(item, settings)
    yield


def found_at_the_end(item: pytest.Item) -> list[tuple[str, str]]:
    """Sections for the report of a part of the test whose time was up."""
    nothing: list[tuple[str, str]] = []
    found = item.stash.get(_found, nothing)
    item.stash[_found] = nothing
    return found
