"""The page's addresses: its files, which anyone may have, and logging in and out.

A link is not used up by being fetched: what `/login` answers with is the same for every code, and only what the browser sends
from there counts. Programs that look at links in messages do not get that far.
"""

import logging
from collections.abc import Callable

import msgspec

from understudy.config.serve import ServeSettings
from understudy.errors import report_bug
from understudy.protocol.callers import LOCAL_NAME
from understudy.servers.http.answers import Headers, Refusal, Send, send_answer
from understudy.servers.http.asked import Asked
from understudy.servers.http.guards import is_json
from understudy.servers.http.principals import Principals
from understudy.servers.page.browsers import Browsers
from understudy.servers.page.files import GUARDING, StaticFiles
from understudy.servers.page.links import Links
from understudy.servers.page.logins import Login
from understudy.servers.rest.bodies import read_body

logger = logging.getLogger(__name__)

MOST_BYTES = 20 * 1024  # signed tokens can be long
LINK_OVER = "this link was used already, or is too old: `understudy open` makes another one"


class LoginRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With the code of a link, or with a token."""

    code: str | None = None
    token: str | None = None


class PageDoor:
    def __init__(self, settings: ServeSettings, principals: Principals) -> None:
        self.browsers = Browsers(settings, principals)
        self._principals = principals
        self._links = Links(settings.state_dir)
        self._files = StaticFiles()
        self.when_logged_out: Callable[[Login], None] | None = None

    def serves(self, path: str) -> bool:
        return path in ("/login", "/logout") or self._files.knows(path)

    async def serve(self, asked: Asked, send: Send) -> None:
        """Raises `Refusal`. Where it comes from and goes to is checked already."""
        if asked.path in ("/login", "/logout") and asked.method == "POST":
            self.browsers.check_page(asked)  # also before there is a cookie: nobody is logged in as somebody else
            await (self._log_in if asked.path == "/login" else self._log_out)(asked, send)
            return
        if asked.path == "/logout":
            raise Refusal(405, "logging out is a POST", headers=((b"allow", b"POST"),))
        await self._files.serve(asked, send)

    async def _log_in(self, asked: Asked, send: Send) -> None:
        if not is_json(asked.header(b"content-type")):
            raise Refusal(415, "the content type should be application/json")
        given = read_body(await asked.body(MOST_BYTES), LoginRequest)
        end: float | None = None
        if given.code is not None:
            if not self._use(given.code):
                raise Refusal(401, LINK_OVER)
            principal = self._principals.current(LOCAL_NAME)
        elif given.token:
            authorization = f"Bearer {given.token}"
            await self._principals.learn(authorization)
            principal = self._principals.find(authorization)
            end = self._principals.end_of(authorization)
        else:
            principal = None
        if principal is None or not principal.token_hash:
            raise Refusal(401, "this token is not known here, or is not valid any more")
        await self._answer(send, (b"set-cookie", self.browsers.cookie_for(principal, end)))

    def _use(self, code: str) -> bool:
        try:
            return self._links.use(code)
        except OSError as error:
            raise Refusal(503, report_bug(logger, error, "in using a link")) from None

    async def _log_out(self, asked: Asked, send: Send) -> None:
        visitor = self.browsers.find(asked)
        if visitor is not None and visitor.login is not None:
            self.browsers.logins.end(visitor.login)
            if self.when_logged_out is not None:
                self.when_logged_out(visitor.login)
        await self._answer(send, (b"set-cookie", self.browsers.no_cookie()))

    @staticmethod
    async def _answer(send: Send, *headers: tuple[bytes, bytes]) -> None:
        more: Headers = (*headers, (b"cache-control", b"no-store"), *GUARDING)
        await send_answer(send, 204, headers=more)
