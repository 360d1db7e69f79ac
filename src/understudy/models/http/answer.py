"""One answer as it is parsed: status, headers, body, and how far it has come. Owns the rules of framing, and does no I/O.

UNTOUCHED -> HEAD -> BODY -> COMPLETE -> CLOSING
     \\---------\\-------\\--> FAILED
"""

from enum import Enum, auto

import httptools

from understudy.models.http.failures import AnswerCut, BadAnswer, HttpFailure

HEAD_LIMIT = 64 * 1024


class Phase(Enum):
    UNTOUCHED = auto()  # nothing has come
    HEAD = auto()  # something has; interim answers (1xx) belong here too
    BODY = auto()  # status and headers are known
    COMPLETE = auto()  # all of it is here, and another exchange may follow on this connection
    CLOSING = auto()  # all of it is here, and nothing may follow
    FAILED = auto()  # `failure` says why


_WHOLE = (Phase.COMPLETE, Phase.CLOSING)
_WITH_HEAD = (Phase.BODY, *_WHOLE)


class ParsedAnswer:
    def __init__(self) -> None:
        self.phase = Phase.UNTOUCHED
        self.failure: HttpFailure | None = None
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []  # of the body; whoever reads them takes them out
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)  # until the answer is over
        self._fed = self._head_size = 0  # bytes while the head was not complete, and those of its headers

    @property
    def has_head(self) -> bool:
        return self.phase in _WITH_HEAD

    @property
    def is_whole(self) -> bool:
        return self.phase in _WHOLE

    def feed(self, data: bytes) -> None:
        """What has arrived. Whatever becomes of it is in `phase`."""
        parser = self._parser
        if parser is None:
            if self.is_whole:  # nobody asked for more: it could be taken for the answer to the next request
                self.phase = Phase.CLOSING
            return
        if self.phase is Phase.UNTOUCHED:
            self.phase = Phase.HEAD
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the server switched to another protocol")
        except httptools.HttpParserError as error:
            if self.is_whole:
                self.phase = Phase.CLOSING
            else:
                self._fail(f"the server's answer is not valid HTTP ({error})")
        if self.phase is Phase.HEAD:
            self._fed += len(data)
            self._check_head_size(self._fed)
        elif self.phase is not Phase.BODY:
            self._parser = None  # it points back to us: without this, both would wait for the garbage collector

    def end(self, error: Exception | None) -> None:
        """Nothing more will come: the connection is closed, or broken by `error`."""
        self._parser = None
        if self.is_whole or self.failure is not None:
            return
        if self.phase is Phase.BODY and error is None and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.phase = Phase.CLOSING  # its length was not told, so this is how it ends
            return
        why = "the server reset the connection" if error else "the server closed the connection"
        self.failure = AnswerCut(why, untouched=self.phase is Phase.UNTOUCHED, by_force=error is not None)
        self.phase = Phase.FAILED

    def _check_head_size(self, size: int) -> None:
        if size > HEAD_LIMIT:
            self._fail(f"the server's answer has more than {HEAD_LIMIT} bytes of headers")

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = BadAnswer(reason)
            self.phase = Phase.FAILED

    # -- called by the parser, which goes on to whatever follows the answer in the same piece of data

    def on_message_begin(self) -> None:
        if self.phase is Phase.COMPLETE:
            self.phase = Phase.CLOSING

    def on_status(self, status: bytes) -> None:
        if self.phase is Phase.HEAD:
            self.reason += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is Phase.HEAD:  # trailers mean nothing to us
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()
            self._head_size += len(name) + len(value)

    def on_headers_complete(self) -> None:
        if self.phase is not Phase.HEAD:
            return
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 100:
            self._fail(f"the server's answer has the status {status:03}, which does not exist")
        elif status < 200:
            self.reason, self.headers = "", {}
        else:
            self.status = status
            self._begin_body()

    def _begin_body(self) -> None:
        self.phase = Phase.BODY
        coding = self.headers.get("transfer-encoding", "chunked")
        if coding.lower() != "chunked":
            self._fail(f"the server's answer has the transfer coding {coding[:40]!r}, which was not asked for")
        self._check_head_size(self._head_size)

    def on_body(self, body: bytes) -> None:
        if self.phase is Phase.BODY:
            self.chunks.append(body)

    def on_message_complete(self) -> None:
        if self.phase is Phase.BODY:
            assert self._parser is not None
            self.phase = Phase.COMPLETE if self._parser.should_keep_alive() else Phase.CLOSING
