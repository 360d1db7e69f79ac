"""What callers may choose whose tokens an issuer has signed: `subjects` and `groups` of [understudy.serve]."""

import os
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from understudy.config.schema import TreeReader, one_of
from understudy.config.tokens import DEFAULT_MODES, MODES
from understudy.protocol.choices import SandboxMode


class Choices(msgspec.Struct, frozen=True):
    """As a named token has them."""

    roots: tuple[str, ...] | None = None  # folders to work in; None: anywhere
    modes: frozenset[SandboxMode] = frozenset(DEFAULT_MODES)


class IssuedChoices(msgspec.Struct, frozen=True):
    """Who is named by their subject has what stands there; else, all that their groups have; else what a plain token has."""

    subjects: Mapping[str, Choices] = {}
    groups: Mapping[str, Choices] = {}

    def of(self, subject: str, groups: Iterable[str]) -> Choices:
        if (own := self.subjects.get(subject)) is not None:
            return own
        found = [self.groups[group] for group in groups if group in self.groups]
        if not found:
            return Choices()
        anywhere = any(each.roots is None for each in found)
        roots = None if anywhere else tuple(dict.fromkeys(root for each in found for root in each.roots or ()))
        return Choices(roots, frozenset[SandboxMode]().union(*(each.modes for each in found)))


def read_issued_choices(read: TreeReader) -> IssuedChoices:
    """Raises `Mismatch`."""
    return IssuedChoices(*(_read_table(read, f"understudy.serve.{kind}") for kind in ("subjects", "groups")))


def _read_table(read: TreeReader, key: str) -> Mapping[str, Choices]:
    found: dict[str, Choices] = {}
    for name, table in read.named_tables(key).items():
        choices = TreeReader(table, f'{key}."{name}"')
        if unknown := set(table) - {"roots", "sandbox"}:  # a slip would leave something open
            raise choices.mismatch(min(unknown), "it is not known", "`roots` or `sandbox`")
        roots, modes = choices.texts("roots"), choices.texts("sandbox")
        for root in roots or ():
            if not os.path.isabs(root):
                raise choices.mismatch("roots", f"invalid value: `{root}` is no absolute path", "a list of absolute paths")
        for mode in modes or ():
            if mode not in MODES:
                raise choices.mismatch("sandbox", f"invalid value: `{mode}`", f"a list of {one_of(MODES)}")
        allowed = DEFAULT_MODES if modes is None else cast(tuple[SandboxMode, ...], modes)
        found[name] = Choices(roots, frozenset(allowed))
    return found
