"""Workers and front ends of one database, as processes with names: each has a home of its own, as on a machine of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.http_server import HttpClient, HttpServer, Json
from tests.support.postgres import the_server
from tests.support.rest_client import RestClient
from understudy.testing import Script, ScriptedModel
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS


class Machines:
    def __init__(self, folder: Path, model: ScriptedModel, config: Mapping[str, Any]) -> None:
        self.folder = folder
        self.model = model
        named = os.environ.get("UNDERSTUDY_STORE_URL_FILE")  # it wins over the configuration, where all tests run on a database
        self.url = the_server().new_tables() if named is None else Path(named).read_text()
        self.config = {
            "understudy.store.url": self.url,
            "understudy.cluster.audit_key_file": str(folder / "audit.key"),
            **config,
        }
        self.servers: dict[str, HttpServer] = {}
        self._keys = {"serve.key": secrets.token_bytes(32), "token": secrets.token_hex(24).encode()}
        self._stack = AsyncExitStack()

    async def start(self, role: str, name: str, *, own: Path | None = None) -> HttpServer:
        """`own`: a folder that this machine has for itself, under a path that others have, too."""
        folder = self.folder / name
        folder.mkdir()
        args = ("--role", role, "--host-name", name)
        (self.folder / "work").mkdir(exist_ok=True)
        covered = self.folder / "work" if role == "front" else own
        alone = () if covered is None else _covering(covered)
        server = HttpServer(folder, self.model, args=args, config=self.config, started_by=alone)
        self._give_keys(server.home.path / "understudy")
        self.servers[name] = await self._stack.enter_async_context(server)
        return server

    def _give_keys(self, state: Path) -> None:
        """All machines have the same ones, as `docs/many-machines.md` asks for."""
        state.mkdir(mode=0o700, exist_ok=True)
        for name, key in self._keys.items():
            (state / name).touch(mode=0o600)
            (state / name).write_bytes(key)

    async def close(self) -> None:
        await self._stack.aclose()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode(), values).fetchall()

    async def until(self, query: str, expected: object, *values: Any) -> None:
        """Until the database says so: the first value of the first row."""
        async with asyncio.timeout(WAIT_SECONDS):
            while [row[0] for row in self.rows(query, *values)][:1] != [expected]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def until_served(self, count: int) -> None:
        await self.until("SELECT count(*) FROM hosts h JOIN workers w ON w.id = h.worker", count)

    def host_of(self, conversation: str) -> HttpServer:
        return self.servers[self.rows("SELECT host FROM conversations WHERE id = %s", conversation)[0][0]]

    def work(self, name: str) -> Path:
        """A folder that all machines have, at the same path."""
        path = self.folder / "work" / name
        path.mkdir(parents=True)
        return path

    def rest(self, name: str) -> RestClient:
        return RestClient(self.servers[name].port, self.servers[name].token)

    async def client(self, name: str, **initialized: Any) -> HttpClient:
        client = HttpClient(self.servers[name].port, self.servers[name].token)
        await client.initialize(**initialized)
        return client


def _covering(folder: Path) -> tuple[str, ...]:
    """Words before a command for which a mount of its own lies over the folder: a front end, for instance, is on a machine without
    the folders of the workers.
    """
    if os.getuid() != 0:
        return ()  # it is less of a test, but one
    return ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder))


@asynccontextmanager
async def machines(
    folder: Path,
    script: Script | Callable[[ReceivedRequest], Entry],
    *,
    workers: tuple[str, ...] = ("a", "b", "c"),
    fronts: tuple[str, ...] = ("x", "y"),
    config: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Machines]:
    async with ScriptedModel(script) as model:
        those = Machines(folder, model, config or {})
        try:
            await asyncio.gather(
                *(those.start("worker", name) for name in workers), *(those.start("front", name) for name in fronts)
            )
            await those.until_served(len(workers))
            yield those
        finally:
            await those.close()


def content(result: Json) -> str:
    return str(result["structuredContent"]["content"])


def thread(result: Json) -> str:
    return str(result["structuredContent"]["threadId"])
