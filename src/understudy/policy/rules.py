"""The user's own rules: `[[policy.rules]]` of the configuration, checked when read, and matched against commands and files.

The strictest rule that fits wins: deny, then ask, then allow. An allow rule spares the question and nothing else: the
command stays contained.
"""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from understudy.errors import ConfigError
from understudy.policy.globs import matches_path, matches_words
from understudy.policy.reach import OutOfReach, may_hide_commands, program_name, runs_of_words
from understudy.policy.tables import Table, is_text, is_texts, listed, read_choice, read_list, read_text, read_texts, refuse_unknown
from understudy.policy.words import Words
from understudy.protocol.choices import NETWORK_MODES, NetworkMode

RuleDecision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[RuleDecision, ...] = ("allow", "ask", "deny")

_KEYS = ("name", "prefix", "pattern", "paths", "network", "decision", "reason")


class Rule(msgspec.Struct, frozen=True):
    """About commands where it has a prefix or a pattern; about the files a patch changes where it has neither."""

    name: str
    decision: RuleDecision
    reason: str = ""
    prefix: tuple[tuple[str, ...], ...] = ()  # for each of the first words, the ways it may be spelt
    pattern: Words = ()
    paths: tuple[str, ...] = ()
    network: NetworkMode | None = None  # what an allowed command may reach, inside the sandbox

    def fits_command(self, words: Words) -> bool:
        """Word for word. A rule that forbids or asks also knows its program by another path or in another case."""
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
    """Sorted by what they are about and can decide."""

    forbidding: tuple[Rule, ...] = ()  # about commands: deny and then ask
    allowing: tuple[Rule, ...] = ()  # about commands
    files: tuple[Rule, ...] = ()  # deny, ask, allow

    def against_command(self, argv: Words, cwd: str, project: tuple[str, ...]) -> Rule | None:
        """The strictest rule that denies the command or asks about it, wherever in argv it is hidden."""
        if not self.forbidding or not argv:
            return None
        moves = may_hide_commands(argv[0])  # it may change folder first
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
        """The first rule that allows this simple command in every folder it may run in."""
        for rule in self.allowing:
            if rule.fits_command(words) and (not rule.paths or all(rule.fits_path(place, project) for place in places)):
                return rule
        return None

    def about_files(self, targets: Sequence[str], project: tuple[str, ...]) -> Rule | None:
        """The strictest rule on any of the files; an allow rule only where every file has one."""
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
    """Raises `ConfigError` that names the file, the rule, its key and what should stand there."""
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
    if decision != "allow":  # matched without regard to case and folder, see `fits_command`
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
