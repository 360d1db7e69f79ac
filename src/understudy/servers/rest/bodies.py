"""Bodies and queries of requests, read strictly: what is not known is an error that names it."""

import json
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from understudy.protocol.jsonrpc import why_unreadable
from understudy.servers.http.answers import Refusal

MOST_QUOTED = 500  # characters, of what was sent
T = TypeVar("T")


def read_body(body: bytes, kind: type[T]) -> T:
    """Raises `Refusal`."""
    try:
        found = msgspec.json.decode(body or b"{}", type=kind)
        _check_names(body)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the body does not fit: {_told(error, kind)}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refusal(400, f"the body should be one object in JSON: {why_unreadable(body, error)}") from None
    return found


def read_query(query: bytes, kind: type[T]) -> T:
    """Raises `Refusal`."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict") if query else []
    except ValueError:
        raise Refusal(400, "the query of the address should be NAME=VALUE&…, in percent-encoded UTF-8") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Refusal(400, f"`{name[:MOST_QUOTED]}` is in the query twice")
        values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the query does not fit: {_told(error, kind)}") from None


def _check_names(body: bytes) -> None:
    """A member that is there twice might be read by a proxy once, and by us the other time. Raises `Refusal`."""
    if body:
        json.loads(body, object_pairs_hook=_check_pairs, parse_int=_passed_over, parse_float=_passed_over)


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise Refusal(400, f"`{name[:MOST_QUOTED]}` is in an object of the body twice")
        names.add(name)


def _passed_over(number: str) -> None:
    """Numbers are read already; only names are looked at here."""


def _told(error: msgspec.ValidationError, kind: type[Any]) -> str:
    known = ", ".join(f"`{name}`" for name in kind.__struct_encode_fields__)
    told = str(error)[:MOST_QUOTED]
    return f"{told}. Known are: {known}" if "unknown field" in told else told
