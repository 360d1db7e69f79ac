"""`understudy login` and `logout`: store an API key for a provider, list the stored keys, and forget one."""

import os
import sys
from argparse import Namespace
from getpass import getpass
from pathlib import Path
from typing import Any, cast, get_args

from understudy.cli.arguments.config import KEY_IN_ARGUMENTS
from understudy.config.file import read_config_file
from understudy.config.home import find_home, state_dir
from understudy.config.model import CredentialsStore
from understudy.config.providers import BUILT_IN
from understudy.errors import BadRequest, ConfigError, MissingKey
from understudy.models.auth import Credentials
from understudy.models.provider_keys import LONGEST, ProviderKeys, key_problem
from understudy.models.providers import UNADDRESSED, Provider, find_provider

STORE_KEY = "cli_auth_credentials_store"
SHOWN_FROM = 13  # shorter keys are not shown at all

_ADDRESSED = {
    row.address_variable: "http://localhost" for row in BUILT_IN if row.address_variable and not row.base_url
}  # providers for which this does not ask


def run(options: Namespace) -> int:
    home = find_home(os.environ)
    keys = ProviderKeys(state_dir(home))
    match options.action:
        case "login":
            return _log_in(options, home, keys)
        case "logout":
            return _log_out(options, keys)
        case _:
            return _tell_status(home, keys)


def _log_in(options: Namespace, home: Path, keys: ProviderKeys) -> int:
    if options.api_key is not None:
        raise BadRequest(KEY_IN_ARGUMENTS)
    provider = _find(home, options.provider)
    if provider.id in UNADDRESSED:
        raise BadRequest(f"model provider `{provider.id}` is sent no key, so none is stored; --provider NAME means another")
    key = _read_key(provider, from_input=options.with_api_key)
    if not key:
        raise BadRequest("there is no key: standard input was empty")
    if (problem := key_problem(key)) is not None:
        raise BadRequest(problem)
    place = keys.keep(provider.id, key, _store(home))
    print(f"The key for {provider.name} is kept in {place}: {masked(key)}")
    variable = provider.env_key or ("OPENAI_API_KEY" if provider.requires_openai_auth else None)
    if variable and os.environ.get(variable, "").strip():
        print(f"The variable {variable} is set, too, and comes first.", file=sys.stderr)
    return 0


def _find(home: Path, provider_id: str | None) -> Provider:
    wanted = provider_id or str(read_config_file(home).tree.get("model_provider", "openai"))
    return find_provider(wanted, _tables(home), _ADDRESSED | os.environ)


def _tables(home: Path) -> dict[str, Any]:
    tables = read_config_file(home).tree.get("model_providers")
    return cast(dict[str, Any], tables) if isinstance(tables, dict) else {}


def _store(home: Path) -> CredentialsStore:
    """Raises `ConfigError` for an invalid value."""
    value = read_config_file(home).tree.get(STORE_KEY, "file")
    if value not in get_args(CredentialsStore):
        known = ", ".join(f'"{name}"' for name in get_args(CredentialsStore))
        raise ConfigError(f"{home / 'config.toml'}: `{STORE_KEY}` is {value!r}. Expected one of {known}")
    return cast(CredentialsStore, value)


def _read_key(provider: Provider, *, from_input: bool) -> str:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # none at all: `<&-`
        return ""
    if sys.stdin.isatty() and not from_input:
        try:
            return getpass(f"API key for {provider.name} (it is not shown): ").strip()
        except EOFError:  # Ctrl-D
            sys.stderr.write("\n")
            return ""
        except UnicodeDecodeError:
            return "\N{REPLACEMENT CHARACTER}"  # no key contains it
    return sys.stdin.read(LONGEST + 2).strip()


def _log_out(options: Namespace, keys: ProviderKeys) -> int:
    stored = keys.stored().providers()
    if options.all:
        wanted = stored
    elif options.provider:
        wanted = [options.provider]
    elif len(stored) > 1:
        raise BadRequest(f"there are keys for {', '.join(sorted(stored))}: name one with --provider, or say --all")
    else:
        wanted = stored
    forgotten = [provider_id for provider_id in wanted if keys.forget(provider_id)]
    if not forgotten:
        print("No key was kept" + (f" for {options.provider}." if options.provider else "."))
        return 0
    print(f"Forgotten: the key for {', '.join(forgotten)}. It stays valid until you revoke it at the provider.")
    return 0


def _tell_status(home: Path, keys: ProviderKeys) -> int:
    """Exit code 1 if there is no key for any provider, for use in scripts."""
    stored, tables = keys.stored().providers(), _tables(home)
    built_in = {row.id for row in BUILT_IN if row.env_key or row.id == "openai"}
    credentials = Credentials(os.environ, home)
    told = False
    for provider_id in sorted({*built_in, *tables, *stored}):
        try:
            provider = _find(home, provider_id)
        except ConfigError:
            print(
                f"{provider_id}: a key is kept, but there is no such provider"
                if provider_id in stored
                else f"{provider_id}: unusable"
            )
            continue
        try:
            key = credentials.key_for(provider)
        except MissingKey as error:
            if provider_id in stored:  # in a keyring that cannot be asked
                print(f"{provider_id}: {error}")
            continue
        if key is not None:
            told = True
            print(f"{provider_id}: {masked(key.reveal())}, from {credentials.source_of(provider)}")
    if not told:
        print("Not logged in: there is no key for any provider. To keep one: understudy login [--provider NAME]")
    return 0 if told else 1


def masked(key: str) -> str:
    """Enough of a key to recognize it."""
    return "***" if len(key) <= SHOWN_FROM else f"{key[:8]}***{key[-5:]}"
