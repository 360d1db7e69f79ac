"""Reads the arguments of the tools: liberal in spelling, strict in meaning.

Kebab, camel and snake case are equal. An unknown name is an error that suggests the nearest one, because a mistyped policy must not
be ignored; a name given in two spellings is an error too. The first line of an error is the wire's wording; a hint follows.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from understudy.config.model import REPORT_KINDS
from understudy.errors import InvalidArguments
from understudy.protocol.choices import APPROVAL_POLICIES, BUDGET_LIMITS, SANDBOX_MODES
from understudy.protocol.records import Budget, Overrides, Terms
from understudy.protocol.serde import found, one_of, unknown_field, unknown_variant

Check = Callable[[object], str | None]

MOST_NESTED = 64  # levels of `config`; no key of ours is deeper than five

WHAT_AN_ID_IS = (
    "A session is named by the `threadId` of an earlier result (in its `structuredContent`), which looks like 67e55044-10b1-…; "
    "conversationsList lists all of them."
)
WHERE_IDS_ARE = "conversationsList lists those that can be continued. A server sees only the sessions in its own CODEX_HOME."


def text(value: object) -> str | None:
    return None if isinstance(value, str) else f"invalid type: {found(value)}, expected a string"


def flag(value: object) -> str | None:
    return None if isinstance(value, bool) else f"invalid type: {found(value)}, expected a boolean"


def table(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"invalid type: {found(value)}, expected a map"
    return None if _is_shallow(cast(object, value)) else f"invalid value: more than {MOST_NESTED} levels, expected settings"


def _is_shallow(value: object) -> bool:
    """Whether a recursive walk through the value would reach its end."""
    level: list[Any] = [value]
    for _ in range(MOST_NESTED):
        lists = [cast(list[Any], one) for one in level if isinstance(one, list)]
        tables = [list(cast(dict[str, Any], one).values()) for one in level if isinstance(one, dict)]
        level = [item for items in (*lists, *tables) for item in items]
        if not level:
            return True
    return False


def sequence(value: object) -> str | None:
    return None if isinstance(value, list) else f"invalid type: {found(value)}, expected a sequence"


def count(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"invalid type: {found(value)}, expected u32"
    return None if 0 <= value < 2**32 else f"invalid value: {found(value)}, expected u32"


def whole_number(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"invalid type: {found(value)}, expected u64"
    return None if 0 <= value < 2**63 else f"invalid value: {found(value)}, expected u64"


def one_in(variants: tuple[str, ...]) -> Check:
    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return f"invalid type: {found(value)}, expected a string"
        return None if value in variants else unknown_variant(value, variants) + did_you_mean(value, variants)

    return check


class Arguments:
    """The members of one tool's arguments. `required` are checked in order, after the types of the given members."""

    def __init__(self, what: str, members: Mapping[str, Check], required: tuple[str, ...] = ()) -> None:
        self._what = what  # the name of the whole in errors
        self._members = members
        self._required = required
        self._canonical = {_folded(name): name for name in members}

    def read(self, given: object) -> dict[str, Any]:
        """Values by canonical name, without absent and null ones. Raises `InvalidArguments`."""
        if not isinstance(given, dict):
            if isinstance(given, list):
                raise InvalidArguments(f"invalid length {len(cast(list[Any], given))}, expected {self._what}{self._hint()}")
            raise InvalidArguments(f"invalid type: {found(given)}, expected {self._what}{self._hint()}")
        values: dict[str, Any] = {}
        seen: dict[str, str] = {}  # how each name was spelled
        for spelled, value in cast(dict[str, Any], given).items():
            name = spelled if spelled in self._members else self._canonical.get(_folded(spelled))
            if name is None:
                if spelled == "_meta":
                    continue
                raise InvalidArguments(unknown_field(spelled, tuple(self._members)) + did_you_mean(spelled, self._members))
            if value is None and name not in self._required:
                continue
            if name in seen:  # it is unknown which of two policies was meant
                both = f"`{spelled}` and `{seen[name]}` are two spellings of it. Give one."
                raise InvalidArguments(f"duplicate field `{name}`\n{both}")
            seen[name] = spelled
            problem = self._members[name](value)
            if problem is not None:
                raise InvalidArguments(f"{problem}\nin `{name}`")
            values[name] = value
        for name in self._required:
            if name not in values:
                raise InvalidArguments(f"missing field `{name}`{self._hint()}")
        return values

    def _hint(self) -> str:
        needed = f"; {one_of(self._required)} is needed" if len(self._required) == 1 else ""
        return f"\nThe arguments are an object with the members {', '.join(f'`{name}`' for name in self._members)}{needed}."


def did_you_mean(spelled: str, names: Iterable[str]) -> str:
    """A line to add to an error; empty if no name is similar."""
    from difflib import get_close_matches  # only a mistake pays for it

    by_folded = {_folded(name): name for name in names}
    near = get_close_matches(_folded(spelled[:100]), list(by_folded), n=1)
    return f"\nDid you mean `{by_folded[near[0]]}`?" if near else ""


def canonical_names(names: Iterable[str]) -> Callable[[str], str | None]:
    """Returns a function from any spelling of a name to the name; None for other names."""
    by_folded = {_folded(name): name for name in names}
    return lambda spelled: by_folded.get(_folded(spelled))


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


SESSION_MEMBERS: dict[str, Check] = {
    "model": text,
    "profile": text,
    "cwd": text,
    "approval-policy": one_in(APPROVAL_POLICIES),
    "sandbox": one_in(SANDBOX_MODES),
    "config": table,
    "base-instructions": text,
    "developer-instructions": text,
    "compact-prompt": text,
    "include-plan-tool": flag,
}


_WHOLE = frozenset({"tokens", "requests"})


def check_schema(value: object) -> str | None:
    """A first check; `read_terms` looks closer."""
    from understudy.engine.turn.answer_form import shape_problem  # few calls have a schema

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
        kind = int if name in _WHOLE else int | float
        if amount is not None and (not isinstance(amount, kind) or isinstance(amount, bool)):
            return f"invalid type: {found(amount)}, expected {'u64' if name in _WHOLE else 'f64'} for `{name}`"
        if amount is not None and not 0 < amount < 2**63:
            return f"invalid value: {found(amount)}, expected a number above 0 for `{name}`"
    return None


def _images(value: object) -> str | None:
    from understudy.servers.given_images import check_images  # few calls have any

    return check_images(value)


def seconds(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"invalid type: {found(value)}, expected f64"
    return None if 0 < value <= 10_000_000 else f"invalid value: {found(value)}, expected a number of seconds above 0"


def workspace(value: object) -> str | None:
    from understudy.servers.given_workspace import check_workspace  # few calls have one

    return check_workspace(value)


TERM_MEMBERS: dict[str, Check] = {"output-schema": check_schema, "budget": check_budget}
ANSWER_MEMBERS: dict[str, Check] = {"wait-seconds": seconds, "report": one_in(REPORT_KINDS)}  # for the call, not for its turn

CODEX = Arguments(
    "struct CodexToolCallParam",
    {"prompt": text, "images": _images, "workspace": workspace, **SESSION_MEMBERS, **TERM_MEMBERS, **ANSWER_MEMBERS},
    ("prompt",),
)
CODEX_REPLY = Arguments(
    "struct CodexToolCallReplyParam",
    {
        "threadId": text,
        "conversationId": text,
        "sessionId": text,
        "prompt": text,
        "images": _images,
        **TERM_MEMBERS,
        **ANSWER_MEMBERS,
    },
    (),
)


def overrides_from(values: Mapping[str, Any]) -> Overrides:
    """What a caller chose, from canonical names in either case style."""
    chosen = {_snake(name): value for name, value in values.items()}
    if "workspace" in chosen:
        from understudy.servers.given_workspace import read_workspace

        chosen["workspace"] = read_workspace(chosen["workspace"])
    return Overrides(**{name: chosen[name] for name in Overrides.__struct_fields__ if name in chosen})


def _snake(name: str) -> str:
    return name.replace("-", "_")


async def read_terms(values: Mapping[str, Any]) -> Terms | None:
    """From canonical names in either case style. Raises `InvalidArguments`."""
    schema = values.get("output-schema", values.get("output_schema"))
    limits: dict[str, Any] | None = values.get("budget")
    if schema is None and limits is None:
        return None
    if schema is not None:
        from understudy.engine.turn.answer_form import schema_problem

        if (problem := await schema_problem(schema)) is not None:
            raise InvalidArguments(f"invalid value: {problem}, expected a JSON schema\nin `output-schema`")
    names = canonical_names(BUDGET_LIMITS)
    given = {names(spelled): amount for spelled, amount in (limits or {}).items()}
    budget = Budget(**{str(name): amount for name, amount in given.items() if amount is not None})
    return Terms(schema, budget if limits is not None else None)
