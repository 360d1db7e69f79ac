"""Keys: where they come from, whom they are for, and that they are never shown.

A key goes only to the provider that names it, or that it was given for by `understudy login`. OpenAI's own (`OPENAI_API_KEY`,
`auth.json`) goes only where `requires_openai_auth` says so.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from understudy.config.home import state_dir
from understudy.config.providers import BY_ID
from understudy.errors import ConfigError, MissingKey
from understudy.models.provider_keys import ProviderKeys
from understudy.models.providers import Provider, is_header

T = TypeVar("T")

OPENAI_KEY = "OPENAI_API_KEY"
OPENAI_KEYS = ("CODEX_API_KEY", OPENAI_KEY)  # the first is the one that Codex SDKs set
SHORTEST_REDACTED = 8  # shorter ones are placeholders such as "none", and hiding them would only garble words


class Secret:
    """A value that hides itself when printed."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def reveal(self) -> str:
        return self._value


class Credentials:
    """The keys and headers that this process may send to providers."""

    def __init__(self, env: Mapping[str, str], home: Path) -> None:
        self._env = env
        self._home = home
        self._stored_keys = ProviderKeys(state_dir(home))

    def __repr__(self) -> str:
        return "Credentials(…)"

    def key_for(self, provider: Provider) -> Secret | None:
        """The provider's key, or None if it needs none. Raises MissingKey."""
        key = self._key_in_environment(provider)
        if key is None:
            key = self._logins_asked(lambda: self._stored_keys.key(provider.id))
        return self._checked(provider, key)

    async def key_soon(self, provider: Provider) -> Secret | None:
        """Like `key_for`. If a keyring must be asked, others are served meanwhile."""
        key = self._key_in_environment(provider)
        if key is None:
            try:
                key = await self._stored_keys.key_soon(provider.id)
            except ConfigError as error:
                raise MissingKey(str(error)) from None
        return self._checked(provider, key)

    def _key_in_environment(self, provider: Provider) -> str | None:
        key = self._set(provider.env_key) if provider.env_key else None
        if key is None and (variable := self._openai_variable(provider)):
            key = self._set(variable)
        return key

    def _checked(self, provider: Provider, key: str | None) -> Secret | None:
        """This key, from the environment or a login; if there is none, one of OpenAI's file, if the provider takes that."""
        if key is not None:
            key = key.strip() or None
        if key is None and provider.env_key is None and not provider.requires_openai_auth:
            return None
        if key is None and provider.requires_openai_auth:
            key = self._key_in_file()
        if key is None:
            raise self._missing(provider)
        if not is_header("Authorization", key):
            raise MissingKey(f"the key for {provider.name} has characters in it that cannot be sent")
        return Secret(key)

    def source_of(self, provider: Provider) -> str | None:
        """Where the provider's key comes from, in words for people; None if none is sent."""
        if provider.env_key and self._set(provider.env_key):
            return f"the variable `{provider.env_key}`"
        if variable := self._openai_variable(provider):
            return f"the variable `{variable}`"
        if (self._logins_asked(lambda: self._stored_keys.key(provider.id)) or "").strip():
            return f"`understudy login`, in {self._stored_keys.place_of(provider.id)}"
        return f"{self._home / 'auth.json'}" if provider.requires_openai_auth else None

    def headers_for(self, provider: Provider) -> dict[str, Secret]:
        """Headers whose values are in variables; those whose variable is not set are left out."""
        if not provider.env_http_headers:
            return {}
        values = {name: self._set(variable) for name, variable in provider.env_http_headers.items()}
        return {name: Secret(value) for name, value in values.items() if value and is_header(name, value)}

    def known_secrets(self, provider: Provider) -> list[str]:
        """All that must not be in a file that others may read."""
        from understudy.policy.environment import secret_values

        found = [*secret_values(self._env), *(secret.reveal() for secret in self.headers_for(provider).values())]
        try:
            found += self._logins_asked(self._stored_keys.keys_at_hand)
            found += [key] if (key := self._key_in_file()) else []
            found += [key.reveal()] if (key := self.key_for(provider)) else []
        except MissingKey:
            pass
        return [*found, *(_without_scheme(secret.reveal()) for secret in secrets_of(provider))]

    def _openai_variable(self, provider: Provider) -> str | None:
        """The variable that is set, if the provider takes OpenAI's keys."""
        return next((name for name in OPENAI_KEYS if self._set(name)), None) if provider.requires_openai_auth else None

    def _set(self, name: str) -> str | None:
        return self._env.get(name, "").strip() or None

    def _missing(self, provider: Provider) -> MissingKey:
        hint = provider.env_key_instructions
        if provider.requires_openai_auth and self._has_login():
            hint = f"{self._home / 'auth.json'} holds a ChatGPT login, and only API keys are supported: set the variable to one."
        elif provider.requires_openai_auth and not hint:
            hint = f"Set it to an API key, or keep one with `understudy login`; {self._home / 'auth.json'} is looked at, too."
        elif not hint and provider.id in BY_ID:
            hint = f"Set it to a key, or keep one: understudy login --provider {provider.id}"
        return MissingKey(f"Missing environment variable: `{provider.env_key or OPENAI_KEY}`." + (f" {hint}" if hint else ""))

    def _logins_asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except ConfigError as error:
            raise MissingKey(str(error)) from None

    def _key_in_file(self) -> str | None:
        key = self._auth_file().get(OPENAI_KEY)
        return (key.strip() or None) if isinstance(key, str) else None

    def _has_login(self) -> bool:
        return bool(self._auth_file().get("tokens"))

    def _auth_file(self) -> dict[str, Any]:
        try:
            value = msgspec.json.decode((self._home / "auth.json").read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise MissingKey(f"cannot read {self._home / 'auth.json'}: {error.strerror}") from None
        except msgspec.DecodeError:
            raise MissingKey(f"{self._home / 'auth.json'} is not valid JSON") from None
        return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def key_header(provider: Provider, key: Secret) -> tuple[str, str]:
    """The header in which the provider expects its key."""
    name = provider.key_header or ("x-api-key" if provider.wire_api == "anthropic" else None)
    return ("Authorization", f"Bearer {key.reveal()}") if name is None else (name, key.reveal())


def secrets_of(provider: Provider) -> list[Secret]:
    """Secrets that a user wrote into the configuration itself."""
    telling = ("auth", "key", "token", "secret", "password")
    named = [*provider.http_headers.items(), *provider.query_params.items()]
    return [Secret(value) for name, value in named if any(word in name.lower() for word in telling)]


def redacted(text: str, secrets: Iterable[Secret]) -> str:
    """The text without the secrets, which other programs' texts may repeat."""
    for secret in secrets:
        if len(value := _without_scheme(secret.reveal())) >= SHORTEST_REDACTED:
            text = text.replace(value, "[hidden]")
        else:
            text = text.replace(f"Bearer {value}", "Bearer [hidden]")
    return text


def _without_scheme(value: str) -> str:
    """The secret part of a header's value such as `Bearer …`."""
    scheme, blank, rest = value.partition(" ")
    return rest.strip() if blank and scheme.isalpha() else value
