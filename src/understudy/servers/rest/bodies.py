"""Bodies and queries of requests, read strictly: what is not known is an error that names it."""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from understudy.servers.http.answers import Refusal

T = TypeVar("T")


def read_body(body: bytes, kind: type[T]) -> T:
    """Raises `Refusal`."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the body does not fit: {_told(error, kind)}") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Refusal(400, f"the body should be one object in JSON: {error}") from None


def read_query(query: bytes, kind: type[T]) -> T:
    """Raises `Refusal`."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict") if query else []
    except ValueError:
        raise Refusal(400, "the query of the address should be NAME=VALUE&…, in percent-encoded UTF-8") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Refusal(400, f"`{name}` is in the query twice")
        values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the query does not fit: {_told(error, kind)}") from None


def _told(error: msgspec.ValidationError, kind: type[Any]) -> str:
    known = ", ".join(f"`{name}`" for name in kind.__struct_encode_fields__)
    return f"{error}. Known are: {known}" if "unknown field" in str(error) else str(error)
