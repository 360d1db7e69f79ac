"""Requests that are answered at once: what is answered, what is left to the application, and what a caller's count is then."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.config.serve import ServeSettings
from understudy.config.tokens import first_token, hash_of
from understudy.engine.engine import Engine
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import Request
from understudy.servers.http.answers import Message, Receive, Refusal, Send
from understudy.servers.http.asked import Asked
from understudy.servers.http.heads import Head
from understudy.servers.http.limiting import Limiter
from understudy.servers.http.measured import Measured
from understudy.servers.http.metrics import Metrics
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.http.streaming import Exchange
from understudy.servers.mcp_http.at_once import AtOnce
from understudy.servers.process.request_scope import REQUEST, RequestScope
from understudy.testing import CodexHome

PING = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
ANNA, OLD = "us_anna_anna_anna_anna", "us_old_old_old_old_old"
MOST_OPEN = 2


class TestedExchange(Exchange):
    __slots__ = ("_status", "finished")
    __test__ = False

    def __init__(self, sink: StreamSink, status: int) -> None:
        super().__init__(sink)
        self._status = status
        self.finished = 0

    @property
    def status(self) -> int:
        return self._status

    def finish(self) -> None:
        self.finished += 1


class TestedEra:
    """Begins what it was told to begin, and keeps what it was asked."""

    __test__ = False

    def __init__(self) -> None:
        self.next: Callable[[], Exchange | None] = lambda: None
        self.begun: list[tuple[str, str, RequestScope | None]] = []

    def begin(self, head: Head, request: Request, principal: Principal) -> Exchange | None:
        self.begun.append((request.method, principal.name, REQUEST.get()))
        return self.next()


class Door:
    def __init__(self, folder: Path) -> None:
        named = "".join(
            f'[[token]]\nname = "{name}"\nhash = "{hash_of(token)}"\nrights = ["run"]\n{more}\n'
            for name, token, more in (("anna", ANNA, ""), ("old", OLD, 'expires = "2020-01-01T00:00:00Z"'))
        )
        (folder / "tokens.toml").write_text(named)
        (folder / "tokens.toml").chmod(0o600)
        settings = ServeSettings(state_dir=folder, token_file=folder / "token")
        self.engine = Engine(env=CodexHome(folder / "home", "http://127.0.0.1:9/v1").environment())
        self.metrics = Metrics(self.engine)
        self.first = first_token(settings.token_file)
        self.legacy, self.modern = TestedEra(), TestedEra()
        self.guarded: list[str] = []
        self.limiter = Limiter(0, MOST_OPEN, lambda: 0.0)
        measured = Measured(self._nobody, self.metrics)
        self.principals = Principals(settings)
        self.at_once = AtOnce(self.legacy, self.modern, self.principals, self.limiter, measured, self._guard)

    async def _nobody(self, scope: object, receive: Receive, send: Send) -> None:
        raise AssertionError("the application is not asked")

    async def _guard(self, asked: Asked, send: Send, run: Callable[[Send], Awaitable[None]]) -> None:
        self.guarded.append(asked.path)
        await run(send)

    def head(self, token: str = ANNA, *, modern: bool = False) -> Head:
        version = b"2026-07-28" if modern else b"2025-11-25"
        headers = [
            (b"authorization", b"Bearer " + token.encode()),
            (b"mcp-session-id", b"s1"),
            (b"mcp-protocol-version", version),
            (b"x-request-id", b"request-1"),
        ]

        async def receive() -> Message:
            raise AssertionError("nothing comes")

        return Head(Asked({"method": "POST", "path": "/mcp", "headers": headers}, receive), len(PING))

    def serve(self, token: str = ANNA, *, modern: bool = False, body: bytes = PING) -> Any:
        answer = self.at_once.serve(self.head(token, modern=modern), body, "10.0.0.9")
        assert REQUEST.get() is None  # what comes next belongs to another request
        return answer

    def answers(self, line: bytes | None, status: int = 200) -> TestedExchange:
        """What the legacy era begins next; without a line, something that takes longer."""
        sink = StreamSink(asyncio.get_running_loop())
        if line is not None:
            sink.answer(line, 7)
        exchange = TestedExchange(sink, status)
        self.legacy.next = lambda: exchange
        return exchange

    def room(self, name: str = "anna") -> int:
        """How many more requests of the caller may be open."""
        entered = 0
        while entered < 10 and self.limiter.enter(name) is None:
            entered += 1
        for _ in range(entered):
            self.limiter.leave(name)
        return entered

    def counted(self) -> str:
        return "".join(self.metrics.requests.samples())


@pytest.fixture
async def door(tmp_path: Path) -> Any:
    door = Door(tmp_path)
    yield door
    await door.engine.close()


async def test_an_answer_that_is_there_is_sent_whole_and_counted(door: Door) -> None:
    exchange = door.answers(b'{"id":7}\n')
    assert door.serve() == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\nmcp-session-id: s1\r\n\r\n" + b'{"id":7}'
    )
    assert (exchange.finished, door.room(), door.modern.begun) == (1, MOST_OPEN, [])
    assert door.counted() == 'understudy_http_requests_total{method="POST",status="200"} 1\n'
    [(method, name, scope)] = door.legacy.begun
    assert scope is not None
    assert (method, name, scope.method, scope.path) == ("ping", "anna", "POST", "/mcp")
    assert (scope.peer, scope.caller, scope.id) == ("10.0.0.9", "anna", "request-1")


@pytest.mark.parametrize(("status", "words"), [(400, b"Bad Request"), (404, b"Not Found")])
async def test_an_error_has_its_status(door: Door, status: int, words: bytes) -> None:
    door.answers(b"{}", status)
    assert door.serve().startswith(b"HTTP/1.1 %d %b\r\n" % (status, words))
    assert f'status="{status}"' in door.counted()


async def test_the_era_is_that_of_the_head(door: Door) -> None:
    door.answers(b"{}")
    door.modern.next, door.legacy.next = door.legacy.next, lambda: None
    assert door.serve(modern=True) == b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    assert (len(door.modern.begun), door.legacy.begun) == (1, [])


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b'{"jsonrpc": "2.0", "id": 7, "result": {}}',
        b"[" + PING + b"]",
        b"{",
        b"",
    ],
)
async def test_what_is_no_request_is_left_to_the_application(door: Door, body: bytes) -> None:
    door.answers(b"{}")
    assert door.serve(body=body) is None
    assert (door.legacy.begun, door.counted()) == ([], "")


async def test_a_server_that_ends_leaves_all_to_the_application(door: Door) -> None:
    door.answers(b"{}")
    door.at_once.draining = True
    assert door.serve() is None
    assert door.legacy.begun == []


@pytest.mark.parametrize("token", [OLD, "us_nobody_nobody_nobody", ""])
async def test_nobody_is_served_without_a_token_that_counts(door: Door, token: str) -> None:
    door.answers(b"{}")
    assert door.serve(token) is None
    assert (door.legacy.begun, door.counted()) == ([], "")


async def test_who_has_too_many_requests_open_is_told_by_the_application(door: Door) -> None:
    door.answers(b"{}")
    for _ in range(MOST_OPEN):
        door.limiter.enter("anna")
    assert door.serve() is None
    assert door.legacy.begun == []
    door.limiter.leave("anna")
    assert door.serve() is not None
    assert door.serve(door.first) is not None  # the local user has no measure


async def test_what_an_era_does_not_begin_counts_for_nothing(door: Door) -> None:
    for _ in range(2 * MOST_OPEN):
        assert door.serve() is None
    assert (len(door.legacy.begun), door.room(), door.counted()) == (2 * MOST_OPEN, MOST_OPEN, "")


async def test_what_is_refused_after_all_is_left_to_the_application_and_counts_for_nothing(door: Door) -> None:
    def refuse() -> Exchange:
        raise Refusal(403, "no")

    door.legacy.next = refuse
    for _ in range(2 * MOST_OPEN):
        assert door.serve() is None
    assert (door.room(), door.counted()) == (MOST_OPEN, "")


async def test_tokens_of_an_issuer_are_left_to_the_application(door: Door) -> None:
    class Signs:
        """Stands for an issuer, whose tokens all look alike here."""

        def looks_like_one(self, token: str) -> bool:
            return True

        def find(self, token: str, names: frozenset[str]) -> Principal:
            if token == ANNA:
                raise Refusal(403, "it allows nothing")
            return Principal(Caller("bert", frozenset({"run"}), frozenset()), issued=True)

    door.principals.issuer = Signs()  # pyright: ignore[reportAttributeAccessIssue]
    door.answers(b"{}")
    assert [door.serve(ANNA), door.serve(OLD)] == [None, None]
    assert (door.legacy.begun, door.counted()) == ([], "")


async def test_a_bug_is_one_answer_and_the_next_request_is_served(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Exchange:
        raise ZeroDivisionError("of ours")

    door.legacy.next = fail
    for _ in range(2 * MOST_OPEN):
        head, _, body = door.serve().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"
        error = json.loads(body)["error"]
        assert error["code"] == -32603
        assert "internal error" in error["message"]
        assert "of ours" not in error["message"]
    assert "in serving POST /mcp" in caplog.text
    assert (door.room(), door.counted()) == (MOST_OPEN, 'understudy_http_requests_total{method="POST",status="500"} 4\n')
    door.answers(b"{}")
    assert door.serve().startswith(b"HTTP/1.1 200 ")


async def test_what_takes_longer_is_served_under_guard_and_counts_until_it_is_over(door: Door) -> None:
    exchange = door.answers(None)
    rest = door.serve()
    assert (door.room(), door.counted(), exchange.finished) == (MOST_OPEN - 1, "", 0)
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()  # the client stays
        return {}

    async def send(message: Message) -> None:
        sent.append(message)

    serving = asyncio.ensure_future(rest({}, receive, send))
    await asyncio.sleep(0)
    exchange.sink.answer(b'{"id":7}\n', 7)
    await asyncio.wait_for(serving, 60)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert json.loads(sent[1]["body"]) == {"id": 7}
    assert (door.guarded, exchange.finished, door.room()) == (["/mcp"], 1, MOST_OPEN)
    assert door.counted() == 'understudy_http_requests_total{method="POST",status="200"} 1\n'


async def test_the_count_goes_down_when_the_rest_fails(door: Door) -> None:
    door.answers(None)
    rest = door.serve()

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {}

    async def send(message: Message) -> None:
        raise AssertionError("nothing is sent")

    serving = asyncio.ensure_future(rest({}, receive, send))
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert door.room() == MOST_OPEN
    assert door.counted() == 'understudy_http_requests_total{method="POST",status="499"} 1\n'
