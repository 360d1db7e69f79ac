"""Reads what a method of a protocol of lines is given."""

from typing import TypeVar

import msgspec
from msgspec import Raw

from understudy.servers.failures import InvalidParams

P = TypeVar("P", bound=msgspec.Struct)


def read_params(kind: type[P], given: Raw | None) -> P:
    """Raises `InvalidParams`, which says what is wrong and where."""
    try:
        return msgspec.json.decode(given or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"Invalid params: {_plain(str(error))}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def _plain(reason: str) -> str:
    """`Object missing required field `cwd` - at `$.input`` reads well enough; the `$` stands for the params."""
    return reason.replace("`$.", "`params.").replace("`$`", "`params`").replace("`$[", "`params[")
