"""What a server does for others that share its database: it serves the conversations of its host, unless it is a front end."""

from collections.abc import Callable

from understudy.config.serve import ServeSettings
from understudy.engine.engine import Engine
from understudy.engine.roles.worker import Worker
from understudy.errors import ConfigError
from understudy.servers.serve.app import App
from understudy.servers.serve.ended_for_all import EndedForAll
from understudy.servers.serve.operations import Operations
from understudy.store.postgres.log import PostgresLog


async def begin_sharing(engine: Engine, app: App) -> EndedForAll:
    """From here on what ends at another server ends here, too."""
    log = engine.log
    assert isinstance(log, PostgresLog)
    ended = EndedForAll(log.ends, app)
    await ended.begin()
    return ended


async def begin_working(
    engine: Engine, settings: ServeSettings, operations: Operations, address: Callable[[], str]
) -> Worker | None:
    """Not started yet, because it may announce itself only once the address is served. Raises `ConfigError`."""
    log = engine.log
    assert isinstance(log, PostgresLog)
    operations.count_waiting(log.hosts.unplaced)
    if settings.role == "front":
        return None
    worker = Worker(engine, log, settings.state_dir, address)
    if settings.role == "worker":
        try:
            worker.must_be_the_one()
        except ConfigError:
            await engine.close()
            raise
    return worker
