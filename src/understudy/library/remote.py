"""The agent of a server (`understudy serve`), over REST."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from understudy.library.errors import UnderstudyError
from understudy.net.addresses import UNIX, Url, parse_url
from understudy.net.client import HttpClient, HttpResponse
from understudy.net.failures import HttpFailure
from understudy.protocol.choices import Decision
from understudy.servers.items.shapes import Items, Update
from understudy.servers.rest.shapes import Accepted, Conversation, Done, Renamed, Rows, Stopped, Undone

ANSWER_SECONDS = 60.0
SILENCE_SECONDS = 60.0  # of a stream: the server sends something more often than that
MOST_ANSWER = 64 * 2**20
MOST_FRAME = 64 * 2**20
TRIES = 8  # attempts to reconnect a broken stream before giving up
FIRST_PAUSE = 0.2
PAGE = 1000

T = TypeVar("T")


class _Problem(msgspec.Struct):
    code: str = "failed"
    message: str = ""


class _Failure(msgspec.Struct):
    error: _Problem


class RemoteBackend:
    def __init__(self, url: str, token: str | None) -> None:
        self._base = url.rstrip("/")
        self._socket = url.removeprefix(f"{UNIX}://") if url.startswith(f"{UNIX}:") else None
        try:
            self._url("")
        except ValueError as error:
            raise UnderstudyError(f"`url` {error}", "bad_request") from None
        self._headers = [("Accept", "application/json")]
        if token is not None:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UnderstudyError("the `token` is none: it has characters that no token has", "bad_request")
            self._headers.append(("Authorization", f"Bearer {token}"))
        self._http: HttpClient | None = None

    async def open(self) -> None:
        self._http = HttpClient()

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def begin(self, prompt: str, choices: Mapping[str, Any]) -> Conversation:
        return await self._ask("POST", "", Conversation, {"prompt": prompt, **choices})

    async def find(self, conversation: str) -> Conversation:
        return await self._ask("GET", _one(conversation), Conversation)

    async def rows(self, limit: int, cursor: str | None) -> Rows:
        query = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
        return await self._ask("GET", f"?{urlencode(query)}", Rows)

    async def send(self, conversation: str, text: str, mode: str, choices: Mapping[str, Any]) -> str:
        body = {"text": text, "mode": mode, **choices}
        return (await self._ask("POST", f"{_one(conversation)}/messages", Accepted, body)).message_id

    async def items(self, conversation: str, after: int) -> Items:
        return await self._ask("GET", f"{_one(conversation)}/items?after={after}&limit={PAGE}", Items)

    async def decide(self, conversation: str, call_id: str, decision: Decision, word: str, mark: float) -> None:
        body = {"call_id": call_id, "decision": decision, "message": word, "mark": mark}
        await self._ask("POST", f"{_one(conversation)}/decisions", dict[str, Any], body)

    async def answer(self, conversation: str, call_id: str, answers: Mapping[str, str], mark: float) -> None:
        body = {"call_id": call_id, "answers": dict(answers), "mark": mark}
        await self._ask("POST", f"{_one(conversation)}/answers", dict[str, Any], body)

    async def interrupt(self, conversation: str) -> bool:
        return (await self._ask("POST", f"{_one(conversation)}/interrupt", Stopped)).interrupted

    async def undo(self, conversation: str, turn: str) -> tuple[str, ...]:
        return (await self._ask("POST", f"{_one(conversation)}/undo", Undone, {"turn": turn})).taken_back

    async def fork(self, conversation: str, turn: str | None) -> Conversation:
        return await self._ask("POST", f"{_one(conversation)}/fork", Conversation, {"turn": turn})

    async def compact(self, conversation: str) -> None:
        await self._ask("POST", f"{_one(conversation)}/compact", Done)

    async def rename(self, conversation: str, title: str) -> None:
        await self._ask("POST", f"{_one(conversation)}/rename", Renamed, {"title": title})

    async def archive(self, conversation: str, *, archived: bool) -> None:
        await self._ask("POST", f"{_one(conversation)}/{'archive' if archived else 'unarchive'}", Done)

    async def delete(self, conversation: str) -> None:
        await self._ask("DELETE", _one(conversation), Done)

    # -- requests

    def _url(self, path: str) -> Url:
        """Raises `ValueError`."""
        if self._socket is None:
            return parse_url(f"{self._base}/v1/conversations{path}")
        if not self._socket.startswith("/"):
            raise ValueError("is no socket: write it as unix:///PATH")
        return Url(UNIX, self._socket, 0, f"/v1/conversations{path}")

    async def _ask(
        self, method: Literal["GET", "POST", "DELETE"], path: str, kind: type[T], body: Mapping[str, Any] | None = None
    ) -> T:
        response = await self._request(method, path, self._headers, body)
        text = await response.read_text(ANSWER_SECONDS, MOST_ANSWER)
        if not 200 <= response.status < 300:
            raise _problem(response.status, text)
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError as error:
            raise UnderstudyError(f"{self._base} does not answer as understudy does: {error}", "bad_answer") from None

    async def _request(
        self, method: str, path: str, headers: list[tuple[str, str]], body: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        if self._http is None:
            raise UnderstudyError("the agent is not open: use it within `async with`", "bad_request")
        url = self._url(path)
        try:
            if method == "GET":
                return await self._http.get(url, headers, seconds=ANSWER_SECONDS)
            if method == "DELETE":
                return await self._http.delete(url, headers, seconds=ANSWER_SECONDS)
            sent = [] if body is None else [msgspec.json.encode(body)]
            return await self._http.post(url, [*headers, ("Content-Type", "application/json")], sent, seconds=ANSWER_SECONDS)
        except HttpFailure as error:
            raise UnderstudyError(f"cannot ask {self._base}: {error}", "unreachable") from error

    # -- streams

    async def updates(self, conversation: str, after: int) -> AsyncGenerator[Update]:
        """Reconnects a broken stream at the place where it broke."""
        place: str | None = None
        tries = 0
        while True:
            headers = [("Accept", "text/event-stream"), *self._headers[1:], *([] if place is None else [("Last-Event-ID", place)])]
            try:
                response = await self._request("GET", f"{_one(conversation)}/items?stream=1&after={after}", headers)
                if response.status != 200:
                    raise _problem(response.status, await response.read_text(ANSWER_SECONDS, MOST_ANSWER))
                try:
                    async with aclosing(_events(response)) as events:
                        async for event_id, update in events:
                            place, tries = event_id or place, 0
                            yield update
                finally:
                    response.abort()
            except (HttpFailure, UnderstudyError) as error:
                if isinstance(error, UnderstudyError) and error.code not in ("unreachable", "unavailable", "too_many_requests"):
                    raise
                if tries >= TRIES:
                    raise UnderstudyError(f"the stream of {self._base} does not come back: {error}", "unreachable") from None
            await asyncio.sleep(FIRST_PAUSE * 2**tries)
            tries += 1


async def _events(response: HttpResponse) -> AsyncGenerator[tuple[str | None, Update]]:
    """Each update with its id. Raises `HttpFailure`."""
    rest = b""
    while data := await response.read(SILENCE_SECONDS):
        *frames, rest = (rest + data).split(b"\r\n\r\n")
        if len(rest) > MOST_FRAME:
            raise UnderstudyError("the server sent an event without end", "bad_answer")
        for frame in frames:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\r\n") if b": " in line and not line.startswith(b":"))
            if data := fields.get(b"data"):
                event_id = fields.get(b"id")
                yield None if event_id is None else event_id.decode("ascii", "replace"), _read_update(data)


def _read_update(data: bytes) -> Update:
    try:
        return msgspec.json.decode(data, type=Update)
    except msgspec.MsgspecError as error:
        raise UnderstudyError(f"the server sent an update that cannot be read: {error}", "bad_answer") from None


def _one(conversation: str) -> str:
    return f"/{quote(conversation, safe='')}"


def _problem(status: int, text: str) -> UnderstudyError:
    try:
        problem = msgspec.json.decode(text, type=_Failure).error
    except msgspec.MsgspecError:
        return UnderstudyError(f"the server answered with status {status}: {text[:200]}", "bad_answer")
    return UnderstudyError(problem.message, problem.code)
