"""Serves over HTTP (`understudy serve`), and opens the running server's page, logged in (`understudy open`)."""

import html
import logging
import os
import sys
import tempfile
import threading
import time
import webbrowser
from argparse import Namespace
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from understudy.cli.settings import read_overrides
from understudy.cli.stored import open_stored
from understudy.cli.waiting import wait_for
from understudy.config.home import find_home, state_dir
from understudy.config.running_server import RunningServer, find_running, forget_running, note_running
from understudy.config.serve import ServeSettings, read_serve
from understudy.errors import BadRequest, ConfigError, how_to_add
from understudy.protocol.ids import read_uuid
from understudy.servers.page.links import LIFETIME_SECONDS, Links
from understudy.store.lookup import find_id

logger = logging.getLogger(__name__)

_FLAGS = (
    *("host", "port", "unix", "token_file", "tls_cert", "tls_key", "public_url", "allow_host", "allow_origin", "no_auth"),
    "log_format",
)
_PATHS = ("unix", "token_file", "tls_cert", "tls_key")


def run(options: Namespace) -> int:
    if find_spec("uvicorn") is None:  # the extra is not asked of everyone
        raise ConfigError(f"`serve` needs uvicorn, which is not installed: {how_to_add('http')}")
    cli = read_overrides(options)
    flags = {name: value for name in _FLAGS if (value := getattr(options, name)) is not None and value is not False}
    flags |= {name: str(Path.cwd() / flags[name]) for name in _PATHS if name in flags}
    home = find_home(os.environ)
    settings = read_serve(home, cli, flags, os.environ)
    if options.role != "all" or options.host_name is not None:
        settings = _with_role(settings, home, options)
    cli = [*cli, *((f"understudy.serve.{name}", flags[name]) for name in _PATHS if name in flags)]  # commands cannot read them
    from understudy.servers.process.process import hide_memory
    from understudy.servers.serve.serving import serve

    hide_memory()
    try:
        return serve(settings, cli, lambda address: _begin(settings, address, opens=options.open))
    finally:
        forget_running(settings.state_dir)


def _with_role(settings: ServeSettings, home: Path, options: Namespace) -> ServeSettings:
    """Raises `ConfigError`."""
    from understudy.config.store import HOST_NAME_WANTED, is_host_name, read_store_choice

    if options.host_name is not None and not is_host_name(options.host_name):
        raise ConfigError(f"`--host-name {options.host_name}` should be {HOST_NAME_WANTED}")
    if options.role != "all" and read_store_choice(home, os.environ).url is None:
        raise ConfigError(
            f"`--role {options.role}` is for servers of many machines, which keep conversations in a PostgreSQL database: set "
            "`understudy.store.url`"
        )
    return msgspec.structs.replace(settings, role=options.role, host_name=options.host_name)


def _begin(settings: ServeSettings, address: str, *, opens: bool) -> None:
    page = "" if address.startswith("unix:") else address.removesuffix("/mcp")
    port = settings.port or urlsplit(page).port or 0 if settings.on_port else 0
    unix = "" if settings.unix is None else str(settings.unix)
    note_running(settings.state_dir, RunningServer(page, settings.host, port, os.getpid(), settings.no_auth, unix))
    _announce(settings, address)
    if opens and not page:
        _warn(settings, "understudy: no browser can open a socket: --port serves the page, too")
    elif opens:  # some browsers run until they are closed, and the server must go on
        threading.Thread(target=_open_page, args=(settings, page), daemon=True).start()


def _open_page(settings: ServeSettings, page: str) -> None:
    if not open_link(settings.state_dir, page + "/" if settings.no_auth else fresh_link(settings.state_dir, page)):
        _warn(settings, "understudy: there is no browser here that could be started: open the link yourself")


def _announce(settings: ServeSettings, address: str) -> None:
    from understudy.servers.http.guards import is_loopback

    print(f"understudy serves MCP at {address}")
    if settings.unix is not None:
        _announce_socket(settings)
    if address.startswith("unix:"):
        sys.stdout.flush()
        return
    if settings.no_auth:
        _warn(settings, "NO TOKEN IS ASKED FOR: every program on this machine can run commands and approve them.")
    else:
        print(f"The token is in {settings.token_file}. Clients send it with each request, for example:")
        print(
            f'  claude mcp add --transport http understudy {address} --header "Authorization: Bearer $(cat {settings.token_file})"'
        )
        print("`understudy token add NAME` makes another one, with rights of its own.")
    page = address.removesuffix("/mcp")
    if settings.log_format == "json":  # logs are collected, and not everyone who reads them should get a link that logs in
        logger.info("the page is at %s/; `understudy open` makes a link that logs in", page)
    elif settings.no_auth:
        print(f"The page is at {page}/", file=sys.stderr)
    else:
        minutes = LIFETIME_SECONDS // 60
        print(f"To watch and approve in a browser, open this link: it works once, within {minutes} minutes.", file=sys.stderr)
        print(f"  {page}/login?code={Links(settings.state_dir).make()}", file=sys.stderr)
    if settings.tls_cert is None and not is_loopback(settings.host):
        _warn(
            settings,
            "WITHOUT TLS tokens and conversations can be read on the way: give --tls-cert and --tls-key, or put a proxy before it.",
        )
    sys.stdout.flush()
    sys.stderr.flush()


def _announce_socket(settings: ServeSettings) -> None:
    print(f"On the socket {settings.unix} programs of the same user need no token:")
    print(f"  curl --unix-socket {settings.unix} http://localhost/v1/conversations")
    for user, name in settings.users.items():
        print(f"  {user} has the rights of the token {name} there")


def _warn(settings: ServeSettings, text: str) -> None:
    """On standard error; as a JSON object if the log is JSON."""
    if settings.log_format == "json":
        logger.warning("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)


_PREFIX = "open-"


def run_open(options: Namespace) -> int:
    folder = state_dir(find_home(os.environ))
    place = ""
    if options.id is not None:
        place = f"#/c/{wait_for(lambda: _find(options.id))}"
    server = find_running(folder)
    if server is None:
        raise BadRequest("no server runs here. Start one with `understudy serve --open`")
    if not server.page:
        raise BadRequest(f"the server listens on {server.unix} alone, which no browser can open: start it with --port, too")
    link = f"{server.page}/{place}" if server.no_auth else fresh_link(folder, server.page, place)
    if options.qr:
        from understudy.cli.serving.showing_links import show_code  # few use it

        show_code(link)
    elif options.print:
        print(link)
    elif open_link(folder, link):
        print("understudy: opened in a browser. If it shows nothing, `understudy open --print` gives the link.", file=sys.stderr)
    else:
        print("understudy: there is no browser here that could be started. Open this link yourself:", file=sys.stderr)
        print(link)
    return 0


async def _find(spelled: str) -> str:
    """A whole id is used as it is, because the server may keep the conversation only in memory. Raises `BadRequest`."""
    try:
        return read_uuid(spelled)
    except ValueError:
        async with open_stored() as log:
            return await find_id(log, spelled)


def fresh_link(folder: Path, page: str, place: str = "") -> str:
    return f"{page}/login?code={Links(folder).make()}{place}"


def open_link(folder: Path, link: str) -> bool:
    """Uses a file that only the user can read, because others can see a program's arguments. False if there is no browser."""
    _forget_old(folder)
    descriptor, path = tempfile.mkstemp(prefix=_PREFIX, suffix=".html", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        address = html.escape(link, quote=True)
        file.write(f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>understudy</title>'
                   f'<meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open the page</a>\n')  # fmt: skip
    try:
        opened = webbrowser.open(f"file://{path}")
    except webbrowser.Error:
        opened = False
    if not opened:
        os.unlink(path)
    return opened


def _forget_old(folder: Path) -> None:
    for entry in folder.glob(f"{_PREFIX}*.html"):
        with suppress(OSError):
            if time.time() - entry.stat().st_mtime > 600:
                entry.unlink()
