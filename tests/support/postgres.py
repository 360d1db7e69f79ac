"""A PostgreSQL server of the tests' own: made when a test first needs one, and ended with the tests. Loopback's socket file only.

Each test has tables of its own in it (a schema), so that tests can run beside each other.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from understudy.testing.waiting import WAIT_SECONDS

USER = "postgres"
_PLACES = ("/usr/local/bin", *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True))
# Of a server that ends with the tests nothing has to survive the machine.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "400",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10min",
    "log_min_messages": "fatal",
}


# What ends with us ends with the thread that began it, as the system sees it: this one stays until we end.
_STARTER = ThreadPoolExecutor(1)


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([*_PLACES, os.environ.get("PATH", "")]))


def why_not() -> str | None:
    """What is missing for a server; None: nothing is."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: make set-up installs it")
    if _program("initdb") is None or _program("postgres") is None:
        return "PostgreSQL's server is not installed: install the package postgresql"
    if os.getuid() == 0 and _other_user() is None:
        return f"PostgreSQL refuses root, and there is no user `{USER}` or `nobody` to run it as"
    return None


def _other_user() -> pwd.struct_passwd | None:
    for name in (USER, "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _ends_with_us() -> list[str]:
    """Words before a command that end it with this process, however that ends."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "QUIT"]


class Server:
    """Runs until it is stopped, as a user that is not root."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._settings = _SETTINGS | settings
        self._as = _other_user() if os.getuid() == 0 else None
        self.process: subprocess.Popen[bytes] | None = None
        if self._as is not None:
            os.chown(folder, self._as.pw_uid, self._as.pw_gid)
        self._run("initdb", "--auth=trust", f"--username={USER}", "--no-sync", "--encoding=UTF8", "--locale=C")

    def _run(self, name: str, *words: str) -> None:
        words = (str(_program(name)), "-D", str(self.data), *words)
        made: subprocess.Popen[str] = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **self._rights()
        )
        said = made.communicate(timeout=300)[1]
        assert made.returncode == 0, said

    def _rights(self) -> dict[str, Any]:
        common: dict[str, Any] = {"cwd": self.folder, "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}}
        return common if self._as is None else {**common, "user": self._as.pw_uid, "group": self._as.pw_gid, "extra_groups": []}

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = [*_ends_with_us(), str(_program("postgres")), "-D", str(self.data), "-k", str(self.folder), *settings]
        self.process = _STARTER.submit(self._begin, command).result()
        self._wait_until_ready()

    def _begin(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **self._rights())  # pyright: ignore

    def _wait_until_ready(self) -> None:
        import time

        import psycopg

        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                assert self.process is not None
                if time.monotonic() > until or self.process.poll() is not None:
                    raise AssertionError((self.folder / "log").read_text()) from None
                time.sleep(0.05)
            else:
                return

    def url(self, schema: str | None = None) -> str:
        options = "" if schema is None else f"&options=-csearch_path%3D{schema}"
        return f"postgresql://{USER}@/{USER}?host={self.folder}{options}"

    def stop(self, how: int = signal.SIGQUIT) -> None:
        """SIGQUIT is what `-m immediate` sends: as a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(WAIT_SECONDS)
            self.process = None

    def new_tables(self) -> str:
        """The address of empty tables of a test's own."""
        import psycopg

        from understudy.store.postgres.tables import init_tables

        schema = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        with psycopg.connect(self.url(schema), autocommit=True) as connection:
            init_tables(connection, "the tests' server")
        return self.url(schema)


@cache
def the_server() -> Server:
    """One for all tests of this process. Skips the test where there can be none."""
    missing = why_not()
    if missing is not None:
        pytest.skip(missing)
    folder = Path(tempfile.mkdtemp(prefix="understudy-pg-", dir="/tmp"))  # the name of a socket has at most 107 bytes
    folder.chmod(0o755)
    server = Server(folder)
    server.start()

    def end() -> None:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server
