"""API keys that `understudy login` was given, one for a provider, in a file that only the user can read.

Upstream's `auth.json` is only read (see `auth`). A key in the environment comes before both.
"""

import os
from pathlib import Path
from typing import Any, cast

from understudy.config.private_file import PrivateFile
from understudy.errors import ConfigError
from understudy.models.providers import is_header

FILE_NAME = "credentials.json"
LONGEST = 16_384  # characters of a key; some providers' are signed tokens


def key_problem(key: str) -> str | None:
    """Why this cannot be a key; None where it can."""
    if not key:
        return "there is no key"
    if len(key) > LONGEST or not is_header("Authorization", key) or any(character.isspace() for character in key):
        return "this is not a key: it has characters in it that cannot be sent, or is far too long. Give the key alone"
    return None


class Logins:
    """`credentials.json` of our state folder."""

    def __init__(self, state: Path) -> None:
        self.path = state / FILE_NAME
        self._file = PrivateFile(self.path, secret=True)

    def keys(self) -> dict[str, str]:
        """By the provider's id. Raises `ConfigError` for a file that others could have read or written, or that makes no sense."""
        if not os.path.lexists(self.path):  # as for nearly everybody, at every request
            return {}
        content = self._file.read()
        if content is None:
            return {}
        keys: Any = content.get("api_keys")
        if not isinstance(keys, dict) or not all(isinstance(key, str) for key in cast(dict[str, Any], keys).values()):
            raise ConfigError(
                f'{self.path} is not understood. Expected {{"api_keys": {{PROVIDER: KEY}}}}; remove it and log in again'
            )
        return cast(dict[str, str], keys)

    def keep(self, provider_id: str, key: str) -> None:
        with self._file.locked():
            self._file.write({"api_keys": {**self._kept(), provider_id: key}})

    def forget(self, provider_id: str) -> bool:
        """False where there was no key."""
        with self._file.locked():
            keys = self.keys()
            if keys.pop(provider_id, None) is None:
                return False
            self._file.write({"api_keys": keys})
        return True

    def _kept(self) -> dict[str, str]:
        try:
            return self.keys()
        except ConfigError as error:
            raise ConfigError(f"{error}\nNothing was changed.") from None
