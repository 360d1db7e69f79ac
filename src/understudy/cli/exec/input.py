"""The input of `exec`: the prompt, piped text, images, and the form and budget of the answer."""

import codecs
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from understudy.cli.exec.options import ExecRequest
from understudy.errors import BadRequest
from understudy.places.reading import NotForModels
from understudy.protocol.choices import BUDGET_LIMITS
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.items import ContentPart, InputImage, InputText, Message
from understudy.protocol.records import Budget

if TYPE_CHECKING:
    from understudy.cli.exec.review_findings import Reviewing
    from understudy.places.places import Places

MOMENT = 1.0  # seconds that we wait for a pipe's first text if there is a prompt already
MOST_PROMPT = 64 * 1024 * 1024  # bytes
MOST_SCHEMA = 1024 * 1024  # bytes: more than a schema may have in any layout

NO_PROMPT = "No prompt provided. Either specify one as an argument or pipe the prompt into stdin."
NOTHING_PIPED = "No prompt provided via stdin."

_BYTE_ORDERS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class ExecTask(msgspec.Struct, frozen=True):
    request: ExecRequest
    prompt: str
    images: list[ContentPart]  # or, for an image that cannot be shown, a sentence that says so
    schema: dict[str, Any] | None
    budget: Budget | None
    review: "Reviewing | None" = None  # how the answer is processed

    def message(self) -> Message:
        return Message("user", (*self.images, InputText(self.prompt)))


def read_prompt(request: ExecRequest) -> str:
    """The prompt, from the command line, standard input or both. Raises `BadRequest`."""
    given = request.prompt
    if given is not None and given != "-":
        if not is_unicode(given):
            raise BadRequest(f"the prompt is not valid UTF-8: {visible(given[:200])}")
        if not given.strip() and os.isatty(0):
            raise BadRequest(NO_PROMPT)
        piped = _read_beside(say=request.action == "new")
        if piped.strip():
            given = f"{given}\n\n<stdin>\n{piped if piped.endswith(chr(10)) else piped + chr(10)}</stdin>"
        if not given.strip():
            raise BadRequest(NO_PROMPT)
        return given
    if given is None:
        if os.isatty(0):
            raise BadRequest(NO_PROMPT)
        say_aside("Reading prompt from stdin...")
    text = _decode(_read_to_end(b""))
    if not text.strip():
        raise BadRequest(NOTHING_PIPED)
    return text


def _read_beside(*, say: bool) -> str:
    """Text that is piped in besides a prompt. Soon gives up on a pipe that stays open without any text."""
    if os.isatty(0):
        return ""
    if not _may_wait():
        return _decode(_read_to_end(b""))
    if say:
        say_aside("Reading additional input from stdin...")
    ready, _, _ = select.select([0], [], [], MOMENT)
    if not ready:
        say_aside(f"Nothing came on standard input within {MOMENT:.0f} s, so it is left out; `-` instead of a prompt waits for it.")
        return ""
    return _decode(_read_to_end(b""))


def _may_wait() -> bool:
    """Whether reading could block for ever: not for a file or the null device."""
    mode = os.fstat(0).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.fstat(0).st_rdev != _null_device())


def _null_device() -> int:
    return os.stat(os.devnull).st_rdev


def _read_to_end(data: bytes) -> bytes:
    parts = [data]
    size = len(data)
    began, told = time.monotonic(), not _may_wait()
    while True:
        if not told:
            ready, _, _ = select.select([0], [], [], max(0.0, began + 5 - time.monotonic()))
            if not ready:
                told = True
                say_aside("Still reading standard input, until it is closed.")
        try:
            chunk = os.read(0, 1 << 20)
        except OSError as error:
            raise BadRequest(f"standard input cannot be read: {error.strerror}") from None
        if not chunk:
            return b"".join(parts)
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_PROMPT:
            raise BadRequest(f"standard input has more than {MOST_PROMPT >> 20} MB: put it into a file and name that in the prompt")


def _decode(data: bytes) -> str:
    encoding, mark = "utf-8", b""
    for begins, name in _BYTE_ORDERS:
        if data.startswith(begins):
            encoding, mark = name, begins
            break
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = error.start + len(mark)
        raise BadRequest(
            f"standard input is not valid {encoding.upper()}: the byte at offset {offset} fits no character. Convert it to UTF-8."
        ) from None
    if not is_unicode(text):
        raise BadRequest("standard input holds half of a UTF-16 pair: convert it to UTF-8")
    return text


def say_aside(text: str) -> None:
    """Print it on standard error, if anybody reads that."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads it


# -- images


def read_images(given: Sequence[str], find_places: "Callable[[], Places]") -> list[str]:
    """As data URLs. Raises `BadRequest` for a file that is not an image, or may not be read for a model."""
    return [_data_url(name, places) for name, places in _named(given, find_places)]


def images_or_words(given: Sequence[str], find_places: "Callable[[], Places]") -> list[ContentPart]:
    """Likewise, but replaces what is not an image by words for the model, and tells the user: codex does not refuse it, and
    programs that start it rely on that.
    """
    from understudy.models.images import NotAnImage  # few tasks have any

    parts: list[ContentPart] = []
    for name, places in _named(given, find_places):
        try:
            parts.append(InputImage(_data_url(name, places)))
        except BadRequest as refused:
            if not isinstance(refused.__cause__, NotAnImage):
                raise
            say_aside(f"understudy: image {_shown(name)} is left out: {refused.__cause__}")
            parts.append(InputText(f"[The image {_shown(name)} is left out: {refused.__cause__}.]\n"))
    return parts


def _named(given: Sequence[str], find_places: "Callable[[], Places]") -> "list[tuple[str, Places | None]]":
    names = [name for each in given for name in _names(each)]
    places = find_places() if any(not name.startswith("data:") for name in names) else None
    return [(name, places) for name in names]


def _names(given: str) -> list[str]:
    """Commas separate files, unless the whole text names one."""
    if given.startswith("data:") or os.path.exists(given):
        return [given]
    return [name for name in given.split(",") if name]


def _data_url(name: str, places: "Places | None") -> str:
    from understudy.models.images import MOST_BYTES, UnusableImage, image_url, read_data_url  # few tasks have any

    try:
        return (
            read_data_url(name)
            if places is None or name.startswith("data:")
            else image_url(_for_model(name, places, MOST_BYTES + 1))
        )
    except UnusableImage as error:
        raise BadRequest(f"image {_shown(name)} cannot be shown to a model: {error}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"image {_shown(name)} cannot be read: {reason}") from None


def _shown(name: str) -> str:
    return visible(name if len(name) <= 200 else name[:200] + "…")


def _for_model(name: str, places: "Places", most: int) -> bytes:
    """Also accepts a pipe made by a shell; anything else is judged once it is opened.

    Raises OSError and ValueError.
    """
    of_shell = name == "/dev/stdin" or (name.startswith("/dev/fd/") and name.removeprefix("/dev/fd/").isdecimal())
    try:
        with open(name if of_shell else places.open_for_model(os.path.join(os.getcwd(), name)), "rb") as file:
            return file.read(most)
    except NotForModels as error:
        raise ValueError(str(error)) from None


# -- what the answer is held to


def read_schema(request: ExecRequest, find_places: "Callable[[], Places]") -> dict[str, Any] | None:
    """Raises `BadRequest` if it is not a JSON object; whether that is a valid schema is checked later."""
    if request.output_schema is None:
        return None
    name = visible(request.output_schema)
    try:
        data = _for_model(request.output_schema, find_places(), MOST_SCHEMA + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"output schema {name} cannot be read: {reason}") from None
    if len(data) > MOST_SCHEMA:
        raise BadRequest(f"output schema {name} is larger than {MOST_SCHEMA >> 20} MB, which no model takes")
    try:
        schema: object = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"output schema {name} is not valid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise BadRequest(f'output schema {name} is no JSON object; a schema looks like {{"type": "object", "properties": {{…}}}}')
    return cast(dict[str, Any], schema)


def read_budget(request: ExecRequest) -> Budget | None:
    """`tokens=1000`; several, separated by commas or by repeating the option."""
    if not request.budget:
        return None
    limits: dict[str, float] = {}
    for part in ",".join(request.budget).split(","):
        name, equals, amount = part.partition("=")
        name = name.strip().replace("-", "_")
        if name not in BUDGET_LIMITS or not equals:
            known = ", ".join(BUDGET_LIMITS)
            _wrong_usage(f"`--budget {visible(part)}` is not understood: write LIMIT=N, where LIMIT is {known}")
        limits[name] = _amount(part, amount, whole=name in ("tokens", "requests"))
    return Budget(**cast(dict[str, Any], limits))


def _amount(part: str, text: str, *, whole: bool) -> float:
    text = text.strip().replace("_", "")
    try:
        amount = int(text) if whole else float(text)
    except ValueError:
        amount = 0
    if not 0 < amount < 2**63:
        kind = "a whole number" if whole else "a number"
        _wrong_usage(f"`--budget {visible(part)}` is not understood: {kind} above 0 is wanted")
    return amount


def check_until(request: ExecRequest) -> None:
    command = request.until
    if command is not None and (not command.strip() or "\0" in command or not is_unicode(command)):
        _wrong_usage("--until needs a command, as text")


def _wrong_usage(text: str) -> NoReturn:
    from understudy.cli.parsing import wrong_usage  # needed only for wrong usage

    wrong_usage(text)
