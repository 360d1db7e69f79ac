"""Parses a command's options against a list of those that are known; an option that is not on the list fails the whole."""

import msgspec

from understudy.policy.words import Words


class Options(msgspec.Struct, frozen=True):
    """Options by how they are written. Long names must be given in full: an abbreviation could stand for another one."""

    flags: str = ""  # letters that stand alone, and may be run together
    valued: str = ""  # letters that take a value, attached or as the next word
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()  # `--name=VALUE` or `--name VALUE`
    long_optional: frozenset[str] = frozenset()  # `--name` or `--name=VALUE`


class Parsed(msgspec.Struct, frozen=True):
    given: frozenset[str]  # letters and long names
    operands: Words
    late: frozenset[str]  # those given after the first operand: not every system takes these for options


def parse_options(known: Options, args: Words) -> Parsed | None:
    """None where any word that begins with `-` is not fully known."""
    given: set[str] = set()
    late: set[str] = set()
    operands: list[str] = []
    rest = iter(args)
    for word in rest:
        if word == "--":
            operands.extend(rest)
            break
        if len(word) < 2 or word[0] != "-":
            operands.append(word)
            continue
        names = _long(known, word) if word[1] == "-" else _cluster(known, word)
        if names is None:
            return None
        named, needs_value = names
        given.update(named)
        if operands:
            late.update(named)
        if needs_value and next(rest, None) is None:
            return None
    return Parsed(frozenset(given), tuple(operands), frozenset(late))


def _long(known: Options, word: str) -> tuple[tuple[str, ...], bool] | None:
    name, equals, _ = word[2:].partition("=")
    if name in known.long_flags:
        return None if equals else ((name,), False)
    if name in known.long_valued:
        return (name,), not equals
    if name in known.long_optional:
        return (name,), False
    return None


def _cluster(known: Options, word: str) -> tuple[tuple[str, ...], bool] | None:
    for at, letter in enumerate(word[1:], start=1):
        if letter in known.valued:
            return tuple(word[1 : at + 1]), at == len(word) - 1
        if letter not in known.flags:
            return None
    return tuple(word[1:]), False
