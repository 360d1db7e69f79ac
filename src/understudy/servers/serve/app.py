"""The server as an ASGI application: decides who may come in, and who serves them: an era of MCP, REST, or the page."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from understudy.config.serve import ServeSettings
from understudy.engine.engine import Engine
from understudy.errors import StoreError, report_bug
from understudy.protocol.jsonrpc import Request, RequestId, read_line
from understudy.servers.http.answers import Message, Receive, Refusal, Send, encode, send_answer
from understudy.servers.http.asked import ROUTING, Asked, BodyRoom, ClientLeft, HeldBody
from understudy.servers.http.browsers import Visitor
from understudy.servers.http.guards import Guards, accepts, is_json
from understudy.servers.http.limiting import BUSY_SECONDS, Limiter
from understudy.servers.http.measured import Measured
from understudy.servers.http.peers import SocketUsers
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.mcp.handshake import MODERN, VERSIONS
from understudy.servers.mcp.tool_table import OFFER, Offer
from understudy.servers.mcp_http.at_once import AtOnce
from understudy.servers.mcp_http.ids import SessionIds
from understudy.servers.mcp_http.legacy import Legacy
from understudy.servers.mcp_http.modern import Modern
from understudy.servers.page.door import PageDoor
from understudy.servers.rest.door import RestDoor
from understudy.servers.rest.failures import body_of
from understudy.servers.serve.operations import Operations

logger = logging.getLogger(__name__)

ENDPOINT = "/mcp"
SHARES_OF_A_REQUEST = 8
_METHODS = ("GET", "POST", "DELETE")
_CORS_HEADERS = b"authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id"


def refusal_body(refusal: Refusal, path: str) -> bytes:
    """In the format of the part that serves that path."""
    return refusal.body.rstrip(b"\n") if path == ENDPOINT else body_of(refusal)


class App:
    def __init__(
        self, engine: Engine, settings: ServeSettings, principals: Principals, guards: Guards, offer: Offer = OFFER
    ) -> None:
        self._log = engine.log
        self._pace = engine.pace
        self._offer = offer
        self._principals = principals
        self._guards = guards
        self._users = SocketUsers(settings, principals)
        self._limiter = Limiter(settings.rate, settings.concurrency, asyncio.get_running_loop().time)
        self._most = settings.max_body_mb << 20
        self.legacy = Legacy(engine, SessionIds(settings.state_dir), offer)
        self.modern = Modern(engine, settings.on_disconnect, offer)
        self.page = PageDoor(settings, principals)
        self._bodies = BodyRoom(self._most)
        self.rest = RestDoor(engine, self._most, self._bodies)
        self.page.when_logged_out = self.rest.logged_out
        self.draining = False
        self.operations: Operations | None = None

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        asked = Asked(scope, receive)
        answering = _Answering(send, self._cors_headers(asked))
        await self._run_guarded(asked, answering, self._serve(asked, answering))

    def at_once(self, measured: Measured) -> AtOnce:
        """Serves requests that need nothing else of this application."""

        async def run(asked: Asked, send: Send, rest: Callable[[Send], Awaitable[None]]) -> None:
            answering = _Answering(send, ())
            await self._run_guarded(asked, answering, rest(answering))

        return AtOnce(self.legacy, self.modern, self._principals, self._limiter, measured, run)

    async def _run_guarded(self, asked: Asked, answering: "_Answering", serving: Awaitable[None]) -> None:
        try:
            await serving
        except ClientLeft:
            pass
        except Refusal as refusal:
            await send_answer(answering, refusal.status, refusal_body(refusal, asked.path), refusal.headers)
        except Exception as error:
            reason = report_bug(logger, error, "in serving %s %s", asked.method, asked.path)
            if not answering.begun:
                await send_answer(answering, 500, refusal_body(Refusal(500, reason, code=-32603), asked.path))

    async def _serve(self, asked: Asked, send: Send) -> None:
        if asked.path == "/healthz" and asked.method in ("GET", "HEAD"):
            await send_answer(send, 200, encode({"status": "draining" if self.draining else "ok"}))
            return
        if asked.path == "/readyz" and asked.method in ("GET", "HEAD"):
            ready = not self.draining and await self._can_read()
            await send_answer(send, 200 if ready else 503, encode({"status": "ok" if ready else "not ready"}))
            return
        if asked.path == "/metrics" and self.operations is not None:
            if self._principals.are_open:  # without tokens, only its origin keeps another site's page out
                self._check_place(asked)
            await self.operations.show_metrics(asked, self._principals, self._users, self._limiter, send)
            return
        if (issuer := self._principals.issuer) is not None and issuer.serves(asked.path):
            await issuer.show_metadata(asked.method, send)
            return
        self._check_place(asked)
        await self._pace.take(SHARES_OF_A_REQUEST)
        if asked.path == "/openapi.json" and asked.method in ("GET", "HEAD"):
            await self.rest.describe(asked, send)
            return
        if self.page.serves(asked.path):
            await self.page.serve(asked, send)
            return
        methods = _METHODS if asked.path == ENDPOINT else self.rest.methods(asked.path)
        if not methods:
            raise Refusal(404, f"nothing is here; MCP is at {ENDPOINT}, and /openapi.json says what else there is")
        if asked.method == "OPTIONS" and self._is_allowed_origin(asked):
            await self._allow_origin(send)
            return
        if asked.method not in methods:
            raise Refusal(405, f"{asked.method} is not for this address", headers=((b"allow", ", ".join(methods).encode()),))
        await self._principals.learn(asked.header(b"authorization"))
        visitor = self._find_visitor(asked)
        principal = visitor.principal
        if asked.twice is not None and asked.twice not in ROUTING:
            raise Refusal(400, f"the header {asked.twice.decode()} is sent twice")
        if self.draining:
            raise Refusal(503, "the server is about to end", headers=((b"retry-after", b"5"), (b"connection", b"close")))
        admitted = _Admitted(self._limiter, principal.name, briefly=asked.method != "GET")
        try:
            if asked.path == ENDPOINT:
                await self._dispatch(asked, principal, admitted, send)
            else:
                await self.rest.serve(asked, visitor, send)
        except Refusal as refusal:
            if refusal.lacks is not None and asked.path != ENDPOINT:
                self._challenging(refusal, principal)
            raise
        finally:
            admitted.leave()

    def _find_visitor(self, asked: Asked) -> Visitor:
        """The visitor by their token, or on the page's paths by their cookie. Raises `Refusal`."""
        authorization = asked.header(b"authorization")
        if (principal := self._principals.find(authorization)) is not None:
            if asked.path != ENDPOINT and authorization is None:  # no token is needed here
                self.page.browsers.check_site(asked)
            return Visitor(principal)
        if asked.path != ENDPOINT and authorization is None and (visitor := self.page.browsers.find(asked)) is not None:
            return visitor
        if (principal := self._users.find(asked)) is not None:
            return Visitor(principal)
        reason = "a token is needed: send it as `Authorization: Bearer TOKEN`"
        raise Refusal(401, reason, headers=((b"www-authenticate", self._principals.challenge(authorization)),))

    async def _can_read(self) -> bool:
        try:
            await self._log.list(1)
        except StoreError as error:
            logger.warning("not ready: %s", error)
            return False
        return True

    def _check_place(self, asked: Asked) -> None:
        host = asked.header(b"host") or ""
        if asked.twice == b"host" or not self._guards.allows_host(host):
            raise Refusal(421, "this Host is not served here; `--allow-host` adds one")
        origin = asked.header(b"origin")
        if asked.twice == b"origin" or (origin is not None and not self._guards.allows_origin(origin, host)):
            raise Refusal(403, "pages of this Origin may not call the server; `--allow-origin` adds one")

    async def _dispatch(self, asked: Asked, principal: Principal, admitted: "_Admitted", send: Send) -> None:
        version = asked.header(b"mcp-protocol-version")
        modern = version == MODERN or (
            version is not None and version not in VERSIONS and not self.legacy.knows(asked.header(b"mcp-session-id"))
        )
        if asked.method != "POST":
            if modern:
                raise Refusal(405, "this era has only POST", headers=((b"allow", b"POST"),))
            await (self.legacy.get if asked.method == "GET" else self.legacy.delete)(asked, principal, send)
            return
        if not is_json(asked.header(b"content-type")):
            raise Refusal(415, "the content type should be application/json")
        if not accepts(asked.header(b"accept"), "application/json", "text/event-stream"):
            raise Refusal(406, "answers are application/json or text/event-stream, and the request accepts neither")
        message = read_line(await asked.body(self._most, HeldBody(self._bodies, principal.name)), marked=True)
        if isinstance(message, Request):
            admitted.stay(message)
            if principal.issued:
                self._check_scopes(message, principal)
        await (self.modern if modern else self.legacy).post(asked, message, principal, send)

    def _check_scopes(self, request: Request, principal: Principal) -> None:
        """Raises `Refusal`."""
        from understudy.servers.http.issuer import lacking_rights  # few servers have an issuer

        if lacking := lacking_rights(principal.caller, request, self._offer):
            reason = f"the token lacks the scope {' '.join(f'understudy:{right}' for right in lacking)}"
            refusal = Refusal(403, reason, request_id=request.id, lacks=(lacking[0], False))
            raise self._challenging(refusal, principal, *(f"understudy:{right}" for right in lacking))

    def _challenging(self, refusal: Refusal, principal: Principal, *scopes: str) -> Refusal:
        """Add the missing scopes to the refusal, for the owner of an issuer's token."""
        issuer = self._principals.issuer
        if issuer is not None and principal.issued and refusal.lacks is not None:
            right, on_others = refusal.lacks
            needed = scopes or (f"understudy:{'others:' if on_others else ''}{right}",)
            refusal.headers = (*refusal.headers, (b"www-authenticate", issuer.challenge_for(principal.caller, *needed)))
        return refusal

    # -- allowed pages of other sites

    def _is_allowed_origin(self, asked: Asked) -> bool:
        return (asked.header(b"origin") or "").lower() in self._guards.origins

    def _cors_headers(self, asked: Asked) -> tuple[tuple[bytes, bytes], ...]:
        if not self._is_allowed_origin(asked):
            return ()
        origin = (asked.header(b"origin") or "").encode("latin-1")
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"mcp-session-id"),
            (b"vary", b"origin"),
        )

    @staticmethod
    async def _allow_origin(send: Send) -> None:
        headers = (
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", _CORS_HEADERS),
            (b"access-control-max-age", b"600"),
        )
        await send_answer(send, 204, headers=headers)

    # -- the server

    def look_after(self) -> None:
        """To be called about every second."""
        self.legacy.look_after()
        self.page.browsers.logins.reload()

    def principals_changed(self) -> None:
        self.legacy.principals_changed(self._principals)
        self.modern.principals_changed(self._principals)
        self.rest.principals_changed(self._principals)

    @property
    def open_calls(self) -> int:
        return self.legacy.open_calls + self.modern.open_calls

    def close(self) -> None:
        """Tell those who still wait that the server ends."""
        self.legacy.close()
        self.modern.close()
        self.rest.close()


class _Admitted:
    """A request that counts from here on until `leave`. Raises `Refusal` if its caller has too many."""

    def __init__(self, limiter: Limiter, name: str, *, briefly: bool) -> None:
        wait = limiter.enter_briefly(name) if briefly else limiter.enter(name)
        if wait is not None:
            raise _too_many(wait)
        self._limiter = limiter
        self._name = name
        self._briefly = briefly

    def stay(self, request: Request) -> None:
        """The request may take long: of these, fewer are allowed. Raises `Refusal`."""
        if not self._limiter.stay(self._name):
            raise _too_many(BUSY_SECONDS, request.id)
        self._briefly = False

    def leave(self) -> None:
        (self._limiter.leave_briefly if self._briefly else self._limiter.leave)(self._name)


def _too_many(wait: int, request_id: RequestId | None = None) -> Refusal:
    headers = ((b"retry-after", str(wait).encode()),)
    return Refusal(429, "too many requests with this token at once", headers=headers, request_id=request_id)


class _Answering:
    """`send` of one request: knows whether an answer has begun, and adds headers for other sites' pages."""

    def __init__(self, send: Send, more: tuple[tuple[bytes, bytes], ...]) -> None:
        self._send = send
        self._more = more
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            if self._more:
                message = {**message, "headers": [*message["headers"], *self._more]}
        await self._send(message)
