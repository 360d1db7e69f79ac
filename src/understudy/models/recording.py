"""Records every exchange with a model in a file of JSON lines, without secrets, for `replay`.

Contains no headers of requests, and only those of an answer that matter for reading it.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

import msgspec

from understudy.errors import ConfigError, ModelRefused
from understudy.models.auth import Credentials
from understudy.models.mending import read_mended
from understudy.models.model import BegunAnswer, ReadsText, Transport
from understudy.models.providers import Provider
from understudy.models.stream_secrets import hide, hide_in_body
from understudy.net import AnswerCut, AnswerSilent, HttpFailure, Unreachable, Url
from understudy.places.named_by_users import follow_links, is_in, is_in_repository
from understudy.places.walking import open_plain
from understudy.policy.secrets import secret_pattern

KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "location")
BEGINNING = b'{"wire":'  # of every line
LARGEST_ANSWER = 64 * 1024 * 1024

Ending = Literal["whole", "left", "cut", "reset", "silent", "unreachable", "failed"]


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the file."""

    wire: str
    request: Any  # the JSON that was sent
    recording: int = 1  # version of this form
    provider: str = ""
    places: Mapping[str, str] = {}  # the folders that were in use, by purpose
    status: int | None = None  # None: there was no answer
    reason: str = ""
    headers: Mapping[str, str] = {}
    body: str = ""
    ending: Ending = "whole"
    failure: str = ""  # in words for people


class Recorder:
    """Wraps a transport."""

    def __init__(
        self,
        http: Transport,
        path: Path,
        provider: Provider,
        places: Mapping[str, str],
        credentials: Credentials,
        roots: Sequence[str] = (),
    ) -> None:
        """`roots`: real folders in which a model's commands may have made links. Links there are not followed."""
        self._http = http
        self._path = path
        self._roots = roots
        self._provider = provider
        self._places = places
        self._credentials = credentials
        _check(path, roots)
        _append(path, b"", roots)  # fail now if nothing can be recorded

    async def post(self, url: Url, headers: Sequence[tuple[str, str]], body: Sequence[bytes], *, seconds: float) -> BegunAnswer:
        request = read_mended(b"".join(body))
        try:
            response = await self._http.post(url, headers, body, seconds=seconds)
        except HttpFailure as failure:
            self.write(request, None, b"", ending_of(failure), str(failure))
            raise
        except asyncio.CancelledError:
            self.write(request, None, b"", "left", "")
            raise
        return RecordedExchange(self, request, response)

    def write(self, request: Any, response: BegunAnswer | None, body: bytes, ending: Ending, failure: str) -> None:
        """Raises ModelRefused, because a recording with gaps would be replayed wrongly."""
        pattern = secret_pattern(self._credentials.known_secrets(self._provider))
        headers: Mapping[str, str] = {} if response is None else response.headers
        kept = {name: hide(headers[name], pattern) for name in KEPT_HEADERS if name in headers}
        line = Recorded(
            wire=self._provider.wire_api,
            request=hide(request, pattern),
            provider=self._provider.id,
            places=self._places,
            status=None if response is None else response.status,
            reason="" if response is None else hide(response.reason, pattern),
            headers=kept,
            body=hide_in_body(body.decode("utf-8", "replace"), pattern),
            ending=ending,
            failure=hide(failure, pattern),
        )
        try:
            _append(self._path, msgspec.json.encode(line) + b"\n", self._roots)
        except ConfigError as error:
            raise ModelRefused(str(error)) from None


class RecordedExchange(ReadsText):
    def __init__(self, recorder: Recorder, request: Any, response: BegunAnswer) -> None:
        self.status = response.status
        self.reason = response.reason
        self.headers = response.headers
        self._recorder = recorder
        self._request = request
        self._response = response
        self._body = bytearray()
        self._written = False

    async def read(self, seconds: float) -> bytes:
        try:
            data = await self._response.read(seconds)
        except HttpFailure as failure:
            self._write(ending_of(failure), str(failure))
            raise
        if len(self._body) < LARGEST_ANSWER:
            self._body += data
        if not data:
            self._write("whole")
        return data

    def finish(self) -> None:
        self._response.finish()
        self._write("whole")

    def abort(self) -> None:
        self._response.abort()
        self._write("left")

    def _write(self, ending: Ending, failure: str = "") -> None:
        if not self._written:
            self._written = True
            self._recorder.write(self._request, self._response, bytes(self._body), ending, failure)


def ending_of(failure: HttpFailure) -> Ending:
    match failure:
        case AnswerCut(by_force=True):
            return "reset"
        case AnswerCut():
            return "cut"
        case AnswerSilent():
            return "silent"
        case Unreachable():
            return "unreachable"
        case _:
            return "failed"


def _check(path: Path, roots: Sequence[str]) -> None:
    """The user may have named the wrong file: never append to a file that is not a recording. Raises ConfigError."""
    try:
        file = _opened(path, os.O_RDONLY, roots)
    except OSError:
        return  # it does not exist yet, or `_append` will report the error
    try:
        start = os.read(file, len(BEGINNING)) if S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
    if start and start != BEGINNING:
        raise ConfigError(
            f"cannot record to {path}: it is not a recording\nName a new file in `understudy.record`, or delete that one."
        )


def _append(path: Path, data: bytes, roots: Sequence[str]) -> None:
    """In one write, so that two servers can record into the same file. Raises ConfigError."""
    try:
        file = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, roots)
        try:
            if not S_ISREG(os.fstat(file).st_mode):
                raise ConfigError(f"cannot record to {path}: it is not a regular file\n`understudy.record` should name one.")
            _write_whole(file, data)
        finally:
            os.close(file)
    except OSError as error:
        raise ConfigError(
            f"cannot record to {path}: {error.strerror}\n`understudy.record` should name a file in a folder that is there."
        ) from None


def _opened(path: Path, flags: int, roots: Sequence[str]) -> int:
    """Raises OSError if it is a link, or is behind one that a model or a repository may have made."""
    parent = follow_links(str(path.parent), lambda folder: is_in(folder, roots) or is_in_repository(folder))
    folder = open_plain(os.path.join(*parent))
    try:
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def _write_whole(file: int, data: bytes) -> None:
    """All or nothing: half a line, left by a full disk, would spoil the lines after it. Raises OSError."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, memoryview(data)[written:])
    except OSError:
        end = os.lseek(file, 0, os.SEEK_CUR)
        if written and os.fstat(file).st_size == end:  # otherwise another server has added a line, which must stay
            os.ftruncate(file, end - written)
        raise
