"""Where models are served: the built-in providers and those in `[model_providers.<id>]`."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from understudy import __version__
from understudy.config.providers import BUILT_IN, BY_ID, OPENAI_URL, REPLAY, SCRIPTED, UNADDRESSED, WIRES, BuiltIn, WireApi
from understudy.errors import ConfigError
from understudy.net.addresses import parse_url

__all__ = [
    "REPLAY",
    "SCRIPTED",
    "UNADDRESSED",
    "Provider",
    "WireApi",
    "built_in_provider",
    "find_provider",
    "is_header",
    "provider_from_table",
]

MOST_RETRIES = 100


class Provider(msgspec.Struct, frozen=True):
    """Where and how to send requests: from a built-in row, from a table of the user's, or from a row changed by a table."""

    id: str
    name: str
    base_url: str = OPENAI_URL  # may contain user and password
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
    key_header: str | None = None  # the header with the bare key; None: the wire's usual header

    def __repr__(self) -> str:
        return f"Provider({self.id!r})"  # addresses, headers and query may contain secrets


def built_in_provider(provider_id: str, env: Mapping[str, str]) -> Provider | None:
    """At the address in the environment, or else at the usual one."""
    row = BY_ID.get(provider_id)
    if row is None:
        return None
    provider = Provider(
        id=row.id,
        name=row.name,
        base_url=_address(row, env),
        env_key=row.env_key,
        wire_api=row.wire_api,
        key_header=row.key_header,
    )
    if row.id != "openai":
        return provider
    return msgspec.structs.replace(
        provider,
        http_headers={"version": __version__},
        env_http_headers={"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"},
        requires_openai_auth=True,
    )


def _address(row: BuiltIn, env: Mapping[str, str]) -> str:
    if row.id == "oss" and (port := _set(env, "CODEX_OSS_PORT")) and not _set(env, "CODEX_OSS_BASE_URL"):
        return f"http://localhost:{port}/v1"
    named = _set(env, row.address_variable) if row.address_variable else None
    if named is None:
        return row.base_url
    if row.id == "ollama":  # the address on which its server listens: often without scheme or port, and perhaps 0.0.0.0
        scheme, mark, place = named.rpartition("://")
        host, _, port = place.rstrip("/").partition(":")
        named = f"{scheme if mark else 'http'}://{'localhost' if host in ('', '0.0.0.0') else host}:{port or '11434'}"
    named = named.rstrip("/")
    return named if named.endswith(row.address_suffix) else named + row.address_suffix


def find_provider(provider_id: str, tables: Mapping[str, Any], env: Mapping[str, str]) -> Provider:
    """The configured provider. A table for a built-in one changes only the keys that it contains. Raises ConfigError."""
    built_in = built_in_provider(provider_id, env)
    if provider_id in tables:
        table = tables[provider_id]
        if built_in is not None and BY_ID[provider_id].stands_alone and {"name", "base_url"} <= set(table):
            built_in = None  # the user's own provider, which happens to have this name
        provider = provider_from_table(provider_id, table, base=built_in)
    elif built_in is not None:
        provider = built_in
    else:
        known = ", ".join(dict.fromkeys((*tables, *(row.id for row in BUILT_IN))))
        raise ConfigError(f"Model provider `{provider_id}` not found; known are: {known}")
    if not provider.base_url and provider_id not in UNADDRESSED:
        variable = BY_ID[provider_id].address_variable
        raise ConfigError(
            f"the address of model provider `{provider_id}` is not known\n"
            f"Set the variable {variable} to it, or `base_url` in [model_providers.{provider_id}]."
        )
    return provider


def provider_from_table(provider_id: str, table: object, base: Provider | None = None) -> Provider:
    """Check a table of parsed TOML. Ignores unknown keys; raises ConfigError that names the key and expected type of a wrong
    value."""
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
    if value not in WIRES:
        raise ConfigError(f"`{place}` must be one of {', '.join(WIRES)}")
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
    """Whether it is a header that can be sent without changing the rest of the request."""
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
