"""REST on the server: finds a request's route, reads the request strictly, and answers with the handler's result or error."""

import logging

import msgspec

from understudy.engine.engine import Engine
from understudy.servers.http import stream_sink
from understudy.servers.http.answers import Headers, Refusal, Send
from understudy.servers.http.asked import Asked, BodyRoom, ClientLeft, HeldBody, read_body, read_query
from understudy.servers.http.browsers import Visitor
from understudy.servers.http.guards import is_json
from understudy.servers.http.principals import Principals
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.http.streaming import send_stream
from understudy.servers.rest.changes import Changes, ChangesStream
from understudy.servers.rest.event_stream import EventStream, WhoWatches
from understudy.servers.rest.failures import to_refusal
from understudy.servers.rest.openapi import openapi_document
from understudy.servers.rest.routes import Route, Routes
from understudy.servers.rest.visits import RestAnswer, Visit

logger = logging.getLogger(__name__)

PIECE_BYTES = 256 * 1024  # sent at once: a client that does not read keeps its request open, and open requests are limited

GUARDING: Headers = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)


class RestDoor:
    def __init__(self, engine: Engine, most_bytes: int, bodies: BodyRoom) -> None:
        self._bodies = bodies
        self._engine = engine
        self._most = most_bytes
        self._routes = Routes()
        self._changes = Changes(engine)
        self._streams: dict[EventStream, Visitor] = {}
        self._watching = WhoWatches(engine)

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods of a path; empty if there is none."""
        return tuple(self._routes.find(path))

    @staticmethod
    async def describe(asked: Asked, send: Send) -> None:
        document = openapi_document()
        headers = (*GUARDING, (b"content-type", b"application/json"), (b"content-length", str(len(document)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if asked.method == "HEAD" else document})

    async def serve(self, asked: Asked, visitor: Visitor, send: Send) -> None:
        """Raises `Refusal`. The visitor may come in; the handlers check what they may do."""
        found = self._routes.find(asked.path).get(asked.method)
        if found is None:
            raise Refusal(404, "nothing is here; /openapi.json says what there is")
        route, named = found
        try:
            given = await self._read(asked, route, visitor)
            answer = await route.handler(Visit(self._engine, self._changes, visitor, asked, named), *given)
        except (ClientLeft, Refusal):
            raise
        except Exception as error:
            raise to_refusal(error) from error
        if isinstance(answer, EventStream):
            await self._stream(answer, visitor, asked, send)
        elif isinstance(answer, ChangesStream):
            try:
                await send_stream(answer.sink, asked.receive, send, GUARDING_STREAM)
            finally:
                self._changes.leave(answer)
        else:
            whole = answer if isinstance(answer, RestAnswer) else RestAnswer(answer, route.status)
            await _send(send, whole)

    async def _read(self, asked: Asked, route: Route, visitor: Visitor) -> list[object]:
        given: list[object] = []
        if route.query is not None:
            given.append(read_query(asked.query, route.query))
        elif asked.query:
            raise Refusal(400, "nothing is asked for by the query of this address")
        if route.method != "GET":
            body = await asked.body(self._most, HeldBody(self._bodies, visitor.principal.name))
            if route.body is not None:
                if not is_json(asked.header(b"content-type")):
                    raise Refusal(415, "the content type should be application/json")
                given.append(read_body(body, route.body))
            elif body.strip() not in (b"", b"{}"):
                raise Refusal(400, "nothing is read from the body here: leave it empty")
        return given

    async def _stream(self, stream: EventStream, visitor: Visitor, asked: Asked, send: Send) -> None:
        self._streams[stream] = visitor
        self._watching.come(stream)
        try:
            await send_stream(stream.sink, asked.receive, send, GUARDING_STREAM)
        finally:
            self._streams.pop(stream, None)
            stream.stop()
            stream.sink.close()
            self._watching.leave(stream)

    # -- the server

    def _open(self) -> list[tuple[Visitor, StreamSink]]:
        events = [(visitor, stream.sink) for stream, visitor in self._streams.items()]
        return events + [(stream.visitor, stream.sink) for stream in self._changes.streams]

    def principals_changed(self, principals: Principals) -> None:
        """Close the connections of callers whose rights have changed or gone."""
        for visitor, sink in self._open():
            if principals.current(visitor.principal.name) != visitor.principal:
                sink.end()

    def logged_out(self, login: str) -> None:
        """`login`: its name."""
        for visitor, sink in self._open():
            if visitor.login is not None and visitor.login.name == login:
                sink.end()

    def close(self) -> None:
        """The server ends: close the streams; their clients come back to the next server."""
        self._watching.end()
        for _, sink in self._open():
            sink.end()


GUARDING_STREAM: Headers = tuple(header for header in GUARDING if header[0] not in dict(stream_sink.HEADERS))


async def _send(send: Send, answer: RestAnswer) -> None:
    body = b"" if answer.body is None else answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
    headers = dict(GUARDING) | {b"content-length": str(len(body)).encode()}
    if body:
        headers[b"content-type"] = b"application/json"
    headers |= dict(answer.headers)
    await send({"type": "http.response.start", "status": answer.status, "headers": list(headers.items())})
    for begin in range(0, max(1, len(body)), PIECE_BYTES):
        end = begin + PIECE_BYTES
        await send({"type": "http.response.body", "body": body[begin:end], "more_body": end < len(body)})
