"""What callers chose for a conversation, when they choose again."""

from typing import Any

import msgspec

from understudy.protocol.records import Overrides


def with_changes(before: Overrides, after: Overrides) -> Overrides:
    """What holds where somebody who chose `before` chooses again."""
    return merge(_unpinned(before, after), after)


def merge(before: Overrides, after: Overrides) -> Overrides:
    """Later choices over earlier ones; `config` keys one by one."""
    chosen = msgspec.structs.asdict(before)
    for name, choice in msgspec.structs.asdict(after).items():
        if choice is not None:
            chosen[name] = choice
    chosen["config"] = {**(before.config or {}), **(after.config or {})} or None
    return Overrides(**chosen)


def _unpinned(before: Overrides, after: Overrides) -> Overrides:
    """A profile or a `config` key chosen now counts, though the same thing was written down by name at the start."""
    keys = set(after.config or {})
    everything = after.profile is not None
    fields = fields_of(before)
    for name, key in (("model", "model"), ("approval_policy", "approval_policy"), ("sandbox", "sandbox_mode")):
        if everything or key in keys:
            fields[name] = None
    return Overrides(**fields)


def fields_of(overrides: Overrides) -> dict[str, Any]:
    return {name: getattr(overrides, name) for name in Overrides.__struct_fields__}
