"""The user's rules: what they may say, how errors read, and that no rule reaches further than its words."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.threat_cases import FACTS, HOME, PROJECT
from understudy.errors import ConfigError
from understudy.policy.decide import CommandFacts, PatchFacts, decide_command, decide_patch
from understudy.policy.rules import Rules, matches_path, matches_word, matches_words, parse_rules
from understudy.policy.words import Words


def _rules(*tables: dict[str, Any]) -> Rules:
    return parse_rules(tables, source="config.toml", home=HOME)


def _bash(script: str) -> Words:
    return ("bash", "-lc", script)


def _facts(argv: Words, rules: Rules, **changes: Any) -> CommandFacts:
    return msgspec.structs.replace(FACTS, argv=argv, rules=rules, **changes)


NO_PUSH = _rules({"name": "no-push", "prefix": ["git", "push"], "decision": "deny", "reason": "pushing is mine"})


@pytest.mark.parametrize(
    "argv",
    [
        ("git", "push"),
        ("git", "push", "--force"),
        ("/usr/bin/git", "push"),
        ("GIT", "push"),
        ("env", "A=b", "git", "push"),
        ("timeout", "5", "nice", "git", "push"),
        ("sudo", "-u", "x", "git", "push"),
        ("xargs", "git", "push"),
        ("find", ".", "-exec", "git", "push", ";"),
        _bash("git push"),
        _bash("cd x && git push origin main"),
        _bash("git push; echo $HOME"),
        _bash("(git push)"),
        _bash("if true; then git push; fi"),
        _bash("A=b git push"),
        _bash("echo $(git push)"),
        _bash("'git' push"),
        _bash("gi\\t push"),
        _bash("git \\\n push"),
        _bash("env bash -c 'git push'"),
        ("sh", "-c", "git push"),
        ("bash", "-x", "-c", "git push"),
        ("su", "-c", "git push", "me"),
        ("env", "sh", "-c", "nice sh -c 'git push'"),
    ],
)
@pytest.mark.parametrize("policy", ["untrusted", "on-request", "never"])
def test_what_a_rule_denies_is_found_wherever_it_hides(argv: Words, policy: Any) -> None:
    verdict = decide_command(_facts(argv, NO_PUSH, approval_policy=policy))
    assert (verdict.action, verdict.rule, verdict.reason) == ("deny", "no-push", "pushing is mine")


def test_a_denied_command_stays_denied_in_every_mode_and_though_approved() -> None:
    for mode in ("read-only", "workspace-write", "danger-full-access"):
        facts = _facts(("git", "push"), NO_PUSH, sandbox_mode=mode, approved=True)
        assert decide_command(facts).action == "deny"


@pytest.mark.parametrize(
    "argv",
    [("git", "pull"), ("git-push",), ("git", "pushd"), ("echo", "git", "push"), _bash("echo 'git push'"), ("grep", "git push")],
)
def test_what_only_mentions_it_is_not_denied(argv: Words) -> None:
    assert decide_command(_facts(argv, NO_PUSH)).action != "deny"


def test_a_command_too_long_to_be_checked_meets_the_strictest_rule() -> None:
    argv = _bash("$x " + "a " * 20_000 + "; git push")
    verdict = decide_command(_facts(argv, NO_PUSH, approval_policy="never"))
    assert (verdict.action, verdict.rule) == ("deny", "too-long-to-check")
    nested = "git push"
    for _ in range(12):
        nested = f"sh -c {nested!r}"
    assert decide_command(_facts(("sh", "-c", nested), NO_PUSH, approval_policy="never")).action == "deny"


def test_the_strictest_rule_wins_whatever_the_order() -> None:
    allow = {"prefix": ["git"], "decision": "allow"}
    ask = {"prefix": ["git", "commit"], "decision": "ask", "reason": "look first"}
    deny = {"prefix": ["git", "push"], "decision": "deny"}
    for tables in ((allow, ask, deny), (deny, ask, allow), (ask, allow, deny)):
        rules = _rules(*tables)
        actions = [decide_command(_facts(("git", verb), rules)).action for verb in ("status", "commit", "push")]
        assert actions == ["allow", "ask", "deny"]
        assert decide_command(_facts(_bash("git status && git commit && git push"), rules)).action == "deny"
        assert decide_command(_facts(_bash("git status && git commit"), rules)).action == "ask"
        assert decide_command(_facts(_bash("git status && ls"), rules)).action == "allow"


def test_a_rule_that_asks_holds_where_the_policy_would_not_ask_and_denies_under_never() -> None:
    rules = _rules({"name": "look", "prefix": ["npm", ["publish", "login"]], "decision": "ask", "reason": "look first"})
    asked = decide_command(_facts(("npm", "publish"), rules, approval_policy="on-request", sandbox_mode="danger-full-access"))
    assert (asked.action, asked.contained, asked.rule, asked.reason) == ("ask", False, "look", "look first")
    assert decide_command(_facts(("npm", "login"), rules, approval_policy="never")).action == "deny"
    assert decide_command(_facts(("npm", "test"), rules, approval_policy="never")).action == "allow"
    assert decide_command(_facts(("npm", "publish"), rules, approved=True)).action == "allow"


def test_an_allowed_command_stays_in_the_sandbox() -> None:
    rules = _rules({"name": "tests", "prefix": ["npm", "test"], "decision": "allow"})
    verdict = decide_command(_facts(("npm", "test"), rules))
    assert (verdict.action, verdict.contained, verdict.rule) == ("allow", True, "tests")
    assert decide_command(_facts(("npm", "test"), rules, sandbox_available=False)).action == "ask"
    escalated = _facts(("npm", "test"), rules, approval_policy="on-request", escalated=True)
    assert decide_command(escalated).action == "ask"


@pytest.mark.parametrize(
    ("pattern", "argv", "action"),
    [
        (["npm", "run", "test*"], ("npm", "run", "test:unit"), "allow"),
        (["npm", "run", "test*"], ("npm", "run", "test", "--", "--x"), "ask"),
        (["npm", "run", "test*", "**"], ("npm", "run", "test", "--", "--x"), "allow"),
        (["npm", "**", "build"], ("npm", "--prefix", "x", "build"), "allow"),
        (["npm", "**", "build"], ("npm", "build"), "allow"),
        (["make", "?"], ("make", "a"), "allow"),
        (["make", "?"], ("make", "ab"), "ask"),
        (["make", "*"], ("make", "a b; rm"), "allow"),  # one word is one word, whatever is in it
        (["make", "*"], _bash("make a b"), "ask"),
        (["git*"], ("git-evil",), "allow"),  # the user's own wildcard
        (["git"], ("git", "status"), "ask"),
    ],
)
def test_a_pattern_is_matched_word_by_word(pattern: list[str], argv: Words, action: str) -> None:
    assert decide_command(_facts(argv, _rules({"pattern": pattern, "decision": "allow"}))).action == action


def test_a_rule_for_some_folders_holds_only_there() -> None:
    rules = _rules({"prefix": ["make"], "paths": ["web", "~/other"], "decision": "allow"})

    def action(argv: Words, cwd: str) -> str:
        return decide_command(_facts(argv, rules, cwd=cwd)).action

    assert action(("make",), f"{PROJECT}/web") == "allow"
    assert action(("make",), f"{PROJECT}/web/deep") == "allow"
    assert action(("make",), f"{HOME}/other") == "allow"
    assert action(("make",), PROJECT) == "ask"
    assert action(("make",), f"{PROJECT}/website") == "ask"
    assert action(_bash("cd web && make"), PROJECT) == "ask"  # the cd may fail, and make would run here
    assert action(_bash("cd .. && make"), f"{PROJECT}/web") == "ask"


def test_a_rule_that_denies_in_a_folder_also_looks_at_scripts_that_may_go_there() -> None:
    rules = _rules({"prefix": ["make"], "paths": ["web"], "decision": "deny"})
    assert decide_command(_facts(("make",), rules, cwd=PROJECT)).action == "ask"
    assert decide_command(_facts(("make",), rules, cwd=f"{PROJECT}/WEB")).action == "deny"
    assert decide_command(_facts(("make",), rules, cwd=f"{PROJECT}/other/../web")).action == "deny"
    assert decide_command(_facts(_bash("cd web && make"), rules)).action == "deny"


def test_a_cd_that_only_a_rule_allows_allows_nothing_after_it() -> None:
    rules = _rules({"prefix": ["cd"], "decision": "allow"}, {"prefix": ["make"], "decision": "allow"})
    assert decide_command(_facts(_bash("cd /etc && make"), rules)).action == "ask"
    assert decide_command(_facts(_bash("cd src && make"), rules)).action == "allow"


def test_the_network_of_a_script_is_that_of_its_least_command() -> None:
    rules = _rules(
        {"prefix": ["npm", "ci"], "decision": "allow", "network": "on"},
        {"prefix": ["curl"], "decision": "allow", "network": "loopback"},
        {"prefix": ["make"], "decision": "allow"},
    )
    expected = {
        "npm ci": "on",
        "ls && npm ci": "on",
        "npm ci && curl x": "loopback",
        "npm ci && make": None,
        "npm ci && python x": None,
        "npm ci > log": None,
    }
    for policy in ("untrusted", "on-request", "never"):
        for script, network in expected.items():
            assert decide_command(_facts(_bash(script), rules, approval_policy=policy)).network == network


FILE_RULES = _rules(
    {"name": "locks", "paths": ["*.lock"], "decision": "deny", "reason": "made by a tool"},
    {"name": "migrations", "paths": ["db/migrations"], "decision": "ask"},
    {"name": "docs", "paths": ["docs/**", "/srv/notes"], "decision": "allow"},
)


@pytest.mark.parametrize(
    ("targets", "policy", "action", "rule"),
    [
        (["docs/a.md"], "untrusted", "allow", "docs"),
        (["docs/a.md", "src/a.py"], "untrusted", "ask", "untrusted"),
        (["src/a.py"], "on-request", "allow", "writable-roots"),
        (["db/migrations/1.sql"], "on-request", "ask", "migrations"),
        (["DB/Migrations/1.sql"], "on-request", "ask", "migrations"),
        (["db/migrations/1.sql"], "never", "deny", "migrations"),
        (["other/db/migrations/1.sql"], "never", "allow", "writable-roots"),
        (["uv.lock"], "never", "deny", "locks"),
        (["deep/down/uv.lock", "docs/a.md"], "on-request", "deny", "locks"),
        (["uv.lock.txt"], "never", "allow", "writable-roots"),
    ],
)
def test_rules_on_files_hold_for_patches(targets: list[str], policy: Any, action: str, rule: str) -> None:
    facts = PatchFacts(
        policy, "workspace-write", targets=tuple(f"{PROJECT}/{path}" for path in targets), project=(PROJECT,), rules=FILE_RULES
    )
    verdict = decide_patch(facts)
    assert (verdict.action, verdict.rule) == (action, rule)


def test_a_rule_that_allows_a_file_does_not_make_it_writable_or_unprotected() -> None:
    allowed = PatchFacts(
        "untrusted", "workspace-write", targets=("/srv/notes/a",), project=(PROJECT,), rules=FILE_RULES, outside=True
    )
    assert decide_patch(allowed).action == "ask"
    assert decide_patch(msgspec.structs.replace(allowed, outside=False, protected=True)).action == "ask"
    assert decide_patch(msgspec.structs.replace(allowed, outside=False, sandbox_mode="read-only")).action == "ask"


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prefix": ["a"]}, "config.toml: policy.rules[1].decision is missing. Expected `allow`, `ask` or `deny`"),
    (
        {"prefix": ["a"], "decision": "alow"},
        "config.toml: policy.rules[1].decision is 'alow'. Expected `allow`, `ask` or `deny`",
    ),
    ({"prefix": "a", "decision": "ask"}, "config.toml: policy.rules[1].prefix: expected a list of words, each of them text or"),
    ({"prefix": [], "decision": "ask"}, "policy.rules[1].prefix: expected a list"),
    ({"prefix": ["a", []], "decision": "ask"}, "policy.rules[1].prefix: expected a list"),
    ({"prefix": ["a", 1], "decision": "ask"}, "policy.rules[1].prefix: expected a list"),
    ({"pattern": [""], "decision": "ask"}, "policy.rules[1].pattern: expected a list of texts that are not empty"),
    ({"prefix": ["a"], "pattern": ["a"], "decision": "ask"}, "has `prefix` and `pattern`. Expected one of the two"),
    ({"decision": "deny"}, "is about nothing. Expected `prefix`, `pattern` or `paths`"),
    ({"prefix": ["a"], "decision": "ask", "network": "on"}, 'Expected it beside `decision = "allow"` only'),
    ({"prefix": ["a"], "decision": "allow", "network": "yes"}, "network is 'yes'. Expected `off`, `loopback` or `on`"),
    ({"paths": ["a"], "decision": "allow", "network": "on"}, "network is about commands"),
    ({"prefx": ["a"], "decision": "ask"}, "`prefx` is not known here. Expected `name`, `prefix`,"),
    ({"prefix": ["a"], "decision": "ask", "reason": 1}, "policy.rules[1].reason: expected text"),
]


@pytest.mark.parametrize(("table", "message"), _WRONG)
def test_a_rule_that_is_wrong_is_named_with_what_was_expected(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _rules(table)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.lock", "/p/a.lock", True),
        ("*.lock", "/p/x/y/a.lock", True),
        ("*.lock", "/q/a.lock", False),
        ("src", "/p/src", True),
        ("src", "/p/a/src/b", True),
        ("./src", "/p/a/src/b", False),
        ("src/*.py", "/p/src/a.py", True),
        ("src/*.py", "/p/src/a/b.py", False),
        ("src/**/b.py", "/p/src/a/c/b.py", True),
        ("src/**", "/p/src", True),
        ("/p/x", "/p/x/y", True),
        ("/p/x", "/p/xy", False),
        ("/**/x", "/a/b/x", True),
    ],
)
def test_paths_are_matched_part_by_part(pattern: str, path: str, fits: bool) -> None:
    assert matches_path(pattern, path, ("/p",)) is fits


def test_a_hostile_word_does_not_make_a_pattern_slow() -> None:
    assert not matches_word("*a*a*a*a*a*a*b", "a" * 10_000)
    assert not matches_words(["**", "a", "**", "a", "**", "b"], ["a"] * 5_000)


@given(st.text("ab", max_size=12), st.text("ab", max_size=3), st.text("ab", max_size=3))
def test_a_star_stands_for_any_text(word: str, start: str, end: str) -> None:
    fits = word.startswith(start) and word.endswith(end) and len(word) >= len(start) + len(end)
    assert matches_word(f"{start}*{end}", word) is fits
