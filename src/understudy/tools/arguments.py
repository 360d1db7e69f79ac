"""A call's arguments, from the model's JSON text to a typed value."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from understudy.errors import ToolError

ParamsT = TypeVar("ParamsT", bound=msgspec.Struct)


def read_arguments(text: str, params: type[ParamsT], name: str | None = None) -> ParamsT:
    """Raises `ToolError` with the reason, as the model is told it."""
    try:
        return _decoder(params).decode(text)
    except (ValueError, RecursionError):
        from understudy.protocol.serde import explain  # only a mistake pays for it

        try:
            reason = explain(text, params, name or params.__name__)
        except (ValueError, RecursionError):  # a number of thousands of digits, nesting without end
            reason = "a number or the nesting is beyond all measure"
        raise ToolError(f"failed to parse function arguments: {reason}") from None


@cache
def _decoder(params: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(params)
