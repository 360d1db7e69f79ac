"""What a caller other than the local user may choose for a conversation: folders, sandbox modes, and settings that harm nobody."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

import msgspec

from understudy.config.keys import PROJECT_KEYS
from understudy.config.model import Config
from understudy.errors import NotAllowed
from understudy.places.resolving import is_within
from understudy.protocol.choices import SandboxMode
from understudy.protocol.records import Opened, Overrides, Pins, Record, TurnQueued, UserMessage

# Beside what a trusted folder may set. Nothing here starts a program, names a file of the server, or says where anything is sent.
ALLOWED_KEYS = PROJECT_KEYS | {
    "approval_policy",
    "sandbox_mode",
    "compact_prompt",
    "tool_output_token_limit",
    "model_auto_compact_token_limit",
    "understudy.wire",
    "understudy.events",
    "understudy.thread_in_text",
    "understudy.report",
}


def _forbidden_key(chosen: Overrides) -> str | None:
    """A table would take the place of the one in the user's file."""
    return next((key for key, value in (chosen.config or {}).items() if key not in ALLOWED_KEYS or isinstance(value, dict)), None)


def _choosing(records: Iterable[Record]) -> Iterator[Opened | UserMessage]:
    """Those that can say what a conversation runs with; a queued message says it for the turn that it will begin."""
    for record in records:
        said = record.message if isinstance(record, TurnQueued) else record
        if isinstance(said, Opened | UserMessage):
            yield said


class CallerLimits(msgspec.Struct, frozen=True):
    """`roots`: folders in which the caller's agents work; None: anywhere. `modes`: sandboxes that they may have."""

    roots: tuple[str, ...] | None
    modes: frozenset[SandboxMode]

    def check_choices(self, chosen: Overrides) -> None:
        """What a call asks for. Raises `NotAllowed`."""
        if (key := _forbidden_key(chosen)) is not None:
            raise NotAllowed(
                f"`{key}` cannot be set by the `config` argument with this token; ask whoever runs the server to set it there"
            )

    def check_inherited(self, records: Iterable[Record]) -> None:
        """What others chose for a conversation that would be the caller's own: they may have chosen what the caller may not.

        Raises `NotAllowed`.
        """
        for record in _choosing(records):
            if record.overrides is not None and (key := _forbidden_key(record.overrides)) is not None:
                raise NotAllowed(
                    f"this token may not fork the conversation: `{key}` was set for it, and cannot be set with this token"
                )

    def check_images(self, given: Sequence[str]) -> None:
        """A path would name a file of the server. Raises `NotAllowed`."""
        if not all(image.startswith("data:") for image in given):
            raise NotAllowed("with this token images are given as `data:` URLs, not as paths of the server")

    def check_config(self, config: Config) -> None:
        """What comes of it, with the user's file and profiles. Raises `NotAllowed`."""
        self._check_mode(config.sandbox.mode)

    def _check_mode(self, mode: SandboxMode) -> None:
        if mode not in self.modes:
            allowed = ", ".join(sorted(self.modes)) or "none"
            raise NotAllowed(f"this token may not use sandbox `{mode}`; choose one of: {allowed}")

    def check_past(self, records: Iterable[Record]) -> None:
        """Everywhere that a conversation has worked or will, and how. Raises `NotAllowed`."""
        for record in _choosing(records):
            overrides = record.overrides
            if overrides is None:
                continue
            if overrides.sandbox is not None:
                self._check_mode(overrides.sandbox)
            if overrides.cwd is not None:
                self.check_place(overrides.cwd, record.pins)

    def check_place(self, cwd: str, pins: Pins | None) -> None:
        """The folder as it was pinned: links that come to be after that are not followed. One that is judged by its name alone
        might be another one when it is opened. Raises `NotAllowed`.
        """
        if self.roots is None:
            return
        spelled = os.path.normpath(cwd)
        pinned = next((pin.path for pin in (() if pins is None else pins.places) if pin.spelled == spelled), None)
        if pinned is None or not any(is_within(pinned, os.path.realpath(root)) for root in self.roots):
            raise NotAllowed(f"this token may not work in `{cwd}`; give as `cwd` a folder in: {', '.join(self.roots)}")


class OpenDoorLimits(CallerLimits, frozen=True):
    """Of everybody, where no token is asked for: as at a terminal, but a command in the sandbox cannot come to the door, too."""

    def check_choices(self, chosen: Overrides) -> None:
        pass

    def check_inherited(self, records: Iterable[Record]) -> None:
        pass

    def check_images(self, given: Sequence[str]) -> None:
        pass

    def check_past(self, records: Iterable[Record]) -> None:
        pass

    def check_config(self, config: Config) -> None:
        if config.sandbox.mode == "danger-full-access":
            return  # nothing is asked there that a command could approve for itself
        if config.sandbox.network == "on" or any(rule.get("network") == "on" for rule in config.policy_rules):
            raise NotAllowed(
                "a server that asks for no token (`--no-auth`) lets no command in the sandbox reach the network: it could approve "
                "for itself here. Serve with a token, or have `loopback` or `off` as `understudy.sandbox.network` and in rules"
            )


OPEN_DOOR = OpenDoorLimits(None, frozenset(get_args(SandboxMode)))
