"""May this command run, may this patch be applied? Pure functions of facts; of these the model chose only argv and cwd.

Also the classes of facts for a decision.
"""

from typing import Literal

import msgspec

from understudy.policy.harmless import Surroundings, is_harmless, is_harmless_command
from understudy.policy.readable import resolve
from understudy.policy.rules import NO_RULES, Rule, Rules
from understudy.policy.words import Words, simple_commands
from understudy.protocol.choices import ApprovalPolicy, NetworkMode, SandboxMode

Action = Literal["allow", "ask", "deny"]


class Verdict(msgspec.Struct, frozen=True):
    """Whether to ask, whether to run, and whether to contain: three independent answers.

    If a person is asked, `contained` says how it runs after a yes: an explicit approval lifts the containment of that one call. For
    a patch, contained means limited to the writable roots.
    """

    action: Action
    contained: bool
    reason: str  # for the person or the model
    rule: str  # the name of the rule that decided
    justification: str | None = None  # the model's own words, to be shown as such
    network: NetworkMode | None = None  # what a rule lets the command reach inside the sandbox; None: as configured
    network_rule: str | None = None  # the name of the rule for the network


RETRY_REASON = "command failed; retry without sandbox?"
OUTSIDE_REASON = "writing outside of the project; rejected by user approval settings"
READ_ONLY_REASON = "writing with a read-only sandbox; rejected by user approval settings"
PROTECTED_REASON = "writing to a protected path; rejected by user approval settings"
EMPTY_REASON = "empty patch"

_FROM_LEAST: tuple[NetworkMode, ...] = ("off", "loopback", "on")
_MOVES = frozenset(("cd", "pushd", "popd"))


class CommandFacts(msgspec.Struct, frozen=True):
    argv: Words
    cwd: str  # where it would run; the model may have chosen it
    project: tuple[str, ...]  # the conversation's folder and writable roots, absolute and normal; not the model's choice
    approval_policy: ApprovalPolicy
    sandbox_mode: SandboxMode
    sandbox_available: bool = True
    escalated: bool = False  # the model asks to leave the sandbox
    justification: str | None = None  # and says why
    approved: bool = False  # a person has approved this `approval_key` for the session
    rules: Rules = NO_RULES
    planted: frozenset[str] = frozenset()  # see `planted_programs`
    steered_by: str | None = None  # see `steering_variable`
    home: str = ""


class PatchFacts(msgspec.Struct, frozen=True):
    approval_policy: ApprovalPolicy
    sandbox_mode: SandboxMode
    outside: bool = False  # a target lies outside the writable roots
    protected: bool = False  # a target is on the protected list
    empty: bool = False
    targets: Words = ()  # every path that changes, including destinations of moves; absolute; for the rules on files
    project: tuple[str, ...] = ()
    rules: Rules = NO_RULES


def decide_command(facts: CommandFacts) -> Verdict:
    against = facts.rules.against_command(facts.argv, resolve(facts.cwd, "/"), facts.project)
    if against is not None and against.decision == "deny":
        return Verdict("deny", True, against.reason or f"denied by the rule {against.name}", against.name)
    if facts.approved:
        return Verdict("allow", False, "approved for this session", "approved-for-session")
    if against is not None:
        return _ask_by_rule(against, facts.approval_policy)
    return _decide_by_policy(facts)


def _decide_by_policy(facts: CommandFacts) -> Verdict:
    can_contain = facts.sandbox_available
    full_access = facts.sandbox_mode == "danger-full-access"
    if facts.approval_policy == "untrusted":
        spared = _spare(facts) if full_access or can_contain else None
        return spared or Verdict("ask", False, _why_not_harmless(facts), "untrusted")
    if full_access:
        return Verdict("allow", False, "the sandbox mode is danger-full-access", "full-access")
    if facts.approval_policy == "on-request" and facts.escalated:
        return Verdict("ask", False, "the model asks to run it outside the sandbox", "escalation", facts.justification)
    if can_contain:
        granted = _least(_allowing_rules(facts))
        return Verdict("allow", True, "runs in the sandbox", "sandbox", network=granted[0], network_rule=granted[1])
    if facts.approval_policy == "never":
        return Verdict("deny", True, "no sandbox is available here, and the approval policy is never", "no-sandbox")
    return Verdict("ask", False, "no sandbox is available here", "no-sandbox")


def _spare(facts: CommandFacts) -> Verdict | None:
    """The verdict without a question, if the command is harmless or the user's rules allow all of it."""
    contained = facts.sandbox_mode != "danger-full-access"
    if facts.steered_by is not None and not contained:
        return None  # not by a rule either: it is about a program of that name, and this one would be the project's
    if facts.steered_by is None and is_harmless(facts.argv, Surroundings(facts.cwd, facts.project, facts.home, facts.planted)):
        return Verdict("allow", contained, "only reads, and only in the project", "known-harmless")
    allowed = _allowing_rules(facts)
    if not allowed:
        return None
    rule, (network, named) = allowed[0], _least(allowed)
    reason = rule.reason or f"allowed by the rule {rule.name}"
    return Verdict("allow", contained, reason, rule.name, network=network, network_rule=named)


def _why_not_harmless(facts: CommandFacts) -> str:
    if facts.steered_by is not None:
        return f"no program is harmless while the variable {facts.steered_by} lets files of the project take part in it"
    return "not known to be harmless"


def _allowing_rules(facts: CommandFacts) -> list[Rule]:
    """The rules that together allow every command in argv that is not harmless; empty if one is not allowed."""
    commands = simple_commands(facts.argv) if facts.rules.allowing else None
    surroundings = Surroundings(facts.cwd, facts.project, facts.home, facts.planted)
    found: list[Rule] = []
    full_access = facts.sandbox_mode == "danger-full-access"
    for words in commands or ():
        if full_access and words[0] in facts.planted:
            return []  # inside the sandbox, a program of the project may have the name that a rule allows
        rule = facts.rules.allowing_command(words, tuple(surroundings.places), facts.project)
        if rule is not None:
            found.append(rule)
        if rule is not None and words[0] not in _MOVES:
            continue
        if not is_harmless_command(words, surroundings):
            return []  # also a `cd` that a rule allows: we do not know where the rest would run
    return found


def _least(rules: list[Rule]) -> tuple[NetworkMode, str] | tuple[None, None]:
    """The narrowest network of these rules, and that rule's name, so that no command of a script gets more than its own rule
    says."""
    granted: list[tuple[NetworkMode, str]] = [(rule.network, rule.name) for rule in rules if rule.network is not None]
    if not granted or len(granted) < len(rules):
        return None, None
    return min(granted, key=lambda each: _FROM_LEAST.index(each[0]))


def _ask_by_rule(rule: Rule, policy: ApprovalPolicy) -> Verdict:
    if policy == "never":
        return Verdict("deny", True, rule.reason or f"the rule {rule.name} asks, and the approval policy is never", rule.name)
    return Verdict("ask", False, rule.reason or f"the rule {rule.name} asks", rule.name)


def escalation_after_denial(policy: ApprovalPolicy) -> str | None:
    """Why to ask after the sandbox refused a command something; None: ask nobody, and tell the model."""
    match policy:
        case "on-failure" | "untrusted":
            return RETRY_REASON
        case "on-request" | "never":
            return None


def decide_patch(facts: PatchFacts) -> Verdict:
    """The author of a refused patch is told `patch rejected: <reason>`."""
    if facts.empty:
        return Verdict("deny", True, EMPTY_REASON, "empty-patch")
    rule = facts.rules.about_files(facts.targets, facts.project)
    if rule is not None and rule.decision == "deny":
        return Verdict("deny", True, rule.reason or f"denied by the rule {rule.name}", rule.name)
    if facts.protected:
        return _ask_or_refuse(facts, "changes a protected path", PROTECTED_REASON, "protected")
    if rule is not None and rule.decision == "ask":
        return _ask_by_rule(rule, facts.approval_policy)
    full_access = facts.sandbox_mode == "danger-full-access"
    writable = full_access or (facts.sandbox_mode == "workspace-write" and not facts.outside)
    if facts.approval_policy == "untrusted" and not (rule is not None and writable):
        return Verdict("ask", False, "every change is asked about", "untrusted")
    if writable:
        name = rule.name if rule is not None else "full-access" if full_access else "writable-roots"
        return Verdict("allow", not full_access, "changes only what may be written", name)
    if facts.sandbox_mode == "read-only":
        return _ask_or_refuse(facts, "the sandbox is read-only", READ_ONLY_REASON, "read-only")
    return _ask_or_refuse(facts, "changes files outside the project", OUTSIDE_REASON, "outside-the-roots")


def _ask_or_refuse(facts: PatchFacts, question: str, refusal: str, rule: str) -> Verdict:
    if facts.approval_policy == "never":
        return Verdict("deny", True, refusal, rule)
    return Verdict("ask", False, question, rule)
