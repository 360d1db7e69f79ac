"""How a provider is asked for an answer in the form of a JSON schema.

Strictly at first, as `codex exec` asks. A provider that refuses that is asked without `strict`, and one that knows no schemas is
told in words; which of them holds is learnt from its refusals, once a process. Whether an answer fits is checked elsewhere.
"""

from collections import OrderedDict
from typing import Any, Literal

import msgspec

NAME = "codex_output_schema"
KEPT = 256  # schemas that some provider has refused

Form = Literal["strict", "lenient", "words"]

_AFTER: dict[Form, Form] = {"strict": "lenient", "lenient": "words"}
_COMPLAINTS = ("response_format", "json_schema", "text.format", "output_config", "output_format", "schema", "strict")

_learnt: OrderedDict[tuple[str, int], Form] = OrderedDict()
_encode = msgspec.json.Encoder().encode


def form_for(place: str, schema: dict[str, Any]) -> Form:
    return _learnt.get(_key(place, schema), "strict") if _learnt else "strict"


def gives_way(place: str, schema: dict[str, Any] | None, status: int, body: str) -> bool:
    """After a refusal that may be about the schema: whether the next request asks in another form."""
    if schema is None or status not in (400, 422) or not any(word in body for word in _COMPLAINTS):
        return False
    after = _AFTER.get(form_for(place, schema))
    if after is None:
        return False
    _learnt[_key(place, schema)] = after
    if len(_learnt) > KEPT:
        _learnt.popitem(last=False)
    return True


def in_words(schema: dict[str, Any]) -> str:
    """For a provider that cannot be given a schema."""
    return (
        "Your final answer has to be one JSON value that fits this JSON schema, with nothing before or after it:\n"
        f"{_encode(schema).decode()}"
    )


def _key(place: str, schema: dict[str, Any]) -> tuple[str, int]:
    return place, hash(_encode(schema))
