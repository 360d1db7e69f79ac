"""The variables a command is given."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from understudy.policy.environment import Inherit, shell_environment, with_markers
from understudy.policy.words import names


@dataclass(frozen=True)
class Policy:
    inherit: Inherit = "all"
    ignore_default_excludes: bool = False
    exclude: tuple[str, ...] = ()
    set: Mapping[str, str] | None = None
    include_only: tuple[str, ...] = ()


SOURCE = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "LANG": "C",
    "PLAIN": "1",
    "MY_TOKEN": "2",
    "my_secret": "3",
    "FOO1": "4",
    "FOO22": "5",
}


def test_as_recorded_patterns_ignore_case_and_fixed_values_are_kept() -> None:
    policy = Policy(exclude=("foo?",), set={"NET": "set", "MY_KEY": "kept"})
    assert shell_environment(policy, SOURCE) == {
        "PATH": "/usr/bin", "HOME": "/home/me", "LANG": "C", "PLAIN": "1", "FOO22": "5", "NET": "set", "MY_KEY": "kept",
    }  # fmt: skip


def test_core_and_none_inherit_little() -> None:
    assert shell_environment(Policy("core"), SOURCE) == {"PATH": "/usr/bin", "HOME": "/home/me"}
    assert shell_environment(Policy("none", set={"A": "b"}), SOURCE) == {"A": "b"}


def test_include_only_is_the_last_word() -> None:
    assert shell_environment(Policy(include_only=("pl*", "n?t"), set={"NET": "1", "NOT_IT": "2"}), SOURCE) == {
        "PLAIN": "1",
        "NET": "1",
    }


_SECRET = names(
    "OPENAI_API_KEY AWS_SECRET_ACCESS_KEY GITHUB_TOKEN DB_PASSWORD MYSQL_PWD PGPASSWORD PGPASSFILE SSH_AUTH_SOCK SENTRY_DSN GH_PAT"
    " GOOGLE_APPLICATION_CREDENTIALS MCP_AUTH_TOKEN GIT_ASKPASS SSH_ASKPASS"
)


@pytest.mark.parametrize("name", sorted(_SECRET))
def test_keys_tokens_and_passwords_are_dropped(name: str) -> None:
    assert shell_environment(Policy(), {name: "value", "LEFT": "1"}) == {"LEFT": "1"}


def test_a_password_in_an_address_is_dropped_with_it() -> None:
    env = {"DATABASE_URL": "postgres://me:pw@db/x", "SITE": "https://example.org/a:b@c", "PROXY": "http://proxy:8080"}
    assert shell_environment(Policy(), env).keys() == {"SITE", "PROXY"}
    assert shell_environment(Policy(ignore_default_excludes=True), env) == env


_STARTUP = names(
    "LD_PRELOAD LD_AUDIT BASH_ENV ENV PROMPT_COMMAND BASH_FUNC_ls%% SHELLOPTS PS4 CDPATH RIPGREP_CONFIG_PATH GREP_OPTIONS ZDOTDIR"
)


@pytest.mark.parametrize("name", sorted(_STARTUP))
def test_what_would_run_before_a_command_is_dropped_unless_set_on_purpose(name: str) -> None:
    assert shell_environment(Policy(ignore_default_excludes=True), {name: "x"}) == {}
    assert shell_environment(Policy(set={name: "x"}), {}) == {name: "x"}


def test_a_providers_key_never_reaches_a_command_by_any_name() -> None:
    env = {"MY_PROVIDER": "sk-very-secret", "COPY": "Bearer sk-very-secret", "PLAIN": "1"}
    policy = Policy(ignore_default_excludes=True, set={"MY_PROVIDER": "again", "ALSO": "sk-very-secret"}, include_only=("*",))
    assert shell_environment(policy, env, provider_keys=("MY_PROVIDER",)) == {"PLAIN": "1"}
    assert shell_environment(Policy(ignore_default_excludes=True), {"OPENAI_API_KEY": "x"}) == {}


def test_the_markers_tell_how_the_command_really_runs() -> None:
    marker = {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    assert with_markers({"A": "b"}, contained=True, network="off") == {"A": "b", **marker}
    assert with_markers({}, contained=True, network="loopback") == marker
    assert with_markers({}, contained=True, network="on") == {}
    assert with_markers(marker, contained=False, network="off") == {}  # also where we run in such a sandbox ourselves
    assert with_markers({"CODEX_SANDBOX": "x"}, contained=True, network="on", seatbelt=True) == {"CODEX_SANDBOX": "seatbelt"}
