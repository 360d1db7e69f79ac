"""The result of another server's tool, limited in size: for the log and viewers, and for the model."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from understudy.models.images import image_kind
from understudy.tools.output import EVENT_BYTES

MODEL_BYTES = 12_000  # of one result, unless the user chooses otherwise
MOST_PARTS = 64
MOST_IMAGES = 8
MOST_IMAGE_BYTES = 5 << 20
RECORDED_IMAGE = 128 << 10  # characters of an image in the log; the model gets larger ones, too
LONGEST_ARGUMENTS = 32 << 10
_LONGEST_SHORT = 1_000
_STRUCTURED = "structuredContent"

Json = dict[str, Any]
Redact = Callable[[str], str]


def recorded_result(raw: Mapping[str, Any], redact: Redact) -> Json:
    """For the log: in MCP's form, each part limited, without parts that nobody reads."""
    left = EVENT_BYTES
    content: list[Json] = []
    for part in _parts(raw)[:MOST_PARTS]:
        kept = _recorded_part(part, left, redact)
        left = max(0, left - len(msgspec.json.encode(kept)))
        content.append(kept)
    if (hidden := len(_parts(raw)) - MOST_PARTS) > 0:
        content.append({"type": "text", "text": f"[{hidden} more parts were left out]"})
    result: Json = {"content": content}
    if _STRUCTURED in raw and raw[_STRUCTURED] is not None:
        text = redact(_json(raw[_STRUCTURED]))
        result[_STRUCTURED] = _decoded(text) if len(text) <= EVENT_BYTES else {"omitted": f"{len(text)} characters"}
    if raw.get("isError") is True:
        result["isError"] = True
    return result


def _recorded_part(part: Json, room: int, redact: Redact) -> Json:
    text = part.get("text")
    if part.get("type") == "text" and isinstance(text, str):
        return {"type": "text", "text": cut(redact(text), room)}
    data = part.get("data")
    if isinstance(data, str) and len(data) > min(RECORDED_IMAGE, max(room, RECORDED_IMAGE // 8)):
        return {
            "type": str(part.get("type"))[:40],
            "mimeType": str(part.get("mimeType"))[:80],
            "omitted": f"{len(data)} characters",
        }
    encoded = redact(_json(part))
    if len(encoded) <= max(room, _LONGEST_SHORT):
        found = _decoded(encoded)
        return cast(Json, found) if isinstance(found, dict) else {"type": "text", "text": encoded}
    return {"type": "text", "text": cut(encoded, max(room, _LONGEST_SHORT))}


def model_text(raw: Mapping[str, Any], redact: Redact, most: int = MODEL_BYTES) -> str:
    """What the model reads of a result: its texts, other parts as JSON, and the structured content unless a text repeats it."""
    texts: list[str] = []
    structured = raw.get(_STRUCTURED)
    said = False
    for part in _parts(raw)[:MOST_PARTS]:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
                said = said or (structured is not None and _is_json_of(text, structured))
            case {"type": "image"}:
                continue
            case {"type": "audio"}:
                texts.append("[audio, which cannot be passed on]")
            case {"type": "resource", "resource": {"blob": str(blob), **rest}}:
                texts.append(_json({"type": "resource", "resource": {**rest, "blob": f"[{len(blob)} characters]"}}))
            case _:
                texts.append(_json(part))
    if structured is not None and not said:
        texts.append(_json(structured))
    whole = cut(redact("\n".join(texts)), most)
    return f"The tool says that it failed:\n{whole}" if raw.get("isError") is True else whole


def images_of(raw: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Images as data URLs, with types found from their bytes; and a remark for each that cannot be passed on."""
    images: list[str] = []
    problems: list[str] = []
    for part in _parts(raw)[:MOST_PARTS]:
        if part.get("type") != "image":
            continue
        data = part.get("data")
        found = _image(data) if isinstance(data, str) else "[an image without data]"
        if not found.startswith("data:"):
            problems.append(found)
        elif len(images) == MOST_IMAGES:
            problems.append(f"[an image was left out: {MOST_IMAGES} are passed on at most]")
        else:
            images.append(found)
    return tuple(images), tuple(problems)


def _image(data: str) -> str:
    if len(data) > MOST_IMAGE_BYTES:
        return f"[an image of {len(data)} characters was left out: it is too large]"
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return "[an image that is not base64 was left out]"
    kind = image_kind(raw)
    return f"data:image/{kind};base64,{data}" if kind else "[an image of a kind that models do not read was left out]"


def recorded_arguments(arguments: Json) -> Json:
    """For the records of intent and outcome. The model's call, unchanged, is in the log anyway."""
    encoded = _json(arguments)
    if len(encoded) <= LONGEST_ARGUMENTS:
        return arguments
    return {"omitted": f"{len(encoded)} characters", "begin": encoded[:_LONGEST_SHORT]}


def cut(text: str, most: int) -> str:
    """If it is longer than so many bytes, its head and tail with a mark between them."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    head = raw[: most // 2].decode("utf-8", "ignore")
    tail = raw[len(raw) - most // 2 :].decode("utf-8", "ignore")
    return f"{head}\n[... omitted {len(raw) - 2 * (most // 2)} of {len(raw)} bytes ...]\n{tail}"


def _parts(raw: Mapping[str, Any]) -> list[Json]:
    content = raw.get("content")
    found = cast(list[Any], content) if isinstance(content, list) else []
    return [cast(Json, part) for part in found if isinstance(part, dict)]


def _is_json_of(text: str, value: object) -> bool:
    try:
        return msgspec.json.decode(text) == value
    except (msgspec.DecodeError, RecursionError):
        return False


def _decoded(text: str) -> object:
    """As a text part if it is no longer JSON: redacting a secret may have removed a number."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {"type": "text", "text": text}


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, TypeError, ValueError):
        return '"[something that cannot be written]"'
