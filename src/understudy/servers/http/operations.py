"""What those who run a server need besides its work: numbers, traces, and log lines that name their request."""

import asyncio
import logging
import os
from collections.abc import Callable

from understudy.config.serve import ServeSettings
from understudy.engine.engine import Engine
from understudy.engine.observing import Observer
from understudy.servers.http.answers import Refusal, Send
from understudy.servers.http.asked import Asked
from understudy.servers.http.limiting import Limiter
from understudy.servers.http.measured import Application, Measured
from understudy.servers.http.metric_families import CONTENT_TYPE
from understudy.servers.http.metrics import CountsLines, Metrics
from understudy.servers.http.principals import Principals
from understudy.servers.observers import NotesRequests, Observers
from understudy.servers.telemetry_export import start_telemetry

RETENTION_SECONDS = 60.0  # between two looks at what is too old or too much


class Operations:
    def __init__(self, engine: Engine, settings: ServeSettings) -> None:
        """Before the engine has conversations: it is observed from here on."""
        self._metrics = Metrics(engine)
        self._open_to = settings.metrics
        self._lines = CountsLines(self._metrics.log_lines)
        logging.getLogger().addHandler(self._lines)
        self._telemetry = start_telemetry(os.environ)
        observers: tuple[Observer, ...] = (self._metrics, NotesRequests())
        engine.observer = Observers(observers if self._telemetry is None else (*observers, self._telemetry.observer))
        engine.log.time_commits(self._metrics.commits.observe)
        self._retaining: asyncio.Task[None] | None = None
        if settings.keep_days or settings.max_store_mb:
            from understudy.engine.retention import Retention  # only where somebody limits it

            retention = Retention(engine, settings.keep_days, settings.max_store_mb, self._metrics.deleted.add)
            self._retaining = asyncio.get_running_loop().create_task(retention.run(RETENTION_SECONDS))

    def around(self, app: Application, calls_running: Callable[[], int]) -> Measured:
        """The application as it is served."""
        self._metrics.calls_running = calls_running
        return Measured(app, self._metrics, None if self._telemetry is None else self._telemetry.observer)

    async def show_metrics(self, asked: Asked, principals: Principals, limiter: Limiter, send: Send) -> None:
        """Numbers tell nobody's secrets, so any token will do: one without rights is enough for whoever collects them."""
        if self._open_to == "off":
            raise Refusal(404, "there are no metrics here: `understudy.serve.metrics` is `off`")
        if asked.method not in ("GET", "HEAD"):
            raise Refusal(405, "metrics are read with GET", headers=((b"allow", b"GET, HEAD"),))
        name = None
        if self._open_to == "token":
            authorization = asked.header(b"authorization")
            await principals.learn(authorization)
            principal = principals.find(authorization)
            if principal is None:
                reason = "a token is needed: send it as `Authorization: Bearer TOKEN`"
                raise Refusal(401, reason, headers=((b"www-authenticate", principals.challenge(authorization)),))
            name = principal.name
            if (wait := limiter.enter(name)) is not None:
                raise Refusal(429, "too many requests with this token at once", headers=((b"retry-after", str(wait).encode()),))
        try:
            body = await self._metrics.collect()
            headers = [
                (b"content-type", CONTENT_TYPE),
                (b"content-length", str(len(body)).encode()),
                (b"cache-control", b"no-store"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if asked.method == "HEAD" else body})
        finally:
            if name is not None:
                limiter.leave(name)

    async def stop(self) -> None:
        """Before the engine ends, so that nothing keeps it from writing its last records."""
        if self._retaining is not None:
            self._retaining.cancel()
            await asyncio.wait([self._retaining])

    def close(self) -> None:
        logging.getLogger().removeHandler(self._lines)
        if self._telemetry is not None:
            self._telemetry.close()
