"""Where models are served: the built-in providers and those of `[model_providers.<id>]`."""

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from understudy import __version__
from understudy.errors import ConfigError
from understudy.models.http.url import parse_url

MOST_RETRIES = 100
SCRIPTED = "scripted"
OPENAI_URL = "https://api.openai.com/v1"

WireApi = Literal["chat", "responses"]


class Provider(msgspec.Struct, frozen=True):
    id: str
    name: str
    base_url: str = OPENAI_URL  # may hold user and password
    env_key: str | None = None
    env_key_instructions: str | None = None
    wire_api: WireApi = "chat"
    query_params: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    http_headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    env_http_headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    request_max_retries: int = 4
    stream_max_retries: int = 5
    stream_idle_timeout_ms: int = 300_000
    requires_openai_auth: bool = False

    def __repr__(self) -> str:
        return f"Provider({self.id!r})"  # addresses, headers and query may hold secrets


def built_in_providers(env: Mapping[str, str]) -> dict[str, Provider]:
    port = _set(env, "CODEX_OSS_PORT") or "11434"
    providers = (
        Provider(
            id="openai",
            name="OpenAI",
            base_url=_set(env, "OPENAI_BASE_URL") or OPENAI_URL,
            wire_api="responses",
            http_headers={"version": __version__},
            env_http_headers={"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"},
            requires_openai_auth=True,
        ),
        Provider(id="oss", name="Open Source", base_url=_set(env, "CODEX_OSS_BASE_URL") or f"http://localhost:{port}/v1"),
        Provider(id=SCRIPTED, name="Scripted", base_url=""),
    )
    return {provider.id: provider for provider in providers}


def find_provider(provider_id: str, tables: Mapping[str, Any], env: Mapping[str, str]) -> Provider:
    """The provider a configuration means. A table for a built-in one changes only the keys it has. Raises ConfigError."""
    built_in = built_in_providers(env).get(provider_id)
    if provider_id in tables:
        return provider_from_table(provider_id, tables[provider_id], base=built_in)
    if built_in is None:
        known = ", ".join(sorted({*tables, *built_in_providers(env)}))
        raise ConfigError(f"Model provider `{provider_id}` not found; known are: {known}")
    return built_in


def provider_from_table(provider_id: str, table: object, base: Provider | None = None) -> Provider:
    """Check a table of parsed TOML. Unknown keys are left alone; for a wrong value, ConfigError names key and expected type."""
    place = f"model_providers.{provider_id}"
    if not isinstance(table, dict):
        raise ConfigError(f"`{place}` must be a table")
    values = cast(dict[str, Any], table)
    if base is None and "name" not in values:
        raise ConfigError(f"`{place}.name` is missing: a string")
    renamed = {"requires_openai_auth": values["requires_auth"]} if "requires_auth" in values else {}
    checked = {key: check(f"{place}.{key}", value) for key, value in {**renamed, **values}.items() if (check := _CHECKS.get(key))}
    return msgspec.structs.replace(base or Provider(provider_id, ""), **checked)


def _set(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None


def _string(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"`{place}` must be a string")
    return value


def _flag(place: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"`{place}` must be true or false")
    return value


def _count(place: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"`{place}` must be a whole number, zero or more")
    return value


def _retries(place: str, value: object) -> int:
    return min(_count(place, value), MOST_RETRIES)


def _milliseconds(place: str, value: object) -> int:
    if (count := _count(place, value)) == 0:
        raise ConfigError(f"`{place}` must be a whole number of milliseconds above zero")
    return count


def _wire(place: str, value: object) -> WireApi:
    if value not in ("chat", "responses"):
        raise ConfigError(f'`{place}` must be "chat" or "responses"')
    return value


def _strings(place: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"`{place}` must be a table of strings")
    return {key: _string(f"{place}.{key}", entry) for key, entry in cast(dict[str, object], value).items()}


def _headers(place: str, value: object) -> dict[str, str]:
    headers = _strings(place, value)
    for name, entry in headers.items():
        if not is_header(name, entry):
            raise ConfigError(f"`{place}.{name}` cannot be sent as an HTTP header")
    return headers


def _url(place: str, value: object) -> str:
    text = _string(place, value)
    try:
        url = parse_url(text)
    except ValueError as error:
        raise ConfigError(f"`{place}` is {error}, such as https://host/v1") from None
    if url.scheme not in ("http", "https"):
        raise ConfigError(f"`{place}` must begin with http:// or https://")
    return text


def is_header(name: str, value: str) -> bool:
    """Whether a header can go out without changing the request around it."""
    token = name.isascii() and bool(name) and all(character.isalnum() or character in "!#$%&'*+-.^_`|~" for character in name)
    return token and all(character == "\t" or " " <= character <= "~" or "\xa0" <= character <= "\xff" for character in value)


_CHECKS: dict[str, Any] = {
    "name": _string,
    "base_url": _url,
    "env_key": _string,
    "env_key_instructions": _string,
    "wire_api": _wire,
    "query_params": _strings,
    "http_headers": _headers,
    "env_http_headers": _strings,
    "request_max_retries": _retries,
    "stream_max_retries": _retries,
    "stream_idle_timeout_ms": _milliseconds,
    "requires_openai_auth": _flag,
}
