"""Answers for people who write rules: what would happen to this command, and do the tests of their rules pass?"""

from collections.abc import Sequence
from typing import cast

import msgspec

from understudy.errors import ConfigError
from understudy.policy.decide import CommandFacts, PatchFacts, Verdict, decide_command, decide_patch
from understudy.policy.readable import is_inside, resolve
from understudy.policy.rules import Rules, Table, as_table, read_choice, read_flag, read_text, read_texts, refuse_unknown
from understudy.policy.words import Words, names, simple_commands
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES, ApprovalPolicy, NetworkMode, SandboxMode

_CASE_KEYS = (
    "name",
    "command",
    "script",
    "files",
    "escalated",
    "approval_policy",
    "sandbox_mode",
    "cwd",
    "expect",
    "rule",
    "contained",
)
_DEFAULT_KEYS = ("approval_policy", "sandbox_mode", "cwd")


class Situation(msgspec.Struct, frozen=True):
    """The facts besides the command: the user's configuration, or what a test case says instead."""

    cwd: str
    project: tuple[str, ...]
    approval_policy: ApprovalPolicy
    sandbox_mode: SandboxMode
    rules: Rules
    sandbox_available: bool = True
    home: str = ""
    protected: tuple[str, ...] = ()  # protected names inside the project, and absolute paths


class CaseOutcome(msgspec.Struct, frozen=True):
    """The result of one case of a test file. `problems` is empty if it passed."""

    name: str
    verdict: Verdict
    problems: tuple[str, ...]


def check_command(argv: Words, situation: Situation, *, escalated: bool = False) -> Verdict:
    """The verdict on a command, as if a model had asked."""
    return decide_command(
        CommandFacts(
            argv=argv,
            cwd=situation.cwd,
            project=situation.project,
            approval_policy=situation.approval_policy,
            sandbox_mode=situation.sandbox_mode,
            sandbox_available=situation.sandbox_available,
            escalated=escalated,
            rules=situation.rules,
            home=situation.home,
        )
    )


def check_files(paths: Sequence[str], situation: Situation) -> Verdict:
    """The same for a patch that changes these files. Links are not followed."""
    targets = tuple(resolve(path, situation.cwd) for path in paths)
    return decide_patch(
        PatchFacts(
            approval_policy=situation.approval_policy,
            sandbox_mode=situation.sandbox_mode,
            outside=not all(is_inside(target, situation.project) for target in targets),
            protected=any(_is_protected(target, situation) for target in targets),
            empty=not targets,
            targets=targets,
            project=situation.project,
            rules=situation.rules,
        )
    )


def describe(verdict: Verdict, network: NetworkMode) -> tuple[tuple[str, str], ...]:
    """The verdict as pairs of name and value, for printing. `network`: what is configured for all commands."""
    lines = [("decision", verdict.action), ("rule", verdict.rule), ("reason", verdict.reason)]
    if verdict.action != "deny":
        lines.append(("runs", _how_it_runs(verdict)))
    if verdict.action == "allow" and verdict.contained:
        named = "the configuration" if verdict.network_rule is None else f"the rule {verdict.network_rule}"
        lines += [("network", verdict.network or network), ("network from", named)]
    return tuple(lines)


def _how_it_runs(verdict: Verdict) -> str:
    if verdict.action == "ask":
        return "in the sandbox, if approved" if verdict.contained else "outside the sandbox, if approved"
    return "in the sandbox, without a question" if verdict.contained else "outside the sandbox, without a question"


def explain(verdict: Verdict, situation: Situation, argv: Words = ()) -> str:
    """Explains the verdict to someone who expected another: what holds the command back, and what would change that."""
    mode, policy = situation.sandbox_mode, situation.approval_policy
    if verdict.action == "deny":
        return "It does not run, and nobody is asked."
    if verdict.action == "ask":
        return (
            "Nothing runs before a person has said yes. That takes this one command out of the sandbox, and the question says so."
        )
    if not verdict.contained:
        return "Nothing holds it back: it runs with all rights of the account that runs understudy."
    held = (
        "Allowed is not harmless: it may do what the sandbox lets any command do."
        if verdict.rule == "sandbox"
        else "The question is spared; the sandbox is not."
    )
    reach = (
        "It can change nothing."
        if mode == "read-only"
        else f"It can change files in {', '.join(situation.project)} and in a /tmp of its own, and nothing else."
    )
    outside = (
        "To run it outside the sandbox, the model would have to ask you."
        if policy == "on-request"
        else "It cannot leave the sandbox under this policy."
        if policy == "never"
        else "If the sandbox refuses it something, you are asked whether it may run outside."
    )
    return " ".join(filter(None, (held, reach, _refused_by_protection(argv, situation), outside)))


_WRITES_GIT = names(
    "add am cherry-pick commit fetch gc init merge mv pull rebase reset restore revert rm stash switch checkout tag worktree"
    " update-index update-ref"
)


def _refused_by_protection(argv: Words, situation: Situation) -> str:
    """For commands that are widely known to write to protected files."""
    if situation.sandbox_mode != "workspace-write" or ".git" not in situation.protected:
        return ""
    verb = next((_verb(words) for words in simple_commands(argv) or () if words[0] == "git" and _verb(words) in _WRITES_GIT), None)
    if verb is None:
        return ""
    return (
        f"But `.git` is protected, so what `git {verb}` writes there is refused with 'Read-only file system';"
        ' `protect = ["!.git"]` under [understudy.sandbox] opens it.'
    )


def _verb(words: Words) -> str:
    rest = iter(words[1:])
    for word in rest:
        if word in ("-C", "-c"):
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def run_cases(document: Table, situation: Situation, *, source: str) -> tuple[CaseOutcome, ...]:
    """Try every `[[case]]` of a parsed test file. Raises `ConfigError` that names the case and the key that is wrong."""
    for key in document:
        if key not in ("case", "defaults"):
            raise ConfigError(f"{source}: `{key}` is not known here. Expected `[[case]]` tables and `[defaults]`")
    defaults = as_table(document.get("defaults", {}), f"{source}: defaults")
    refuse_unknown(defaults, _DEFAULT_KEYS, f"{source}: defaults")
    cases = document.get("case")
    if not isinstance(cases, list) or not cases:
        raise ConfigError(f"{source}: expected at least one `[[case]]`")
    situation = _adapted(situation, defaults, f"{source}: defaults")
    return tuple(
        _run_case(as_table(case, f"{source}: case[{number}]"), situation, f"{source}: case[{number}]")
        for number, case in enumerate(cast(list[object], cases), start=1)
    )


def _run_case(case: Table, situation: Situation, where: str) -> CaseOutcome:
    refuse_unknown(case, _CASE_KEYS, where)
    situation = _adapted(situation, case, where)
    subjects = [key for key in ("command", "script", "files") if key in case]
    if len(subjects) != 1:
        raise ConfigError(f"{where}: expected one of `command`, `script` or `files`")
    if subjects == ["files"]:
        files = read_texts(case, "files", where)
        verdict, shown = check_files(files, situation), ", ".join(files)
    else:
        argv = (
            read_texts(case, "command", where)
            if subjects == ["command"]
            else ("bash", "-lc", read_text(case, "script", where) or "")
        )
        escalated = read_flag(case, "escalated", where) or False
        verdict, shown = check_command(argv, situation, escalated=escalated), " ".join(argv)
    return CaseOutcome(str(case.get("name", shown)), verdict, _problems(case, verdict, where))


def _problems(case: Table, verdict: Verdict, where: str) -> tuple[str, ...]:
    expected = read_choice(case, "expect", ("allow", "ask", "deny"), where)
    if expected is None:
        raise ConfigError(f"{where}.expect is missing. Expected `allow`, `ask` or `deny`")
    contained = read_flag(case, "contained", where)
    rule = read_text(case, "rule", where)
    wanted: tuple[tuple[str, object, object], ...] = (
        ("decision", expected, verdict.action),
        ("rule", rule, verdict.rule),
        ("contained", contained, verdict.contained),
    )
    return tuple(f"{what} is {found}, expected {wish}" for what, wish, found in wanted if wish is not None and wish != found)


def _adapted(situation: Situation, table: Table, where: str) -> Situation:
    policy = read_choice(table, "approval_policy", APPROVAL_POLICIES, where)
    mode = read_choice(table, "sandbox_mode", SANDBOX_MODES, where)
    if policy is not None:
        situation = msgspec.structs.replace(situation, approval_policy=cast(ApprovalPolicy, policy))
    if mode is not None:
        situation = msgspec.structs.replace(situation, sandbox_mode=cast(SandboxMode, mode))
    cwd = read_text(table, "cwd", where)
    return situation if cwd is None else msgspec.structs.replace(situation, cwd=resolve(cwd, situation.cwd))


def _is_protected(target: str, situation: Situation) -> bool:
    names = tuple(name for name in situation.protected if not name.startswith("/"))
    inside = tuple(f"{root.rstrip('/')}/{name}" for root in situation.project for name in names)
    absolute = tuple(path for path in situation.protected if path.startswith("/"))
    return is_inside(target.casefold(), tuple(path.casefold() for path in (*inside, *absolute)))
