"""`understudy mcp login NAME` and `logout NAME`: OAuth for MCP servers with an address."""

import asyncio
import difflib
import logging
import sys
import threading
import webbrowser
from argparse import Namespace
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from hmac import compare_digest
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from understudy.cli.running.surroundings import ANY_MODEL
from understudy.cli.settings import read_config
from understudy.cli.tell.terminal import one_line
from understudy.config.mcp_credentials import write_credentials
from understudy.config.mcp_servers import McpServer
from understudy.config.model import Config
from understudy.engine.turn.other_servers import NOT_INSTALLED
from understudy.errors import BadRequest, ConfigError
from understudy.net.addresses import parse_url
from understudy.protocol.records import Overrides
from understudy.store.place import prepare_folder

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

LOGIN_SECONDS = 600.0  # for the person in the browser
ANSWER_SECONDS = 30.0
BROWSER_SECONDS = 3.0  # if it has not ended by then, it counts as opened
HEAD_BYTES = 16 * 1024
LONGEST_REASON = 500
_DONE = "You are logged in. This window can be closed."
_NOT_DONE = "The login did not succeed; the terminal says more. This window can be closed."
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "understudy", "version": "0"}},
}


def run(options: Namespace) -> int:
    config = read_config(options, Overrides(model=ANY_MODEL))
    server = _find(config, options.name)
    url = server.url or ""
    if options.action == "logout":
        had = write_credentials(config.state_dir, url, None)
        print(f"understudy: {'what the login had given is forgotten' if had else 'there was no login'}", file=sys.stderr)
        return 0
    _check(server)
    try:
        import_module("understudy.tools.mcp.login")
    except ImportError:
        raise ConfigError(NOT_INSTALLED) from None
    prepare_folder(config.state_dir)
    if asyncio.run(_log_in(config, url, options)):
        print(f"understudy: logged in to {server.name}. `understudy mcp test {server.name}` tries it.", file=sys.stderr)
    else:
        print(f"understudy: {server.name} asks for no login", file=sys.stderr)
    return 0


def _find(config: Config, name: str) -> McpServer:
    known = {server.name: server for server in (*config.mcp_servers, *config.disabled_servers)}
    if name not in known:
        meant = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        there = f"did you mean `{meant[0]}`?" if meant else "`understudy mcp list` shows which there are"
        raise BadRequest(f"there is no MCP server `{name}`; {there}")
    if known[name].url is None:
        raise BadRequest(f"`{name}` is a program: only servers with an address (`url`) are logged in to")
    return known[name]


def _check(server: McpServer) -> None:
    """Raises `BadRequest`."""
    headers = [*server.http_headers, *server.env_http_headers]
    if server.bearer_token_env_var is not None or any(name.lower() == "authorization" for name in headers):
        raise BadRequest(f"`{server.name}` has a token in its configuration already, which would be sent instead: remove it first")
    try:
        url = parse_url(server.url or "")
    except ValueError as error:
        raise BadRequest(f"the `url` of `{server.name}` is {error}") from None
    if url.scheme != "https" and not url.is_loopback:
        raise BadRequest(f"`{server.name}` has no https address: whoever is on the way could read what the login gives")


async def _log_in(config: Config, url: str, options: Namespace) -> bool:
    """Whether it wanted a login. Raises `BadRequest` that says why that failed."""
    import httpx2
    from mcp.client.auth import OAuthFlowError
    from mcp.shared.auth import OAuthClientInformationFull
    from pydantic import AnyUrl, ValidationError

    from understudy.tools.mcp.login import Kept, StoredLogin

    for name in ("mcp", "httpx2", "httpcore2"):  # their log messages may contain secrets
        logging.getLogger(name).setLevel(logging.CRITICAL)
    kept = Kept(config.state_dir, url)
    async with _waiting(options.port) as waiting:
        if options.client_id:
            redirects = [AnyUrl(waiting.address)]
            kept.use_client(
                OAuthClientInformationFull(client_id=options.client_id, redirect_uris=redirects, token_endpoint_auth_method="none")
            )

        async def ask(address: str) -> None:
            waiting.expect(address)
            await _show(address, opens=not options.no_browser)

        login = StoredLogin(url, kept, redirect=waiting.address, ask=ask, answered=waiting.answer)
        headers = {"accept": "application/json, text/event-stream"}
        try:
            async with (
                httpx2.AsyncClient(auth=login, timeout=ANSWER_SECONDS) as client,
                client.stream("POST", url, json=_HELLO, headers=headers) as response,
            ):
                status = response.status_code
        except (OAuthFlowError, ValidationError, ValueError) as error:
            raise BadRequest(f"the login did not succeed: {_reason(error)}") from None
        except httpx2.HTTPError as error:
            raise BadRequest(f"the server cannot be reached: {_reason(error)}") from None
    if status in (401, 403):
        raise BadRequest(f"the server refuses what the login has given (HTTP status {status})")
    if status >= 300:
        raise BadRequest(f"the server answers with HTTP status {status}: is `url` the address of its MCP endpoint?")
    return kept.found is not None


def _reason(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__)[:LONGEST_REASON]


async def _show(address: str, *, opens: bool) -> None:
    if urlsplit(address).scheme not in ("http", "https"):
        raise BadRequest("the server names an address to log in at that is none")
    opened = opens and await _open_browser(address)
    said = "A browser was opened. If it shows nothing, open" if opened else "Open"
    print(f"understudy: {said} this address to log in:\n\n  {one_line(address)}\n", file=sys.stderr, flush=True)


async def _open_browser(address: str) -> bool:
    """Some browsers run until they are closed, and need answers meanwhile."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[bool] = loop.create_future()

    def tell(opened: bool) -> None:
        if not told.done():
            told.set_result(opened)

    def open_it() -> None:
        try:
            opened = webbrowser.open(address)
        except webbrowser.Error:
            opened = False
        with suppress(RuntimeError):  # the login is over
            loop.call_soon_threadsafe(tell, opened)

    threading.Thread(target=open_it, daemon=True).start()
    try:
        async with asyncio.timeout(BROWSER_SECONDS):
            return await told
    except TimeoutError:
        return True


class _Waiting:
    """Waits for the browser to come back."""

    def __init__(self) -> None:
        self.address = ""
        self._state = ""
        self._came: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    def expect(self, address: str) -> None:
        """Accept only the browser that comes back with this state. Any page can send a browser here and would otherwise end this
        login."""
        self._state = next(iter(parse_qs(urlsplit(address).query).get("state", ())), "")

    async def answer(self) -> "AuthorizationCodeResult":
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                return await self._came
        except TimeoutError:
            raise BadRequest(f"nobody has logged in within {LOGIN_SECONDS / 60:.0f} minutes") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._take(head.split(b" ", 2)[1].decode("ascii", "replace"))
            body = f'<!doctype html><meta charset="utf-8"><title>understudy</title><p>{text}</p>'.encode()
            kind = b"content-type: text/html; charset=utf-8\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n"
            writer.write(b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, kind, len(body), body))
            await writer.drain()
        except (OSError, TimeoutError, IndexError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _take(self, target: str) -> tuple[bytes, str]:
        """The answer for the browser. Requests without the state that we sent are ignored. Raises `ValueError`."""
        from mcp.shared.auth import AuthorizationCodeResult

        parts = urlsplit(target)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        ours = bool(self._state) and compare_digest(given.get("state", "").encode(), self._state.encode())
        if parts.path != "/callback" or not ours or self._came.done():
            return b"404 Not Found", "There is nothing here."
        if "code" not in given:
            said = f"{given.get('error', 'no code came')} {given.get('error_description', '')}".strip()
            self._came.set_exception(BadRequest(f"the login did not succeed: {one_line(said)[:LONGEST_REASON]}"))
            return b"200 OK", _NOT_DONE
        self._came.set_result(AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss")))
        return b"200 OK", _DONE


@asynccontextmanager
async def _waiting(port: int) -> AsyncGenerator[_Waiting]:
    """Raises `BadRequest` if the port is not free."""
    waiting = _Waiting()
    try:
        server = await asyncio.start_server(waiting.serve, "127.0.0.1", port, limit=HEAD_BYTES)
    except (OSError, OverflowError) as error:
        raise BadRequest(f"cannot listen on port {port}, where the browser comes back to: {error}") from None
    waiting.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
    try:
        yield waiting
    finally:
        server.close()
