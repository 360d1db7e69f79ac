"""The files of the page: read once, named by a table, and sent with headers that keep everything foreign out of it."""

from collections.abc import Iterator
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec

from understudy.servers.http.answers import Headers, Refusal, Send
from understudy.servers.http.asked import Asked

FOLDER = "/page/"
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
    may_serve_all: bool  # a service worker, which looks after the whole page and not only its own folder


class StaticFiles:
    def __init__(self) -> None:
        self._by_path: dict[str, StaticFile] | None = None

    def knows(self, path: str) -> bool:
        return path in _NAMED or path.startswith(FOLDER)

    async def serve(self, asked: Asked, send: Send) -> None:
        """Raises `Refusal`. The path is only looked up among the names that there are, so it leads nowhere else."""
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
            (b"cache-control", b"no-cache"),  # kept, and asked for again each time: a new release is seen at once
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
