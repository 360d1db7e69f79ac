"""Keeps secrets out of texts and out of the log."""

import re
from collections.abc import Iterable, Mapping
from json import dumps
from typing import Any, cast
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"

_SHORTEST = 6  # shorter values occur in ordinary text
_NAMES_A_SECRET = re.compile(
    r"key|secret|token|passw|passphrase|(?:^|_)pass(?:$|_)|(?:^|_)pwd|credential|auth(?!or|_method|_mode)"
    r"|cookie|bearer|jwt|webhook|connection_?string|_dsn$|(?:^|_)session$",
    re.IGNORECASE,
)
_NAMES_SECRETS = re.compile(r"(?:.*[_-])?(?:keys|secrets|tokens|passwords|credentials|cookies)", re.IGNORECASE)
# These name the place of a secret, and are needed to find it again.
_NAMES_A_PLACE = re.compile(
    r"env_key|env_key_instructions|env_http_headers|.*_env_var|.*_env|requires_(?:openai_)?auth", re.IGNORECASE
)
_HEADERS = re.compile(r"(?:.*_)?headers", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"(://[^/?#@\s:]*:)[^/?#@\s]+@")
_SECRET_ARGUMENT = re.compile(
    r"(--?[A-Za-z0-9_-]*(?:key|secret|token|passw|credential|auth|bearer)[A-Za-z0-9_-]*)(?:=(.*))?", re.I | re.S
)


# Tokens with a well-known beginning, in full, anywhere in a text.
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|xox[abeprs]-[\w-]{10,}|sk-[\w-]{20,}|npm_\w{30,}|pypi-[\w-]{20,})"
    r"|\b(?:hf_\w{20,}|[rs]k_(?:live|test)_\w{16,}|AIza[\w-]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN ).)*?-----END [A-Z ]*PRIVATE KEY-----"  # many beginnings cost no more
    r"|(?<=://)[^/?#@\s:\"\\]*:[^/?#@\s\"\\]+(?=@)"
    r"|(?<=[Bb]earer )[\w.~+/=-]{8,}|(?<=[Bb]asic )[\w+/=-]{8,}",
    re.DOTALL,
)


# A text without any of these contains no such token, and searching for these is a hundred times faster.
_HINTS = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk-", "npm_", "pypi-", "hf_"),
    *("k_live_", "k_test_", "AIza", "AKIA", "ASIA", "eyJ", "-----BEGIN", "earer ", "asic "),
)


def may_hold_token(text: str) -> bool:
    return any(hint in text for hint in _HINTS) or ("://" in text and "@" in text)


def names_a_secret(name: str) -> bool:
    """Whether a variable of that name contains a secret."""
    return _NAMES_A_SECRET.search(name) is not None


def secret_pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    """Finds these values, plain or escaped, and tokens of well-known kinds."""
    forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    known = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.compile(f"{known}|{_TOKEN.pattern}" if known else _TOKEN.pattern, re.DOTALL)


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, also if they are escaped for a URL or JSON."""
    forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):  # the longest first, because a secret may contain another
        text = text.replace(form, REDACTED)
    return text


def without_secrets(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a caller's configuration that may be stored: without headers, keys, tokens and passwords, at any depth.

    Keys may be dotted. Names of variables with secrets are kept, so that the conversation can be continued with them; so are
    numbers and switches (`model_max_output_tokens`).
    """
    kept = {key: _without(value) for key, value in overrides.items() if not _is_secret(key, value) and not _is_server_env(key)}
    return {key: _without_server_env(key, value) for key, value in kept.items()}


def _is_server_env(key: str) -> bool:
    """Variables for another server may all be secret, whatever their names."""
    parts = key.split(".")
    return parts[0] == "mcp_servers" and "env" in parts[2:3]


def _without_server_env(key: str, value: Any) -> Any:
    parts = key.split(".")
    if parts[0] != "mcp_servers" or len(parts) > 2 or not isinstance(value, dict):
        return value
    table = cast(dict[str, Any], value)
    if len(parts) == 1:
        return {name: _without_server_env(f"mcp_servers.{name.replace('.', '_')}", server) for name, server in table.items()}
    return {name: item for name, item in table.items() if name != "env"}


def _without(value: Any) -> Any:
    match value:
        case dict():
            return without_secrets(cast(dict[str, Any], value))
        case list() | tuple():
            return _clean_arguments([_without(item) for item in cast(list[Any], value)])
        case str():
            return _PASSWORD_IN_URL.sub(rf"\1{REDACTED}@", value)
        case _:
            return value


def _is_secret(key: str, value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float)):
        return False
    parts = key.split(".")
    if any(_NAMES_A_PLACE.fullmatch(part) for part in parts):
        return False
    if any(_HEADERS.fullmatch(part) for part in parts):
        return True
    if isinstance(value, dict):  # a server may be named `keycloak`, so look inside unless it is plainly a table of secrets
        return _NAMES_SECRETS.fullmatch(parts[-1]) is not None
    return _NAMES_A_SECRET.search(parts[-1]) is not None


def _clean_arguments(items: list[Any]) -> list[Any]:
    """`--token=x` and `--token x` in the arguments of another server."""
    cleaned: list[Any] = []
    follows = False
    for item in items:
        found = _SECRET_ARGUMENT.fullmatch(item) if isinstance(item, str) else None
        if follows and isinstance(item, str) and not item.startswith("-"):
            cleaned.append(REDACTED)
        elif found is not None and found[2] is not None:
            cleaned.append(f"{found[1]}={REDACTED}")
        else:
            cleaned.append(item)
        follows = found is not None and found[2] is None
    return cleaned


def _forms(secret: str) -> Iterable[str]:
    yield from (secret, quote(secret, safe=""), quote_plus(secret), dumps(secret)[1:-1], dumps(secret, ensure_ascii=False)[1:-1])
