"""Secrets stay out of texts and out of what is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.policy.secrets import may_hold_token, redact, secret_pattern, without_secrets


def test_a_secret_is_taken_out_of_a_text_in_every_form() -> None:
    secret = 'sk-a/b+c"d'
    text = f'key {secret}; url sk-a%2Fb%2Bc%22d; json sk-a/b+c\\"d'
    assert redact(text, [secret]) == "key [redacted]; url [redacted]; json [redacted]"


def test_the_longer_of_two_secrets_goes_first_and_short_values_are_no_secrets() -> None:
    assert redact("abcdefgh abcdef a", ["abcdef", "abcdefgh", "a", ""]) == "[redacted] [redacted] a"


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_is_left(secret: str, before: str, after: str) -> None:
    assert secret in "[redacted]" or secret not in redact(before + secret + after, [secret]).replace("[redacted]", "\0")


def test_what_is_stored_of_a_configuration_has_no_secrets() -> None:
    overrides = {
        "model": "m",
        "model_max_output_tokens": 100,
        "model_providers": {
            "mine": {
                "base_url": "https://me:pw@host/v1",
                "env_key": "MINE_API_KEY",
                "env_key_instructions": "get a key there",
                "env_http_headers": {"X-Org": "ORG_VAR"},
                "http_headers": {"Authorization": "Bearer x", "X-Plain": "y"},
                "experimental_bearer_token": "x",
                "query_params": {"api-version": "1", "api-key": "x"},
                "requires_openai_auth": True,
            }
        },
        "model_providers.other.http_headers": {"A": "b"},
        "model_providers.other.api_key": "x",
        "model_providers.other.name": "other",
        "mcp_servers.other": {"command": "run", "env": {"PLAIN": "x"}},
        "mcp_servers.third.env": {"PLAIN": "x"},
        "mcp_servers.third.env.MORE": "x",
        "mcp_servers": {
            "keycloak": {
                "command": "run",
                "args": ["--token=x", "--api-key", "x", "--verbose", "plain", "postgres://u:p@h/d"],
                "env": {"TOKEN": "x", "PLAIN": "1"},
                "bearer_token_env_var": "VAR",
            }
        },
        "shell_environment_policy": {"set": {"MY_PASSWORD": "x", "CI": "1"}},
        "api_keys": {"a": "x"},
        "list": [{"secret": "x", "plain": "y"}],
        "preferred_auth_method": "apikey",
        "projects": {"/home/me/token-app": {"trust_level": "trusted"}},
    }
    assert without_secrets(overrides) == {
        "model": "m",
        "model_max_output_tokens": 100,
        "model_providers": {
            "mine": {
                "base_url": "https://me:[redacted]@host/v1",
                "env_key": "MINE_API_KEY",
                "env_key_instructions": "get a key there",
                "env_http_headers": {"X-Org": "ORG_VAR"},
                "query_params": {"api-version": "1"},
                "requires_openai_auth": True,
            }
        },
        "model_providers.other.name": "other",
        "mcp_servers.other": {"command": "run"},
        "mcp_servers": {
            "keycloak": {
                "command": "run",
                "args": ["--token=[redacted]", "--api-key", "[redacted]", "--verbose", "plain", "postgres://u:[redacted]@h/d"],
                "bearer_token_env_var": "VAR",
            }
        },
        "shell_environment_policy": {"set": {"CI": "1"}},
        "list": [{"plain": "y"}],
        "preferred_auth_method": "apikey",
        "projects": {"/home/me/token-app": {"trust_level": "trusted"}},
    }


TOKENS = (
    *(
        "ghp_" + "a1" * 18,
        "gho_" + "a1" * 18,
        "ghu_" + "a1" * 18,
        "ghs_" + "a1" * 18,
        "ghr_" + "a1" * 18,
        "github_pat_" + "a1" * 12,
    ),
    *("glpat-" + "a1" * 12, "xoxb-" + "1" * 12, "xoxe-" + "1" * 12, "sk-" + "a1" * 12, "npm_" + "a1" * 18, "pypi-" + "a1" * 12),
    *("hf_" + "a1" * 12, "rk_live_" + "a1" * 10, "sk_test_" + "a1" * 10, "AIza" + "a1" * 18, "AKIA" + "A1" * 8, "ASIA" + "A1" * 8),
    *(
        "eyJ" + "a" * 12 + ".eyJ" + "a" * 12 + ".abc",
        "https://ann:word@host/",
        "Bearer abcdefgh",
        "bearer abcdefgh",
        "Basic abcdefgh",
    ),
    *("basic abcdefgh", "-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----"),
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_text_with_a_token_is_known_to_hold_one(token: str) -> None:
    text = f"before {token} after"
    assert secret_pattern(()).search(text) is not None
    assert may_hold_token(text)


def test_plain_words_hold_no_token() -> None:
    assert not may_hold_token("plain words at https://host/path")


def test_beginnings_of_keys_without_an_end_cost_no_more_than_their_length() -> None:
    """Each was once looked through to the end of the text: half a megabyte of them took minutes."""
    text = "-----BEGIN PRIVATE KEY-----" * 20_000
    assert secret_pattern(()).sub("", text) == text
    assert secret_pattern(()).sub("", text + "\nx\n-----END PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----" * 19_999
