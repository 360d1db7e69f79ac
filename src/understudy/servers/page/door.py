"""The page's addresses: its files, which anyone may have, and logging in and out.

Fetching a link does not use it up: `/login` answers the same for every code, and only what the browser sends from there counts.
Programs that check links in messages do not get that far.

Files are read once, found by a table, and sent with headers that keep everything foreign out of the page.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

import msgspec

from understudy.config.serve import ServeSettings
from understudy.errors import ConfigError, report_bug
from understudy.protocol.callers import LOCAL_NAME
from understudy.servers.http.answers import Headers, Refusal, Send, encode, send_answer
from understudy.servers.http.asked import Asked, read_body
from understudy.servers.http.browsers import Browsers
from understudy.servers.http.guards import is_json
from understudy.servers.http.principals import Principals
from understudy.servers.page.links import Links

FOLDER = "/page/"
PUSH = "/push"
_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "ico": b"image/x-icon",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "map": b"application/json",
    "mjs": b"text/javascript; charset=utf-8",
    "png": b"image/png",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
    "webmanifest": b"application/manifest+json",
    "woff2": b"font/woff2",
}
_NAMED = {"/": "index.html", "/login": "login.html", "/favicon.ico": "favicon.ico"}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify understudy"
)
GUARDING: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class StaticFile(msgspec.Struct, frozen=True):
    data: bytes
    kind: bytes
    etag: str
    may_serve_all: bool  # a service worker, which controls the whole page and not only its own folder


class StaticFiles:
    def __init__(self) -> None:
        self._by_path: dict[str, StaticFile] | None = None

    def knows(self, path: str) -> bool:
        return path in _NAMED or path.startswith(FOLDER)

    async def serve(self, asked: Asked, send: Send) -> None:
        """Raises `Refusal`. The path is only compared with known names, so it cannot lead anywhere else."""
        if self._by_path is None:
            self._by_path = dict(_read_all())
        file = self._by_path.get(asked.path)
        if file is None:
            raise Refusal(404, "the page has no such file")
        if asked.method not in ("GET", "HEAD"):
            raise Refusal(405, f"{asked.method} is not for this address", headers=((b"allow", b"GET, HEAD"),))
        unchanged = file.etag in _tags(asked.header(b"if-none-match"))
        headers = [
            (b"content-type", file.kind),
            (b"etag", file.etag.encode()),
            (b"cache-control", b"no-cache"),  # cached, but checked each time, so that a new release is seen at once
            (b"content-security-policy", POLICY.encode()),
            *GUARDING,
            *(((b"service-worker-allowed", b"/"),) if file.may_serve_all else ()),
        ]
        if not unchanged:
            headers.append((b"content-length", str(len(file.data)).encode()))
        await send({"type": "http.response.start", "status": 304 if unchanged else 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if unchanged or asked.method == "HEAD" else file.data})


def _tags(header: str | None) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in (header or "").split(",")}


def _read_all() -> Iterator[tuple[str, StaticFile]]:
    top = resources.files("understudy.servers.page") / "static"
    found = {name: StaticFile(data, kind, _etag(data), name.endswith("sw.js")) for name, data, kind in _walk(top, "")}
    for path, name in _NAMED.items():
        if name in found:
            yield path, found[name]
    for name, file in found.items():
        yield FOLDER + name, file


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes, bytes]]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif (kind := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
            yield prefix + entry.name, entry.read_bytes(), kind


def _etag(data: bytes) -> str:
    return f'"{sha256(data).hexdigest()[:32]}"'


if TYPE_CHECKING:
    from understudy.servers.page.push import Push  # it needs cryptography

logger = logging.getLogger(__name__)

MOST_BYTES = 20 * 1024  # signed tokens can be long
LINK_OVER = "this link was used already, or is too old: `understudy open` makes another one"


class LoginRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Logs in with the code of a link, or with a token."""

    code: str | None = None
    token: str | None = None


async def _nobody_else(name: str) -> bool:
    """Whether a link is used for the first time: there are no servers with other folders."""
    return True


class Subscribe(msgspec.Struct, frozen=True):
    """In the browser's form."""

    endpoint: str
    keys: dict[str, str]


class PageDoor:
    def __init__(self, settings: ServeSettings, principals: Principals) -> None:
        self.browsers = Browsers(settings, principals)
        self._principals = principals
        self._links = Links(settings.state_dir)
        self._files = StaticFiles()
        self.when_logged_out: Callable[[str], None] | None = None  # called with the login's name
        self.use_for_all: Callable[[str], Awaitable[bool]] = _nobody_else
        self.push: Push | None = None  # set if it is configured

    def serves(self, path: str) -> bool:
        return path in ("/login", "/logout", PUSH) or self._files.knows(path)

    async def serve(self, asked: Asked, send: Send) -> None:
        """Raises `Refusal`. The request's origin and target have already been checked."""
        if asked.path in ("/login", "/logout") and asked.method == "POST":
            self.browsers.check_page(asked)  # even without a cookie, so that another page cannot log somebody in as somebody else
            await (self._log_in if asked.path == "/login" else self._log_out)(asked, send)
            return
        if asked.path == PUSH:
            await self._serve_push(asked, send)
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
            name = self._use(given.code)
            if name is None or not await self.use_for_all(name):
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

    def _use(self, code: str) -> str | None:
        try:
            return self._links.use(code)
        except OSError as error:
            raise Refusal(503, report_bug(logger, error, "in using a link")) from None

    async def _log_out(self, asked: Asked, send: Send) -> None:
        visitor = self.browsers.find(asked)
        if visitor is not None and visitor.login is not None:
            self.browsers.logins.end(visitor.login)
            if self.push is not None:
                self.push.forget(visitor.login)
            if self.when_logged_out is not None:
                self.when_logged_out(visitor.login.name)
        await self._answer(send, (b"set-cookie", self.browsers.no_cookie()))

    async def _serve_push(self, asked: Asked, send: Send) -> None:
        """The key for a browser's subscription, and subscribing itself. Raises `Refusal`."""
        visitor = self.browsers.find(asked)
        if visitor is None:
            raise Refusal(401, "log in first")
        if asked.method == "GET":  # the page asks whether push is offered
            key = None if self.push is None else self.push.public_key
            await send_answer(send, 200, encode({"key": key}), headers=((b"cache-control", b"no-store"), *GUARDING))
            return
        if self.push is None:
            raise Refusal(404, "browsers are not told of questions here: `understudy.push.subject` is not set")
        if asked.method != "POST":
            raise Refusal(405, f"{asked.method} is not for this address", headers=((b"allow", b"GET, POST"),))
        if not is_json(asked.header(b"content-type")):
            raise Refusal(415, "the content type should be application/json")
        given = read_body(await asked.body(MOST_BYTES), Subscribe)
        try:
            self.push.subscribe(visitor, given.endpoint, given.keys)
        except ConfigError as error:
            raise Refusal(503, str(error)) from None
        await self._answer(send)

    @staticmethod
    async def _answer(send: Send, *headers: tuple[bytes, bytes]) -> None:
        more: Headers = (*headers, (b"cache-control", b"no-store"), *GUARDING)
        await send_answer(send, 204, headers=more)
