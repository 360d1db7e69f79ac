"""Models over HTTP: sends a request, repeats it if that may help, and turns the streamed answer into model events."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from urllib.parse import quote, urlencode

import msgspec

from understudy import __version__
from understudy.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from understudy.models.auth import Credentials, Secret, key_header, redacted, secrets_of
from understudy.models.failures import (
    EVENT_CUT,
    LONGEST_WAIT,
    STREAM_IDLE,
    FailureHints,
    Fault,
    asked_to_wait,
    backoff,
    clipped,
    described,
    fault_in_body,
    is_transient,
    refusal_of,
    retry_after,
    stream_lost,
    wait_in_text,
    with_hint,
    without_tags,
)
from understudy.models.model import Answer, BegunAnswer, Model, ModelEvent, ModelSettings, Prompt, Transport
from understudy.models.providers import REPLAY, SCRIPTED, Provider
from understudy.models.wires.sse import EventTooLarge, SseSplitter
from understudy.models.wires.wire import ERROR_BODY_LIMIT, EVENT_LIMIT, UNSAID_LIMIT, Decoder, Wire
from understudy.net import AnswerCut, AnswerSilent, HttpFailure, Unreachable, Url, parse_url
from understudy.net.addresses import basic_authorization

logger = logging.getLogger(__name__)

USAGE_SECONDS = 1.0  # how long to wait for the token counts of a finished answer
ERROR_BODY_SECONDS = 10.0
TRIES_AT_NOBODY = 2  # additional attempts if nothing listens on this machine: the server may be starting
KEPT_ALIVE = 4  # idle timeouts that a stream may last with nothing but comments, empty events and the like
ITEMS_IN_A_STEP = 512  # of a history, encoded in one step of the event loop
PIECE_BYTES = 16 * 1024  # of an answer, read in one step of the event loop: as many as two thousand events


def open_model(provider: Provider, settings: ModelSettings, credentials: Credentials, http: Transport) -> Model:
    """Sends nothing, and looks for no key, before an answer is first read. Raises ConfigError."""
    if provider.id == SCRIPTED:
        return _open_scripted(settings)
    if provider.id == REPLAY:
        return _open_replay(provider, settings, credentials)
    if settings.record is not None:
        from understudy.models.recording import Recorder

        http = Recorder(http, settings.record, provider, settings.places, credentials, settings.roots)
    return _open(provider, settings, credentials, http)


def _open(provider: Provider, settings: ModelSettings, credentials: Credentials, http: Transport) -> Model:
    match provider.wire_api:  # a conversation uses only one of them
        case "chat":
            from understudy.models.wires.chat import ChatWire

            url = request_url(provider, ChatWire.path)
            return HttpModel(provider, ChatWire(settings, str(url)), url, credentials, http, settings)
        case "responses":
            from understudy.models.wires.responses import ResponsesWire

            url = request_url(provider, ResponsesWire.path)
            return HttpModel(provider, ResponsesWire(settings, str(url)), url, credentials, http, settings)
        case "anthropic":
            from understudy.models.wires.anthropic import AnthropicWire

            url = request_url(provider, AnthropicWire.path)
            return HttpModel(provider, AnthropicWire(settings), url, credentials, http, settings)


def model_asked(settings: ModelSettings) -> str:
    """The name of the configured model, or of the one in the recording that is replayed. Raises ConfigError."""
    if settings.model != REPLAY or settings.replay is None:
        return settings.model
    from understudy.models.replay import open_recording

    return open_recording(settings.replay).model


def _open_scripted(settings: ModelSettings) -> Model:
    from understudy.models.scripted import BUILT_IN, ScriptPlayer, load_script

    script = BUILT_IN if settings.script is None else load_script(settings.script)
    return ScriptPlayer(script, show_raw=settings.show_raw)


def _open_replay(provider: Provider, settings: ModelSettings, credentials: Credentials) -> Model:
    from understudy.models.replay import Player, open_recording

    if settings.replay is None:
        raise ConfigError('model provider `replay` has no recording\nSet `replay = "FILE"` under [understudy] to one.')
    recording = open_recording(settings.replay)
    settings = msgspec.structs.replace(settings, model=model_asked(settings))
    provider = msgspec.structs.replace(provider, base_url="http://replay.invalid/v1", wire_api=recording.wire)
    return _open(provider, settings, credentials, Player(recording, settings.places, credentials.known_secrets(provider)))


def request_url(provider: Provider, path: str) -> Url:
    query = ""
    if provider.query_params:
        query = "?" + urlencode(provider.query_params, quote_via=quote)
    base, _, base_query = provider.base_url.strip().partition("?")
    if base_query:
        query = f"?{base_query}" + query.replace("?", "&", 1)
    try:
        return parse_url(base.rstrip("/") + path + query)
    except ValueError as error:
        raise ConfigError(f"the base_url of model provider `{provider.id}` is {error}, such as https://host/v1") from None


class HttpModel:
    def __init__(
        self, provider: Provider, wire: Wire, url: Url, credentials: Credentials, http: Transport, settings: ModelSettings
    ) -> None:
        self.hints = FailureHints(provider, url, settings.model, credentials)
        self._provider = provider
        self._wire = wire
        self._url = url
        self._credentials = credentials
        self._http = http
        self._secrets: list[Secret] = []  # those sent with the latest request
        self._written_secrets = secrets_of(provider)
        self._fixed_headers = _by_name(provider.http_headers.items())
        self._our_headers = {**_OUR_HEADERS, **_by_name((("User-Agent", f"{settings.originator}/{__version__}"),))}
        self._has_answered = False
        self._idle_seconds = provider.stream_idle_timeout_ms / 1000

    def stream(self, prompt: Prompt) -> Answer:
        if not isinstance(prompt.items, tuple):  # copied, because items added to the history later belong to the next request
            prompt = msgspec.structs.replace(prompt, items=tuple(prompt.items))
        return HttpAnswer(self, self._wire, prompt, self._idle_seconds)

    async def request(self, prompt: Prompt) -> BegunAnswer:
        """An answer that announces a stream. Raises ModelError."""
        attempt = 0
        body = await self._body(prompt)
        while True:
            attempt += 1
            key = await self._credentials.key_soon(self._provider)
            secrets = self._credentials.headers_for(self._provider)
            headers = self._headers(prompt, key, secrets)
            self._secrets = [*secrets.values(), *([key] if key else []), *self._written_secrets]
            try:
                response = await self._http.post(self._url, headers, body, seconds=self._idle_seconds)
            except AnswerSilent:
                raise stream_lost(STREAM_IDLE) from None  # not retried: the user has waited long enough in silence
            except HttpFailure as failure:
                text = with_hint(str(failure), self.hints.for_failure(failure))
                if not failure.transient:
                    raise ModelRefused(text) from None
                not_running = self._is_not_running(failure)
                if attempt > (min(self._retries(prompt), TRIES_AT_NOBODY) if not_running else self._retries(prompt)):
                    raise ModelUnavailable(text, brief=str(failure), lasting=not_running) from None
                delay = backoff(attempt)
                logger.debug("request %d failed: %s; again in %.3fs", attempt, failure, delay)
            else:
                self._has_answered = True
                if 200 <= response.status < 300:
                    return response
                told = self.without_secrets(await response.read_text(ERROR_BODY_SECONDS, ERROR_BODY_LIMIT))
                if self._wire.gives_way(prompt, response.status, told):
                    attempt -= 1
                    body = await self._body(prompt)
                    continue
                delay = self._delay_or_raise(response, told, attempt, self._retries(prompt))
                logger.debug("request %d got status %d; again in %.3fs", attempt, response.status, delay)
            await asyncio.sleep(delay)

    async def _body(self, prompt: Prompt) -> list[bytes]:
        """Others are served while a long history is encoded."""
        if len(prompt.items) <= ITEMS_IN_A_STEP:
            return self._wire.body(prompt)
        return await asyncio.to_thread(self._wire.body, prompt)

    def _is_not_running(self, failure: HttpFailure) -> bool:
        """Nothing listens on this machine, and nothing did before: a server that was there a moment ago may be restarting."""
        return isinstance(failure, Unreachable) and failure.why == "refused" and self._url.is_loopback and not self._has_answered

    def _retries(self, prompt: Prompt) -> int:
        return self._provider.request_max_retries if prompt.may_retry else 0

    def without_secrets(self, text: str) -> str:
        return redacted(text, self._secrets)

    def _headers(self, prompt: Prompt, key: Secret | None, from_env: dict[str, Secret]) -> list[tuple[str, str]]:
        headers = {**self._our_headers, **_by_name(self._wire.headers(prompt)), **self._fixed_headers}  # the last one given counts
        if from_env:
            headers.update(_by_name((name, value.reveal()) for name, value in from_env.items()))
        if key is not None:
            name, value = key_header(self._provider, key)
            headers[name.lower()] = name, value
        elif self._url.user is not None:
            headers["authorization"] = "Authorization", basic_authorization(self._url.user, self._url.password or "")
        return list(headers.values())

    def _delay_or_raise(self, response: BegunAnswer, body: str, attempt: int, retries: int) -> float:
        fault = fault_in_body(body)
        status = _status(response)
        if 300 <= response.status < 400:
            where = _redirected(response)
            raise ModelRefused(f"unexpected status {status}: {where}").with_status(response.status, where)
        hint = self.hints.for_status(response.status, fault.codes, fault.message)
        if not is_transient(response.status) or (response.status == 429 and fault.final):
            refused = refusal_of(response.status, fault)(with_hint(_refusal(response.status, status, fault, body), hint))
            raise refused.with_status(response.status, with_hint(without_tags(described(fault)), hint))
        if attempt > retries:
            words = clipped(fault.message)
            brief = f"exceeded retry limit, last status: {status}"
            failed = ModelUnavailable(with_hint(f"{brief}{': ' if words else ''}{words}", hint), brief=brief)
            raise failed.with_status(response.status, with_hint(without_tags(words), hint))
        delay = retry_after(response.headers)
        if delay is None and response.status == 429:
            delay = wait_in_text(fault.message)
        if delay is not None and delay > LONGEST_WAIT:
            words = with_hint(asked_to_wait(delay), hint)
            raise ModelUnavailable(f"unexpected status {status}: {words}", lasting=True).with_status(response.status, words)
        return backoff(attempt) if delay is None else delay


def _by_name(headers: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {name.lower(): (name, value) for name, value in headers}


_OUR_HEADERS = _by_name((("Content-Type", "application/json"), ("Accept", "text/event-stream")))


def _refusal(code: int, status: str, fault: Fault, body: str) -> str:
    if code == 429:
        return f"unexpected status {status}: {described(fault)}"
    return f"unexpected status {status}" + (f": {clipped(body)}" if body.strip() else "")


def _status(response: BegunAnswer) -> str:
    from http import HTTPStatus

    try:
        return f"{response.status} {HTTPStatus(response.status).phrase}"
    except ValueError:
        return f"{response.status} {response.reason}".strip()


def _redirected(response: BegunAnswer) -> str:
    """Redirects are not followed, because the key was meant for the configured address."""
    try:
        place = str(parse_url(response.headers.get("location", "")))
    except ValueError:
        place = "another address"
    return f"the provider redirects to {place}; if that is right, set base_url to it"


class _WholeBody:
    """Treats a whole body as a single event."""

    lines = 0  # that count as complete

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        self._body += chunk
        if len(self._body) > EVENT_LIMIT:
            raise EventTooLarge(f"an answer of more than {EVENT_LIMIT} bytes")
        return []

    def close(self) -> list[bytes]:
        return [bytes(self._body)]


class HttpAnswer(Answer):
    def __init__(self, model: HttpModel, wire: Wire, prompt: Prompt, idle_seconds: float) -> None:
        super().__init__()
        self._model = model
        self._prompt = prompt
        self._idle_seconds = idle_seconds
        self._response: BegunAnswer | None = None
        self._wire = wire
        self._decoder: Decoder  # set when the answer has begun
        self._splitter: SseSplitter | _WholeBody | None = None
        self._usage_due: float | None = None
        self._silent = self._unheard = 0.0  # seconds waited since the last complete line, and since the last words of the model
        self._said_nothing = 0  # bytes since then
        self._came = b""  # the latest data
        self._taken = 0  # how many of its bytes were used

    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        try:
            return await self._fill_or_fail(ready)
        except ModelRefused as refusal:
            told = with_hint(str(refusal), self._model.hints.for_fault(refusal.codes))
            refusal.args = (self._model.without_secrets(told),)
            raise
        except ModelError as failure:
            failure.args = (self._model.without_secrets(str(failure)),)
            raise

    async def _fill_or_fail(self, ready: deque[ModelEvent]) -> bool:
        if self._response is None:
            self._response = await self._begin()
        decoder = self._decoder
        while not ready and not decoder.ended:
            heard, said = decoder.heard, decoder.said
            lines = 0 if self._splitter is None else self._splitter.lines
            if data := await self._read_piece(self._response):
                payloads = self._split(data)
            else:
                payloads = self._splitter.close() if self._splitter else []
            try:
                decoder.feed(payloads, ready)
            except (ValueError, TypeError, RecursionError) as error:  # raised for any other nonsense from a provider
                logger.warning("an event of the model cannot be read: %s", error)
                raise stream_lost("the provider sent an event that cannot be read") from None
            if not data:
                decoder.close(ready)
            elif decoder.cut:
                raise stream_lost(EVENT_CUT)
            elif decoder.said != said:
                self._silent = self._unheard = 0.0
                self._said_nothing = 0
            else:
                if decoder.heard != heard or (self._splitter is not None and self._splitter.lines != lines):
                    self._silent = 0.0
                self._said_nothing += len(data)
                if self._said_nothing > UNSAID_LIMIT:
                    raise ModelRefused(f"the provider sent more than {UNSAID_LIMIT} bytes in which the model says nothing")
        return not decoder.ended

    async def _read_piece(self, response: BegunAnswer) -> bytes:
        """A piece of what has come; others are served between two pieces. `b""` at the end."""
        if self._taken >= len(self._came):
            self._came, self._taken = await self._read(response), 0
        elif not self.in_one_go:
            await asyncio.sleep(0)
        if len(self._came) <= PIECE_BYTES:  # nearly always
            self._taken = PIECE_BYTES
            return self._came
        piece = self._came[self._taken : self._taken + PIECE_BYTES]
        self._taken += PIECE_BYTES
        return piece

    async def _begin(self) -> BegunAnswer:
        response = await self._model.request(self._prompt)
        self._decoder = self._wire.decoder()  # only now do we know what was asked for
        if response.headers.get("content-type", "").lower().startswith("text/html"):
            page = clipped(await response.read_text(ERROR_BODY_SECONDS, ERROR_BODY_LIMIT))
            told = f"the provider answered with a web page instead of a stream: {page}"
            raise ModelRefused(with_hint(told, self._model.hints.for_page()))
        return response

    async def _read(self, response: BegunAnswer) -> bytes:
        """Returns `b""` at the end, whatever caused it: the answer's own words decide whether it was complete."""
        try:
            if self._decoder.nearly_ended:
                return await self._read_rest(response)
            return await self._read_in_time(response)
        except AnswerSilent:
            raise stream_lost(STREAM_IDLE) from None
        except AnswerCut as cut:
            if not cut.by_force:
                return b""
            raise stream_lost(str(cut)) from None
        except HttpFailure as failure:
            raise stream_lost(str(failure)) from None

    async def _read_in_time(self, response: BegunAnswer) -> bytes:
        """Only a complete line resets the idle timeout, and lines that say nothing only do so a few times: a peer may trickle
        for ever."""
        began = time.monotonic()  # to ask for the running loop is a system call
        idle = self._idle_seconds
        try:
            left, most = idle - self._silent, KEPT_ALIVE * idle - self._unheard
            return await response.read(left if 0.0 <= left <= most else max(min(left, most), 0.0))
        finally:
            waited = time.monotonic() - began
            self._silent += waited
            self._unheard += waited

    async def _read_rest(self, response: BegunAnswer) -> bytes:
        now = time.monotonic()
        if self._usage_due is None:
            self._usage_due = now + USAGE_SECONDS
        try:
            return await response.read(max(self._usage_due - now, 0.0))
        except HttpFailure:
            return b""

    def _split(self, data: bytes) -> list[bytes]:
        if self._splitter is None:  # some servers answer as a whole, whatever was asked; events never begin with a bracket
            self._splitter = _WholeBody() if data.lstrip()[:1] in (b"{", b"[") else SseSplitter()
        try:
            return self._splitter.feed(data)
        except EventTooLarge as error:
            raise ModelRefused(f"the provider sent {error}") from None

    async def _stop(self) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        if self._decoder.ended:
            response.finish()
        else:
            response.abort()
