"""A keyring for tests: a backend of the package `keyring` that keeps passwords in a file, or refuses as a locked one does.

`PYTHON_KEYRING_BACKEND=tests.support.file_keyring.FileKeyring` chooses it, and `TEST_KEYRING_FILE` names the file. It refuses while
there is a file of that name with the ending `.locked`, and waits while there is one with `.hangs`. Each time a password is read is
a byte more of the file with `.asked`.
"""

import json
import os
import time
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

LONGEST = 100.0  # seconds of waiting


class FileKeyring(KeyringBackend):
    priority = 5  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def get_password(self, service: str, username: str) -> str | None:
        with self._file().with_suffix(".asked").open("a") as asked:
            asked.write(".")
        give_up = time.monotonic() + LONGEST
        while self._file().with_suffix(".hangs").exists() and time.monotonic() < give_up:
            time.sleep(0.01)
        return self._all().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._file().write_text(json.dumps({**self._all(), f"{service}/{username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        kept = self._all()
        if kept.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("no such password")
        self._file().write_text(json.dumps(kept))

    def _all(self) -> dict[str, str]:
        file = self._file()
        if file.with_suffix(".locked").exists():
            raise KeyringLocked("nobody has unlocked it")
        return json.loads(file.read_text()) if file.exists() else {}

    def _file(self) -> Path:
        return Path(os.environ["TEST_KEYRING_FILE"])


class WeakKeyring(FileKeyring):
    """One that the package does not recommend: plain text, say."""

    priority = 0.5  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
