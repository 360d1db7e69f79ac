"""The keyring of the user's system, by the package `keyring` (an extra), which is loaded only if a key is kept there.

A locked keyring waits for a person. So it is asked on a thread, with a time limit, and never by a server's event loop.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from understudy.errors import ConfigError, how_to_add

SERVICE = "understudy"
READ_SECONDS = 5.0
CHANGE_SECONDS = 60.0  # the user may have to unlock it first
RECOMMENDED = 1  # the priority from which on the package recommends a backend
_readings: "dict[str, _Asking]" = {}  # the latest ones, by the key's name
NOT_INSTALLED = f"the package `keyring` is not installed: {how_to_add('keyring')}"


class SystemKeyring:
    def __init__(self, state: Path) -> None:
        self._state = state

    def problem(self) -> str | None:
        """Why keys should not be kept there unless the user insists; None if they can be."""
        try:
            priority = self._ask(lambda backend: float(backend.priority), READ_SECONDS)
        except ConfigError as error:
            return str(error)
        return None if priority >= RECOMMENDED else "no keyring that the package `keyring` recommends runs here"

    def get(self, provider_id: str) -> str | None:
        """Raises `ConfigError` if the keyring cannot be asked, or, on a server's event loop, has not answered yet."""
        return self._reading(provider_id).answer(READ_SECONDS)

    async def get_soon(self, provider_id: str) -> str | None:
        """Raises `ConfigError` if the keyring cannot be asked. Others are served meanwhile."""
        return await self._reading(provider_id).answer_soon(READ_SECONDS)

    def _reading(self, provider_id: str) -> "_Asking":
        """While the keyring waits for a person, it is not asked again."""
        name = self._name(provider_id)
        asking = _readings.get(name)
        if asking is None or asking.is_over:
            asking = _readings[name] = _Asking(lambda backend: backend.get_password(SERVICE, name))
        return asking

    def set(self, provider_id: str, key: str) -> None:
        """Raises `ConfigError` if it does not take the key, or does not return it afterwards."""

        def change(backend: Any) -> str | None:
            backend.set_password(SERVICE, self._name(provider_id), key)
            return backend.get_password(SERVICE, self._name(provider_id))

        if self._ask(change, CHANGE_SECONDS, hidden=key) != key:
            raise ConfigError("the keyring does not give back the key that it was given")

    def delete(self, provider_id: str) -> None:
        """Raises `ConfigError` if the key may still be there."""

        def change(backend: Any) -> None:
            if backend.get_password(SERVICE, self._name(provider_id)) is not None:
                backend.delete_password(SERVICE, self._name(provider_id))

        self._ask(change, CHANGE_SECONDS)

    def _name(self, provider_id: str) -> str:
        return f"{provider_id} in {self._state}"  # there may be several homes

    def _ask(self, act: Callable[[Any], Any], seconds: float, hidden: str = "") -> Any:
        return _Asking(act, hidden).answer(seconds)


class _Asking:
    """A request to the keyring, on a thread of its own, which cannot be stopped."""

    def __init__(self, act: Callable[[Any], Any], hidden: str = "") -> None:
        self._act = act
        self._hidden = hidden
        self._answers: list[Any] = []
        self._problems: list[str] = []
        self._over = threading.Event()
        self._told: list[Callable[[], object]] = []
        threading.Thread(target=self._run, name="keyring", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def _run(self) -> None:
        try:
            self._answers.append(self._act(_backend()))
        except ModuleNotFoundError:
            self._problems.append(NOT_INSTALLED)
        except Exception as error:  # backends raise whatever errors their system has
            told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._problems.append(f"the keyring cannot be used: {told.replace(self._hidden, '***') if self._hidden else told}")
        self._over.set()
        for tell in tuple(self._told):
            tell()

    def answer(self, seconds: float) -> Any:
        """Raises `ConfigError`. A server's event loop does not wait for it."""
        self._over.wait(0 if _on_event_loop() else seconds)
        return self._found(seconds)

    async def answer_soon(self, seconds: float) -> Any:
        """Raises `ConfigError`. Others are served meanwhile."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        tell = partial(_tell, loop, over)
        self._told.append(tell)
        try:
            if not self._over.is_set():  # otherwise it may have answered before we registered
                await asyncio.wait_for(over.wait(), seconds)
        except TimeoutError:
            self._told.remove(tell)
        return self._found(seconds)

    def _found(self, seconds: float) -> Any:
        if self._answers:
            return self._answers[0]
        raise ConfigError(
            self._problems[0] if self._problems else f"the keyring has not answered within {seconds:.0f} seconds; it may be locked"
        )


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _tell(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the event loop has ended
        loop.call_soon_threadsafe(over.set)


def _backend() -> Any:
    import keyring
    from keyring.errors import NoKeyringError

    backend: Any = keyring.get_keyring()
    if backend.priority <= 0:  # a placeholder that fails, or stores nothing
        raise NoKeyringError("no keyring runs here")
    return backend
