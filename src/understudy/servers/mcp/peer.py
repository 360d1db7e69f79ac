"""The client at the other end: what it negotiated, and the requests that it has not answered."""

import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from understudy.protocol.jsonrpc import RequestId, Response, notification_line, request_line
from understudy.servers.mcp.handshake import NEWEST, Handshake
from understudy.servers.sink import Sink
from understudy.servers.wire_events.event_codec import Encoded

logger = logging.getLogger(__name__)

FIRST_WITH_FORMS = "2025-11-25"  # from this version on a client shows only the question's text and a form
MOST_OF_NAME = 64  # characters of a client's own name that records keep
LAST_OF_SEED = "2025-06-18"  # the newest protocol of clients from the seed's time

Methods = Literal["both", "codex/event", "none"]

# Clients that warn of every notification they do not know, or disconnect at the first: name and version in `initialize`.
DISTURBED_BY_EVENTS = frozenset({("mcp", "0.1.0")})  # the Python SDK, and programs built on it without a name of their own


def default_methods(handshake: Handshake, protocol: str) -> Methods:
    """The methods under which a client gets events if nobody has configured that."""
    if (handshake.name, handshake.name_version) in DISTURBED_BY_EVENTS and not handshake.extended:
        return "none"  # from 2.0 on it is not disturbed, but gets events only if it declares the extension
    return "both" if protocol <= LAST_OF_SEED else "codex/event"


class UnansweredQuestion(msgspec.Struct, frozen=True):
    """A question that the client has not answered."""

    request_id: RequestId
    question: object


class _OpenRequest(msgspec.Struct, frozen=True):
    """One of our requests that the client has not answered, and the sink through which it was sent."""

    on_answer: Callable[[Response], None]
    sink: Sink
    related_to: RequestId | None


class Peer:
    """One client, from `initialize` on. It knows no transport: each of our requests names the sink through which it is sent."""

    def __init__(self) -> None:
        self.version = NEWEST
        self.can_be_asked = False  # it declared elicitation
        self.methods: Methods = "both"  # for its events, if the configuration does not say
        self.initialized = False
        self.handshake: Handshake | None = None
        self.names_questions = False  # any process must understand an answer, even after a restart
        # open questions by conversation, turn and call id, because models reuse call ids:
        self.asked: dict[tuple[str, str, str], UnansweredQuestion] = {}
        self._open: dict[RequestId, _OpenRequest] = {}
        self._next_id = 0

    def meet(self, handshake: Handshake, version: str) -> None:
        """The client has introduced itself, and this protocol version applies."""
        self.initialized = True
        self.handshake = handshake
        self.version = version
        self.can_be_asked = handshake.can_be_asked
        self.methods = default_methods(handshake, version)
        asked = "can be asked" if self.can_be_asked else "cannot be asked"
        logger.info("client %.100r %.100r, MCP %s, %s", handshake.name, handshake.name_version, version, asked)

    @property
    def calls_itself(self) -> str:
        """Name and version for people to read; shortened, because a client can send anything."""
        known = self.handshake
        return "" if known is None else f"{known.name[:MOST_OF_NAME]} {known.name_version[:MOST_OF_NAME]}".strip()

    @property
    def wants_forms(self) -> bool:
        return self.version >= FIRST_WITH_FORMS

    def request(
        self,
        method: str,
        params: Any,
        on_answer: Callable[[Response], None],
        sink: Sink,
        related_to: RequestId | None,
        request_id: RequestId | None = None,
    ) -> RequestId:
        """Send the client a request, as part of its own request `related_to`. Returns our request's id."""
        if request_id is None:
            request_id = self._next_id
            self._next_id += 1
        self._open[request_id] = _OpenRequest(on_answer, sink, related_to)
        sink.send(request_line(request_id, method, params), related_to)
        return request_id

    def withdraw(self, request_id: RequestId, reason: str) -> None:
        """The answer is no longer needed."""
        request = self._open.pop(request_id, None)
        if request is not None:
            params = {"requestId": request_id, "reason": reason}
            request.sink.send(notification_line("notifications/cancelled", params), request.related_to)

    def withdraw_question(self, conversation_id: str, turn: str, call_id: str) -> None:
        """The question was answered elsewhere, or its turn is over."""
        asked = self.asked.pop((conversation_id, turn, call_id), None)
        if asked is not None:
            self.withdraw(asked.request_id, "the question is no longer open")

    def forget_asked(self, conversation_id: str, sink: Sink) -> None:
        """Forget questions that were sent through a lost sink, so that they can be put again. Only for questions with names of
        their own.
        """
        for key, asked in tuple(self.asked.items()):
            request = self._open.get(asked.request_id)
            if key[0] == conversation_id and request is not None and request.sink is sink:
                del self.asked[key]

    def answer_unreadable(self, request_id: RequestId) -> bool:
        """The answer to a request came but cannot be read. False if no request of ours has that id."""
        if request_id not in self._open:
            return False
        self.answer(Response(request_id, None, unreadable=True))
        return True

    def awaits(self, request_id: RequestId) -> bool:
        return request_id in self._open

    def answer(self, response: Response) -> None:
        request = self._open.pop(response.id, None)
        if request is None:
            logger.info("an answer to request %r came, which is not open", response.id)
            return
        request.on_answer(response)


_encode = msgspec.json.Encoder().encode


class Envelope:
    """Wraps the events of one call: `codex/event` first, then the event's own name as the method."""

    def __init__(self, methods: Methods, *, request_id: RequestId, thread_id: str, plain_method: bool) -> None:
        meta = _encode({"requestId": request_id, "threadId": thread_id})
        self._before_turn = b'"params":{"_meta":' + meta + b',"id":"'
        self._both = methods == "both" and plain_method
        self.silent = methods == "none"  # the client gets no events
        self._numbered = plain_method
        self._turn: str | None = None  # nearly all events belong to one turn, and many are of one kind:
        self._params = self._before = b""  # so the part before an event is built once,
        self._between: dict[bytes, bytes] = {}  # and the part between an event's two frames once per type

    def _begin(self, turn: str) -> None:
        self._turn, self._params = turn, self._before_turn + turn.encode() + b'","msg":'
        self._before = b'{"jsonrpc":"2.0","method":"codex/event",' + self._params
        self._between = {}

    def wrap(self, event: Encoded, turn: str) -> bytes:
        if not self._numbered and turn == "0":
            turn = ""  # the modern wire has no number for the configuration
        if turn != self._turn:
            self._begin(turn)
        if not self._both:
            return self._before + event.msg + b"}}\n"
        if event.type in self._between:
            between = self._between[event.type]
        else:
            between = self._between[event.type] = b'}}\n{"jsonrpc":"2.0","method":"' + event.type + b'",' + self._params
        return b"".join((self._before, event.msg, between, event.msg, b"}}\n"))
