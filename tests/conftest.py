"""What holds for every test."""

import logging
import os
import signal
import traceback
from collections.abc import Generator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings

from tests.support.hanging import found_at_the_end
from tests.support.hanging import pytest_runtest_teardown as pytest_runtest_teardown
from tests.support.hanging import pytest_timeout_cancel_timer as pytest_timeout_cancel_timer
from tests.support.hanging import pytest_timeout_set_timer as pytest_timeout_set_timer
from tests.support.on_file import is_left_out
from tests.support.server_logs import logs_of

# Most tests wait for other processes most of the time, so two workers share a core. More than eight only wait for each
# other's disk.
WORKERS_PER_CORE = 2
MOST_WORKERS = 8

# A busy machine makes any example slow now and then; how fast things are is measured elsewhere. In CI hypothesis has a
# profile of its own, which is untimed as well and picks the same examples every time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("untimed")

# A shell starts what it runs in the background with Ctrl-C ignored, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # without the plugin, nobody asks
def pytest_xdist_auto_num_workers() -> int:
    """How many processes `make test` runs the tests in. `PYTEST_XDIST_AUTO_NUM_WORKERS` says otherwise."""
    if stated := os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return int(stated)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores * WORKERS_PER_CORE, MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `quick(n)`, the cases behind the first n are slow ones."""
    seen: dict[tuple[object, str], int] = {}
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark is not None and isinstance(item, pytest.Function):
            test = (item.path, item.originalname)
            seen[test] = seen.get(test, 0) + 1
            if seen[test] > int(mark.args[0]):
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure is shown with what the servers of the test wrote to standard error, and where it waited if its time was up."""
    report = yield
    if report.failed and call.excinfo is not None:
        report.sections += logs_of(frame for frame, _ in traceback.walk_tb(call.excinfo.tb))
        report.sections += found_at_the_end(item)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """What a worker tells of a test has to be UTF-8, also where the test is about text that is not."""
    return _encodable((yield))


def _encodable(told: Any) -> Any:
    match told:
        case str():
            return told.encode(errors="backslashreplace").decode()
        case dict():
            return {_encodable(key): _encodable(value) for key, value in cast(dict[Any, Any], told).items()}
        case list() | tuple():
            items = [_encodable(item) for item in cast(list[Any], told)]
            return tuple(items) if isinstance(told, tuple) else items
        case _:
            return told


@pytest.fixture(autouse=True)
def nothing_impossible_happens_to_a_conversation() -> Generator[list[str]]:
    """Conversations of the test's own process say so in their log, and go on; the test fails."""
    said: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("understudy.engine.conversation.phases")
    logger.addHandler(handler)
    yield said
    logger.removeHandler(handler)
    assert said == []


@pytest.fixture(autouse=True)
def a_store_of_its_own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """With UNDERSTUDY_TEST_STORE=postgres, every program that a test starts keeps its conversations in a database: tables of the
    test's own, in a server of the tests' own. Tests that are about the file are left out.
    """
    if os.environ.get("UNDERSTUDY_TEST_STORE") != "postgres":
        yield
        return
    if is_left_out(request.node.nodeid):
        pytest.skip("it is about the file of the store")
    from tests.support.postgres import the_server  # needs the driver

    file = tmp_path_factory.mktemp("store") / "url"
    file.write_text(the_server().new_tables())
    os.environ["UNDERSTUDY_STORE_URL_FILE"] = str(file)
    yield
    del os.environ["UNDERSTUDY_STORE_URL_FILE"]


@pytest.fixture(autouse=True)
def _log_is_left_as_it_was() -> Generator[None]:
    """What a test leaves of our logger's settings would blind those after it that read what is logged."""
    log = logging.getLogger("understudy")
    before = log.level, log.propagate, log.disabled
    yield
    left = log.level, log.propagate, log.disabled
    log.setLevel(before[0])
    log.propagate, log.disabled = before[1:]
    assert left == before, "this test has changed the settings of our logger"
