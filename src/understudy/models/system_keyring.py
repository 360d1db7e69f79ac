"""The keyring of the user's system, by the package `keyring` (an extra), which is loaded only where a key is kept there.

A keyring may be locked, and then waits for a person. So it is asked in a thread, which is waited for only so long.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from understudy.errors import ConfigError, how_to_add

SERVICE = "understudy"
READ_SECONDS = 5.0
CHANGE_SECONDS = 60.0  # whoever logs in may have to unlock it first
RECOMMENDED = 1  # the priority from which on the package recommends a backend
NOT_INSTALLED = f"the package `keyring` is not installed: {how_to_add('keyring')}"


class SystemKeyring:
    def __init__(self, state: Path) -> None:
        self._state = state

    def problem(self) -> str | None:
        """Why no key should be kept there unless the user insists; None where it can."""
        try:
            priority = self._ask(lambda backend: float(backend.priority), READ_SECONDS)
        except ConfigError as error:
            return str(error)
        return None if priority >= RECOMMENDED else "no keyring that the package `keyring` recommends runs here"

    def get(self, provider_id: str) -> str | None:
        """Raises `ConfigError` where the keyring cannot be asked."""
        return self._ask(lambda backend: backend.get_password(SERVICE, self._name(provider_id)), READ_SECONDS)

    def set(self, provider_id: str, key: str) -> None:
        """Raises `ConfigError` where it does not take the key, or does not give it back."""

        def change(backend: Any) -> str | None:
            backend.set_password(SERVICE, self._name(provider_id), key)
            return backend.get_password(SERVICE, self._name(provider_id))

        if self._ask(change, CHANGE_SECONDS, hidden=key) != key:
            raise ConfigError("the keyring does not give back the key that it was given")

    def delete(self, provider_id: str) -> None:
        """Raises `ConfigError` where the key may still be there."""

        def change(backend: Any) -> None:
            if backend.get_password(SERVICE, self._name(provider_id)) is not None:
                backend.delete_password(SERVICE, self._name(provider_id))

        self._ask(change, CHANGE_SECONDS)

    def _name(self, provider_id: str) -> str:
        return f"{provider_id} in {self._state}"  # there may be several homes

    def _ask(self, act: Callable[[Any], Any], seconds: float, hidden: str = "") -> Any:
        answers: list[Any] = []
        problems: list[str] = []

        def run() -> None:
            try:
                answers.append(act(_backend()))
            except ModuleNotFoundError:
                problems.append(NOT_INSTALLED)
            except Exception as error:  # backends raise whatever their system gives them
                told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                problems.append(f"the keyring cannot be used: {told.replace(hidden, '***') if hidden else told}")

        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        thread.join(seconds)
        if answers:
            return answers[0]
        raise ConfigError(
            problems[0] if problems else f"the keyring has not answered within {seconds:.0f} seconds; it may be locked"
        )


def _backend() -> Any:
    import keyring
    from keyring.errors import NoKeyringError

    backend: Any = keyring.get_keyring()
    if backend.priority <= 0:  # a stand-in that fails, or that keeps nothing
        raise NoKeyringError("no keyring runs here")
    return backend
