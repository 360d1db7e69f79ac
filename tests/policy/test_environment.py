"""The variables a command is given."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    " GOOGLE_APPLICATION_CREDENTIALS MCP_AUTH_TOKEN GIT_ASKPASS SSH_ASKPASS BW_SESSION OP_SESSION_my OP_SESSION DOCKER_AUTH_CONFIG"
    " NPM_CONFIG__AUTH npm_config__auth BASIC_AUTH COMPOSER_AUTH REDISCLI_AUTH AZURE_STORAGE_CONNECTION_STRING"
    " MY_DB_PW ConnectionStrings__Main SQLAZURECONNSTR_x SMTP_PASS CI_JOB_JWT SLACK_WEBHOOK_URL AWS_CREDS HTTP_AUTHORIZATION"
    " BUNDLE_GEMS__EXAMPLE__COM GIT_CONFIG_COUNT GIT_CONFIG_VALUE_0 GIT_CONFIG_PARAMETERS"
    " OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS"
)
_NEEDED = names(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_CONFIG_GLOBAL XDG_SESSION_TYPE DESKTOP_SESSION DBUS_SESSION_BUS_ADDRESS TERM_SESSION_ID"
    " GOPRIVATE JAVA_HOME NODE_ENV CC CFLAGS MAKEFLAGS VIRTUAL_ENV CARGO_HOME RUSTFLAGS PWD OLDPWD BUNDLE_BUILD__NOKOGIRI"
    " BYPASS LANG PIP_INDEX_URL NPM_CONFIG_REGISTRY GOFLAGS CI AUTHOR DOCKER_HOST KUBECONFIG COMPASS_URL"
)
_SECRET_VALUES = [
    "Server=db;User Id=me;Password=hunter2;",
    "jdbc:postgresql://db/x?user=me&password=hunter2",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==",
    "https://blob/x?sv=1&sig=abc",
    "AUTHORIZATION: basic abcdefgh",
    "Bearer abcdefghijkl",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
    "ghp_" + "a" * 36,
    "x:glpat-" + "a" * 20,
    "AKIA" + "A" * 16,
    "sk_live_" + "a" * 24,
    "hvs." + "a" * 24,
    "ya29." + "a" * 40,
    "SG." + "a" * 22 + "." + "b" * 43,
    "AIza" + "a" * 35,
    "dop_v1_" + "a" * 64,
    "shpat_" + "a" * 32,
    "AGE-SECRET-KEY-1" + "Q" * 58,
    "dapi" + "0" * 32,
    "jdbc:oracle:thin:me/hunter2@db:1521/x",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc",
]
_PLAIN_VALUES = [
    "/usr/bin:/bin",
    "rs=0:di=01;34:ln=01;36:*.pwd=01;31",
    "-Djavax.net.ssl.trustStorePassword=changeit",
    "https://example.org/?page=2&token_type=x",
    "sk-SK.UTF-8",
    "sk_SK.UTF-8",
    "SG.UTF-8",
    "jdbc:oracle:thin:@db:1521/x",
    "-----BEGIN CERTIFICATE-----",
    "basic",
]


@pytest.mark.parametrize("name", sorted(_SECRET))
def test_keys_tokens_and_passwords_are_dropped(name: str) -> None:
    assert shell_environment(Policy(), {name: "value", "LEFT": "1"}) == {"LEFT": "1"}


def test_what_programs_need_is_kept() -> None:
    env = dict.fromkeys(_NEEDED, "value")
    assert shell_environment(Policy(), env) == env


@pytest.mark.parametrize("value", _SECRET_VALUES)
def test_a_value_that_looks_like_a_secret_is_dropped_whatever_its_name(value: str) -> None:
    assert shell_environment(Policy(), {"PLAIN": value, "LEFT": "1"}) == {"LEFT": "1"}
    assert shell_environment(Policy(ignore_default_excludes=True), {"PLAIN": value}) == {"PLAIN": value}


@pytest.mark.parametrize("value", _PLAIN_VALUES)
def test_a_value_that_does_not_is_kept(value: str) -> None:
    assert shell_environment(Policy(), {"PLAIN": value}) == {"PLAIN": value}


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
    once = with_markers({}, contained=True, network="off")
    assert with_markers({"A": "b"}, contained=True, network="off") == {**once, "A": "b"}
    assert with_markers({}, contained=True, network="loopback") == once
    assert once["CODEX_SANDBOX_NETWORK_DISABLED"] == "1"
    assert with_markers({}, contained=True, network="on") == {}
    assert with_markers(marker, contained=False, network="off") == {}  # also where we run in such a sandbox ourselves
    assert with_markers({"CODEX_SANDBOX": "x"}, contained=True, network="on", seatbelt=True) == {"CODEX_SANDBOX": "seatbelt"}


def test_package_managers_do_not_ask_again_where_there_is_no_network_unless_the_user_says_so() -> None:
    without = with_markers({}, contained=True, network="off")
    assert {without[name] for name in ("npm_config_fetch_retries", "PIP_RETRIES", "UV_HTTP_RETRIES", "CARGO_NET_RETRY")} == {"0"}
    assert with_markers({"PIP_RETRIES": "3"}, contained=True, network="off")["PIP_RETRIES"] == "3"
    assert with_markers({}, contained=False, network="off") == {}


@given(st.lists(st.text("AabK*?_", max_size=5), min_size=1, max_size=4), st.text("AaBbKk_\n", max_size=6))
def test_names_are_matched_as_a_regular_expression_of_their_patterns_would(patterns: list[str], name: str) -> None:
    wild = [re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns]
    is_meant = any(re.fullmatch(each, name, re.IGNORECASE | re.DOTALL) for each in wild)
    kept = shell_environment(Policy(ignore_default_excludes=True, exclude=tuple(patterns)), {name: "1"})
    assert (name not in kept) == is_meant
