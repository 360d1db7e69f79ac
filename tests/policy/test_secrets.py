"""Secrets stay out of texts and out of what is stored."""

from hypothesis import given
from hypothesis import strategies as st

from understudy.policy.secrets import redact, without_secrets


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
