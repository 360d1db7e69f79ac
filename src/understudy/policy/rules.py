"""The user's rules, `[[policy.rules]]` in the configuration: checked when read, matched by wildcards over words and paths."""

from collections.abc import Callable, Mapping, Sequence
from posixpath import relpath
from typing import Any, Literal, TypeVar, cast

import msgspec

from understudy.errors import ConfigError
from understudy.policy.readable import is_inside
from understudy.policy.words import OutOfReach, Words, may_hide_commands, program_name, runs_of_words
from understudy.protocol.choices import NETWORK_MODES, NetworkMode

Item = TypeVar("Item")

ANY_WORDS = "**"


def matches_word(pattern: str, word: str) -> bool:
    """`*` stands for any text within the word, `?` for one character."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == word
    return _matches(pattern, word, "*", lambda wanted, found: wanted in ("?", found))


def matches_words(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Each item stands for one word; `**` for any number of words."""
    return _matches(pattern, words, ANY_WORDS, matches_word)


def matches_path(pattern: str, path: str, project: tuple[str, ...]) -> bool:
    """Whether an absolute path, or a folder that contains it, matches.

    A pattern with a leading `/` is matched against the whole path; one with another slash against the path from the project's root;
    one without a slash against each name below that root.
    """
    if pattern.startswith("/"):
        return matches_words((*_parts(pattern), ANY_WORDS), _parts(path))
    anchored = "/" in pattern.rstrip("/")
    parts = _parts(pattern) if anchored else (ANY_WORDS, *_parts(pattern))
    return any(
        matches_words((*parts, ANY_WORDS), _parts(relpath(path, root))) for root in project if is_inside(path, (root,))
    )  # fmt: skip


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _matches(pattern: Sequence[Item], found: Sequence[Item], star: Item, one: Callable[[Item, Item], bool]) -> bool:
    """Greedy, remembering one place to go back to: a later star makes an earlier one's choice irrelevant."""
    p = f = 0
    last_star, resume = -1, 0
    while f < len(found):
        if p < len(pattern) and pattern[p] == star:
            last_star, resume = p, f
            p += 1
        elif p < len(pattern) and one(pattern[p], found[f]):
            p, f = p + 1, f + 1
        elif last_star >= 0:
            resume += 1
            p, f = last_star + 1, resume
        else:
            return False
    return all(item == star for item in pattern[p:])


Table = Mapping[str, Any]


def as_table(value: object, where: str) -> Table:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table")
    return cast(dict[str, Any], value)


def refuse_unknown(table: Table, known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: `{key}` is not known here. Expected {listed(known)}")


def read_text(table: Table, key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and not is_text(value):
        raise ConfigError(f"{where}.{key}: expected text")
    return value


def read_texts(table: Table, key: str, where: str) -> tuple[str, ...]:
    return cast(tuple[str, ...], read_list(table, key, where, "a list of texts that are not empty", is_text))


def read_list(table: Table, key: str, where: str, expected: str, fits: Callable[[object], bool]) -> tuple[object, ...]:
    """Empty if the key is missing; a list that is given must have items."""
    value = table.get(key)
    if value is None:
        return ()
    items: tuple[object, ...] = tuple(cast(list[object], value)) if isinstance(value, list) else ()
    if not items or not all(map(fits, items)):
        raise ConfigError(f"{where}.{key}: expected {expected}")
    return items


def read_flag(table: Table, key: str, where: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{where}.{key}: expected true or false")
    return value


def read_choice(table: Table, key: str, choices: Sequence[str], where: str) -> str | None:
    value = table.get(key)
    if value is not None and value not in choices:
        raise ConfigError(f"{where}.{key} is {value!r}. Expected {listed(choices)}")
    return value


def is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def is_texts(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(map(is_text, cast(list[object], value)))


def listed(choices: Sequence[str]) -> str:
    quoted = [f"`{choice}`" for choice in choices]
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]


RuleDecision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[RuleDecision, ...] = ("allow", "ask", "deny")

_KEYS = ("name", "prefix", "pattern", "paths", "network", "decision", "reason")


class Rule(msgspec.Struct, frozen=True):
    """A rule with a prefix or a pattern is about commands; one with neither is about the files that a patch changes."""

    name: str
    decision: RuleDecision
    reason: str = ""
    prefix: tuple[tuple[str, ...], ...] = ()  # for each of the first words, the accepted spellings
    pattern: Words = ()
    paths: tuple[str, ...] = ()
    network: NetworkMode | None = None  # what an allowed command may reach, inside the sandbox

    def fits_command(self, words: Words) -> bool:
        """Compares word for word. A rule that forbids or asks also recognizes its program by another path or in another case."""
        if self.decision != "allow":
            words = (program_name(words[0]), *words[1:])
        if self.prefix:
            return len(words) >= len(self.prefix) and all(
                word in ways for word, ways in zip(words, self.prefix, strict=False)
            )  # fmt: skip
        return matches_words(self.pattern, words)

    def fits_path(self, path: str, project: tuple[str, ...]) -> bool:
        if self.decision == "allow":
            return any(matches_path(pattern, path, project) for pattern in self.paths)
        folded, roots = path.casefold(), tuple(root.casefold() for root in project)
        return any(matches_path(pattern.casefold(), folded, roots) for pattern in self.paths)


class Rules(msgspec.Struct, frozen=True):
    """Sorted by subject and decision."""

    forbidding: tuple[Rule, ...] = ()  # about commands: deny and then ask
    allowing: tuple[Rule, ...] = ()  # about commands
    files: tuple[Rule, ...] = ()  # deny, ask, allow

    def against_command(self, argv: Words, cwd: str, project: tuple[str, ...]) -> Rule | None:
        """The strictest rule that denies the command or asks about it, even if the command is nested inside argv."""
        if not self.forbidding or not argv:
            return None
        moves = may_hide_commands(argv[0])  # it may change the folder first
        rules = [rule for rule in self.forbidding if not rule.paths or moves or rule.fits_path(cwd, project)]
        if not rules:
            return None
        strictest: Rule | None = None
        try:
            for words in runs_of_words(argv):
                for rule in rules:
                    if rule.fits_command(words):
                        if rule.decision == "deny":
                            return rule
                        strictest = strictest or rule
        except OutOfReach:
            return Rule("too-long-to-check", rules[0].decision, "the command is too long to be checked against the rules")
        return strictest

    def allowing_command(self, words: Words, places: Sequence[str], project: tuple[str, ...]) -> Rule | None:
        """The first rule that allows this simple command in every folder in which it may run."""
        for rule in self.allowing:
            if rule.fits_command(words) and (not rule.paths or all(rule.fits_path(place, project) for place in places)):
                return rule
        return None

    def about_files(self, targets: Sequence[str], project: tuple[str, ...]) -> Rule | None:
        """The strictest rule on any of the files; an allow rule only if every file has one."""
        found: Rule | None = None
        allowed = 0
        for target in targets:
            rule = next((rule for rule in self.files if rule.fits_path(target, project)), None)
            if rule is None:
                continue
            allowed += rule.decision == "allow"
            if found is None or DECISIONS.index(rule.decision) > DECISIONS.index(found.decision):
                found = rule
        return found if found is None or found.decision != "allow" or allowed == len(targets) else None


NO_RULES = Rules()


def parse_rules(tables: Sequence[Table], *, source: str, home: str, key: str = "policy.rules") -> Rules:
    """Raises `ConfigError` that names the file, the rule, its key and the expected value."""
    rules = [_parse_rule(table, f"{source}: {key}[{number}]", home) for number, table in enumerate(tables, start=1)]
    commands = [rule for rule in rules if rule.prefix or rule.pattern]
    strictest_first = sorted(rules, key=lambda rule: -DECISIONS.index(rule.decision))
    return Rules(
        forbidding=tuple(rule for rule in strictest_first if rule in commands and rule.decision != "allow"),
        allowing=tuple(rule for rule in commands if rule.decision == "allow"),
        files=tuple(rule for rule in strictest_first if rule not in commands),
    )


def _parse_rule(table: Table, where: str, home: str) -> Rule:
    refuse_unknown(table, _KEYS, where)
    decision = read_choice(table, "decision", DECISIONS, where)
    if decision is None:
        raise ConfigError(f"{where}.decision is missing. Expected {listed(DECISIONS)}")
    network = read_choice(table, "network", NETWORK_MODES, where)
    if network is not None and decision != "allow":
        raise ConfigError(f'{where}.network says what an allowed command may reach. Expected it beside `decision = "allow"` only')
    prefix = _prefix(table, where)
    pattern = read_texts(table, "pattern", where)
    paths = tuple(_expand(path, home) for path in read_texts(table, "paths", where))
    if prefix and pattern:
        raise ConfigError(f"{where} has `prefix` and `pattern`. Expected one of the two")
    if not (prefix or pattern or paths):
        raise ConfigError(f"{where} is about nothing. Expected `prefix`, `pattern` or `paths`")
    if network is not None and not (prefix or pattern):
        raise ConfigError(f"{where}.network is about commands. Expected `prefix` or `pattern` beside it")
    if decision != "allow":  # these are matched in any case and folder, see `fits_command`
        prefix = (tuple(map(program_name, prefix[0])), *prefix[1:]) if prefix else ()
        pattern = (program_name(pattern[0]), *pattern[1:]) if pattern else ()
    return Rule(
        name=read_text(table, "name", where) or where.rpartition(": ")[2],
        decision=cast(RuleDecision, decision),
        reason=read_text(table, "reason", where) or "",
        prefix=prefix,
        pattern=pattern,
        paths=paths,
        network=cast(NetworkMode | None, network),
    )


def _prefix(table: Table, where: str) -> tuple[tuple[str, ...], ...]:
    expected = 'a list of words, each of them text or a list of texts, as in ["git", ["push", "fetch"]]'
    words = read_list(table, "prefix", where, expected, lambda word: is_text(word) or is_texts(word))
    return tuple((word,) if isinstance(word, str) else tuple(cast(list[str], word)) for word in words)


def _expand(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path
