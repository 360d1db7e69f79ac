"""API keys that `understudy login` stored, one per provider: in a file that only the user can read, or in the keyring.

The file says which keys are in the keyring. Codex's `auth.json` is only read (see `auth`). Keys in the environment come first.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.config.home import is_there
from understudy.config.model import CredentialsStore
from understudy.config.private_file import PrivateFile
from understudy.errors import ConfigError
from understudy.models.providers import is_header

if TYPE_CHECKING:
    from understudy.models.system_keyring import SystemKeyring

FILE_NAME = "credentials.json"
LONGEST = 16_384  # characters of a key; some providers' are signed tokens
THE_KEYRING = "the system's keyring"

_Stamp = tuple[int, int, int]
_from_keyring: dict[tuple[Path, str], tuple[_Stamp, str]] = {}  # read once, until somebody logs in or out


def key_problem(key: str) -> str | None:
    """Why this cannot be a key; None if it can."""
    if not key:
        return "there is no key"
    if len(key) > LONGEST or not is_header("Authorization", key) or any(character.isspace() for character in key):
        return "this is not a key: it has characters in it that cannot be sent, or is far too long. Give the key alone"
    return None


class StoredKeys(msgspec.Struct, frozen=True):
    """The file's content, by provider id."""

    keys: dict[str, str] = {}
    in_keyring: tuple[str, ...] = ()

    def providers(self) -> list[str]:
        return [*self.keys, *self.in_keyring]

    def without(self, provider_id: str) -> "StoredKeys":
        keys = {each: key for each, key in self.keys.items() if each != provider_id}
        return StoredKeys(keys, tuple(each for each in self.in_keyring if each != provider_id))

    def as_json(self) -> dict[str, Any]:
        return {"api_keys": self.keys, **({"in_keyring": list(self.in_keyring)} if self.in_keyring else {})}


class ProviderKeys:
    """`credentials.json` of our state folder, and the keyring if that file names it."""

    def __init__(self, state: Path) -> None:
        self.path = state / FILE_NAME
        self._spelled = str(self.path)
        self._state = state
        self._file = PrivateFile(self.path, secret=True)

    def stored(self) -> StoredKeys:
        """Raises `ConfigError` if others could read or write the file, or if it is not valid."""
        if not is_there(self._spelled):  # the usual case, at every request
            return StoredKeys()
        content = self._file.read()
        if content is None:
            return StoredKeys()
        try:
            return msgspec.convert({"keys": content.get("api_keys"), "in_keyring": content.get("in_keyring", [])}, StoredKeys)
        except msgspec.ValidationError:
            raise ConfigError(
                f'{self.path} is not understood. Expected {{"api_keys": {{PROVIDER: KEY}}}}; remove it and log in again'
            ) from None

    def key(self, provider_id: str) -> str | None:
        """Raises `ConfigError`, also if the key is in a keyring that cannot be asked."""
        stored = self.stored()
        return self._read(provider_id) if provider_id in stored.in_keyring else stored.keys.get(provider_id)

    async def key_soon(self, provider_id: str) -> str | None:
        """Like `key`, while others are served. Raises `ConfigError`."""
        stored = self.stored()
        if provider_id not in stored.in_keyring:
            return stored.keys.get(provider_id)
        known = self._known(provider_id)
        if known is None:
            stamp = self._stamp()
            known = await self._keyring().get_soon(provider_id)
            self._remember(provider_id, stamp, known)
        return known

    def keys_at_hand(self) -> list[str]:
        """All keys that can be read. Raises `ConfigError` if the file cannot."""
        stored = self.stored()
        found = list(stored.keys.values())
        for provider_id in stored.in_keyring:
            try:
                found += [key] if (key := self._read(provider_id)) else []
            except ConfigError:  # reported to whoever needs that key
                pass
        return found

    def place_of(self, provider_id: str) -> str:
        return THE_KEYRING if provider_id in self.stored().in_keyring else str(self.path)

    def keep(self, provider_id: str, key: str, store: CredentialsStore = "file") -> str:
        """Store the key, and say where. Raises `ConfigError`, with nothing changed, for example if the wanted keyring cannot be
        used."""
        with self._file.locked():
            stored = self._stored_or_untouched()
            others = stored.without(provider_id)
            if store == "ephemeral":
                raise ConfigError('`cli_auth_credentials_store = "ephemeral"` keeps no key: set a variable, or choose "file"')
            if store == "keyring" or (store == "auto" and self._keyring().problem() is None):
                self._set(provider_id, key)
                self._file.write(StoredKeys(others.keys, (*others.in_keyring, provider_id)).as_json())
                return THE_KEYRING
            self._file.write(StoredKeys({**others.keys, provider_id: key}, others.in_keyring).as_json())
            if provider_id in stored.in_keyring:
                try:
                    self._keyring().delete(provider_id)
                except ConfigError:  # nobody reads it any more
                    pass
        return str(self.path)

    def forget(self, provider_id: str) -> bool:
        """False if there was no key. Raises `ConfigError`, with nothing changed, if the keyring may still have it."""
        with self._file.locked():
            stored = self.stored()
            if provider_id not in stored.providers():
                return False
            if provider_id in stored.in_keyring:
                try:
                    self._keyring().delete(provider_id)
                except ConfigError as error:
                    raise ConfigError(f"{error}\nThe key for {provider_id} is still in the keyring.") from None
            self._file.write(stored.without(provider_id).as_json())
        return True

    def _set(self, provider_id: str, key: str) -> None:
        try:
            self._keyring().set(provider_id, key)
        except ConfigError as error:
            other = 'or keep keys in a file: understudy config set cli_auth_credentials_store "file"'
            raise ConfigError(f"{error}\nNothing was kept. Mend that, {other}") from None

    def _read(self, provider_id: str) -> str | None:
        known = self._known(provider_id)
        if known is None:
            stamp = self._stamp()
            known = self._keyring().get(provider_id)
            self._remember(provider_id, stamp, known)
        return known

    def _stamp(self) -> _Stamp:
        status = os.stat(self.path)
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _known(self, provider_id: str) -> str | None:
        known = _from_keyring.get((self.path, provider_id))
        return known[1] if known is not None and known[0] == self._stamp() else None

    def _remember(self, provider_id: str, stamp: _Stamp, key: str | None) -> None:
        if key is not None:
            _from_keyring[self.path, provider_id] = stamp, key

    def _keyring(self) -> "SystemKeyring":
        from understudy.models.system_keyring import SystemKeyring  # imported only if needed: few people keep keys there

        return SystemKeyring(self._state)

    def _stored_or_untouched(self) -> StoredKeys:
        try:
            return self.stored()
        except ConfigError as error:
            raise ConfigError(f"{error}\nNothing was changed.") from None
