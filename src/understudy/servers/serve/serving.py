"""The HTTP server as a process: listens, serves, and drains when it is told to end.

Also finds the address of a request's client: the connection's or, behind trusted proxies, the one that they name. Anybody can send
`X-Forwarded-For`, so it counts only from a proxy in `trusted_proxies`.
"""

import asyncio
import gc
import ipaddress
import logging
import resource
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from understudy.config.serve import ServeSettings
from understudy.config.tokens import read_tokens, tokens_file
from understudy.engine.engine import Engine
from understudy.engine.services.turns_at_work import TurnsAtWork
from understudy.engine.turn.accounts import Accounts
from understudy.errors import ConfigError, how_to_add
from understudy.net import HttpClient
from understudy.servers.http.guards import Guards, is_loopback
from understudy.servers.http.heads import Heads
from understudy.servers.http.principals import Principals
from understudy.servers.mcp.tool_table import OFFER, Offer
from understudy.servers.ports import open_ports
from understudy.servers.process.process import Ending, run_server
from understudy.servers.process.request_scope import REQUEST
from understudy.servers.serve.app import App
from understudy.servers.serve.operations import Operations
from understudy.servers.unix_sockets import UnixSocket
from understudy.store.opening import open_store

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Addresses:
    def __init__(self, trusted: Iterable[str]) -> None:
        self.trusted: list[_Network] = [ipaddress.ip_network(each, strict=False) for each in trusted]

    def of_this_request(self) -> str:
        """Empty if nothing is being served for anybody."""
        request = REQUEST.get()
        return "" if request is None else self.find(request.peer, request.forwarded)

    def find(self, peer: str, forwarded: str) -> str:
        """`forwarded`: each proxy appends the address that the request came from. So the last address that is not one of our
        proxies is the client; anybody may have written what precedes it.
        """
        found = _read(peer)
        if found is None or not self._is_trusted(found):
            return peer if found is None else str(found)
        for written in reversed(forwarded.split(",")):
            address = _read(written.strip())
            if address is None:
                break
            found = address
            if not self._is_trusted(address):
                break
        return str(found)

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self.trusted)


def _read(text: str) -> _Address | None:
    """May have a port, as some proxies write it. An IPv4 address in IPv6 form becomes the IPv4 address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two checks of the token files
BETWEEN_LOOKS_SECONDS = 0.05  # between two checks whether all is done, while draining
LAST_WORDS_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 75
MOST_CONNECTIONS = 20_000  # or half of the files that this process may open; the rest is for its own work
GARBAGE_THRESHOLDS = (10_000, 5, 5)  # the garbage of a request or turn is mostly freed without a collection

if TYPE_CHECKING:
    from understudy.engine.roles.worker import Worker
    from understudy.servers.page.push import Push

Announce = Callable[[str], None]
_Made = Callable[[], asyncio.Protocol]


def serve(settings: ServeSettings, cli: Sequence[tuple[str, Any]], announce: Announce, offer: Offer = OFFER) -> int:
    """Serve until a signal comes. `announce` gets the address once it is served. Raises `ConfigError`."""
    check_exposure(settings)
    return run_server("MCP over HTTP", partial(_serve, settings, cli, announce, offer), settings.log_format)


def check_exposure(settings: ServeSettings) -> None:
    """An address that is not bound to this machine alone can be reached by others. Raises `ConfigError`."""
    if not settings.on_port or is_loopback(settings.host):
        return
    if settings.no_auth:
        raise ConfigError(
            f"--no-auth is only for this machine: without a token anyone who reaches {settings.host} could run commands"
        )
    if settings.issuer is None and not settings.token_file.exists() and not read_tokens(tokens_file(settings.state_dir)):
        raise ConfigError(
            f"there is no token yet, so others could not be told apart on {settings.host}. "
            "Make one for each of them first: understudy token add NAME"
        )


async def _serve(settings: ServeSettings, cli: Sequence[tuple[str, Any]], announce: Announce, offer: Offer, ending: Ending) -> int:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from understudy.servers.serve.connection import HEAD_SECONDS, Connection

    most_connections = _raise_file_limit() // 2
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of everything that a scanner sends
    loop = asyncio.get_running_loop()
    principals = Principals(settings)
    context = _tls_context(settings)
    _use_issuer(settings, principals)
    engine = _make_engine(settings, cli)
    engine.at_work = TurnsAtWork(settings.concurrency)
    engine.accounts = Accounts(lambda: engine.log, principals.budgets_of)
    engine.where_from = Addresses(settings.trusted_proxies).of_this_request
    operations = Operations(engine, settings)
    doors, worker = Doors(settings), None
    if engine.log.is_remote:  # also reports a store that cannot be opened
        from understudy.servers.serve.working import begin_working  # only if servers share a database

        worker = await begin_working(engine, settings, operations, lambda: _address(settings, doors.port))
    known_hosts = [*settings.allow_host, *([urlsplit(settings.public_url).netloc] if settings.public_url else [])]
    guards = Guards(settings.host, settings.port, known_hosts, settings.allow_origin, open_to_all=settings.no_auth)
    app = App(engine, settings, principals, guards, offer)
    app.operations = operations
    ended = None
    if engine.log.is_remote:
        from understudy.servers.serve.working import begin_sharing

        ended = await begin_sharing(engine, app)
    push = _open_push(settings, engine, principals)
    if push is not None:
        app.page.push = push
        operations.observers.add(push)
    principals.when_changed = app.principals_changed
    measured = operations.around(app, lambda: app.open_calls)
    at_once, heads = app.at_once(measured), Heads(guards, principals)
    config = Config(
        measured,  # pyright: ignore[reportArgumentType]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        limit_concurrency=most_connections,
    )
    config.load()
    state = ServerState()
    try:
        await doors.open(lambda: Connection(config, state, heads, at_once), context, HEAD_SECONDS)
    except BaseException:
        doors.close()
        if ended is not None:
            await ended.stop()
        await engine.close()
        raise
    if doors.port:
        guards.note_port(doors.port)
        app.page.browsers.note_port(doors.port)
    looking = loop.create_task(_look_after(app, principals))
    if principals.issuer is not None:
        principals.issuer.address = _address(settings, doors.port)
    announce(_address(settings, doors.port))
    gc.freeze()  # the present objects will stay
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    if worker is not None:
        worker.start()
    code = await ending.wait()
    doors.close()
    app.draining = at_once.draining = True
    if worker is not None:
        await worker.stop()  # letters that come from now on wait for the next worker
    await _drain(app, engine, _seconds_to_drain(settings, worker))
    looking.cancel()
    if ended is not None:
        await ended.stop()
    await operations.stop()
    if push is not None:
        await push.close()
    await engine.close()
    if worker is not None:
        worker.close()
    operations.close()
    app.close()
    for connection in tuple(state.connections):
        connection.shutdown()
    if state.tasks:
        await asyncio.wait(tuple(state.tasks), timeout=LAST_WORDS_SECONDS)
    for connection in tuple(state.connections):
        connection.transport.abort()  # so that clients that do not read are disconnected too
    if state.tasks:
        await asyncio.wait(tuple(state.tasks), timeout=LAST_WORDS_SECONDS)
    for task in tuple(state.tasks):
        task.cancel()
    return code


class Doors:
    """Where it listens: on a port, on a Unix socket, or on both."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._servers: list[asyncio.Server] = []
        self._socket: UnixSocket | None = None
        self.port = 0

    async def open(self, connection: _Made, context: ssl.SSLContext | None, handshake_seconds: float) -> None:
        """Raises `ConfigError`; the caller must then still close what was opened."""
        loop, settings = asyncio.get_running_loop(), self._settings
        if settings.unix is not None:
            self._socket = UnixSocket(settings.unix, group=settings.unix_group, shared=bool(settings.users))
            self._servers.append(await loop.create_unix_server(connection, sock=self._socket.listening, backlog=2048))
        if not settings.on_port:
            return
        timeout = None if context is None else handshake_seconds
        try:
            for opened in await open_ports(settings.host, settings.port):
                self.port = opened.getsockname()[1]
                server = await loop.create_server(connection, sock=opened, ssl=context, ssl_handshake_timeout=timeout, backlog=2048)
                self._servers.append(server)
        except OSError as error:
            raise ConfigError(f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}") from None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.remove()
        for server in self._servers:
            server.close()


def _make_engine(settings: ServeSettings, cli: Sequence[tuple[str, Any]]) -> Engine:
    if settings.role == "all" and settings.host_name is None:
        return Engine(cli=cli)
    open_log = partial(open_store, host=settings.host_name, front=settings.role == "front")
    if settings.role != "front":
        engine = Engine(cli=cli, open_log=open_log)
        engine.host_name = settings.host_name or ""
        return engine
    from understudy.engine.roles.front import FrontEngine

    return FrontEngine(cli=cli, open_log=open_log)


async def _look_after(app: App, principals: Principals) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            principals.reload()
            app.look_after()
        except Exception:
            logger.exception("bug in looking after callers")


def _seconds_to_drain(settings: ServeSettings, worker: "Worker | None") -> float:
    """A worker that was drained before it is told to end has had some of the time already: service managers do one after the other,
    and give a grace period for both.
    """
    had = worker.drained_seconds if worker is not None and settings.role == "worker" else 0.0
    return max(0.0, settings.drain_seconds - had)


async def _drain(app: App, engine: Engine, seconds: float) -> None:
    """Let running calls and turns end by themselves, whether or not somebody waits for them; then interrupt the rest and record
    that.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while app.open_calls or engine.turns_under_way:  # noqa: ASYNC110  # nobody tells when the last one is answered
                await asyncio.sleep(BETWEEN_LOOKS_SECONDS)


def _open_push(settings: ServeSettings, engine: Engine, principals: Principals) -> "Push | None":
    """Raises `ConfigError`."""
    if settings.push_subject is None:
        return None
    if find_spec("cryptography") is None:  # the extra is optional
        raise ConfigError(f"`understudy.push` needs the package cryptography, which is not installed: {how_to_add('oauth')}")
    from understudy.servers.page.push import Push

    return Push(settings, engine, principals)


def _use_issuer(settings: ServeSettings, principals: Principals) -> None:
    """Raises `ConfigError`."""
    if settings.issuer is None or settings.no_auth:
        return
    if find_spec("joserfc") is None:  # the extra is optional
        raise ConfigError(f"`understudy.serve.issuer` needs joserfc, which is not installed: {how_to_add('oauth')}")
    from understudy.servers.http.issuer import Issuer
    from understudy.servers.http.issuer_keys import is_safe

    if not is_safe(settings.issuer):
        raise ConfigError("`understudy.serve.issuer` should be an address with https: whoever is on the way could sign tokens else")
    principals.issuer = Issuer(settings.issuer, settings.audience, HttpClient(), settings.issued, settings.groups_claim)


def _address(settings: ServeSettings, port: int) -> str:
    """The socket's address if the server has only a socket."""
    if settings.public_url:
        return settings.public_url.rstrip("/") + "/mcp"
    if not settings.on_port:
        return f"unix://{settings.unix}"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'http' if settings.tls_cert is None else 'https'}://{host}:{port}/mcp"


def _tls_context(settings: ServeSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {settings.tls_cert} or its key {settings.tls_key} cannot be used: {error}") from None
    return context


def _raise_file_limit() -> int:
    """Each stream is an open file, and the soft limit is meant for programs with few. Returns how many files may be open, as far as
    that matters here.
    """
    wanted = MOST_CONNECTIONS * 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return allowed
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return soft
