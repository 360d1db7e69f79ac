"""What a call asks of its own turn: `output-schema` and `budget`."""

from collections.abc import Mapping
from typing import Any, cast

from understudy.engine.turn.answer_form import schema_problem, shape_problem
from understudy.errors import InvalidArguments
from understudy.protocol.choices import BUDGET_LIMITS
from understudy.protocol.records import Budget, Terms
from understudy.protocol.serde import found, unknown_field
from understudy.servers.arguments import canonical_names, did_you_mean

WHOLE = frozenset({"tokens", "requests"})


def check_schema(value: object) -> str | None:
    """At first sight; `read_terms` looks closer."""
    if not isinstance(value, dict):
        return f"invalid type: {found(value)}, expected a map"
    problem = shape_problem(cast(object, value))
    return None if problem is None else f"invalid value: {problem}"


def check_budget(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"invalid type: {found(value)}, expected a map"
    table = cast(dict[str, Any], value)
    names = canonical_names(BUDGET_LIMITS)
    seen: set[str] = set()
    for spelled, amount in table.items():
        name = names(spelled)
        if name is None:
            return unknown_field(spelled, BUDGET_LIMITS) + did_you_mean(spelled, BUDGET_LIMITS)
        if name in seen:
            return f"duplicate field `{name}`"
        seen.add(name)
        kind = int if name in WHOLE else int | float
        if amount is not None and (not isinstance(amount, kind) or isinstance(amount, bool)):
            return f"invalid type: {found(amount)}, expected {'u64' if name in WHOLE else 'f64'} for `{name}`"
        if amount is not None and not 0 < amount < 2**63:
            return f"invalid value: {found(amount)}, expected a number above 0 for `{name}`"
    return None


async def read_terms(values: Mapping[str, Any]) -> Terms | None:
    """From canonical names in either case style. Raises `InvalidArguments`."""
    schema = values.get("output-schema", values.get("output_schema"))
    limits: dict[str, Any] | None = values.get("budget")
    if schema is None and limits is None:
        return None
    if schema is not None and (problem := await schema_problem(schema)) is not None:
        raise InvalidArguments(f"invalid value: {problem}, expected a JSON schema\nin `output-schema`")
    names = canonical_names(BUDGET_LIMITS)
    given = {names(spelled): amount for spelled, amount in (limits or {}).items()}
    budget = Budget(**{str(name): amount for name, amount in given.items() if amount is not None})
    return Terms(schema, budget if limits is not None else None)
