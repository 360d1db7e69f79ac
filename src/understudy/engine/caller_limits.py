"""Checks the choices of a caller with limits: folders, sandbox modes, and settings that harm nobody.

`Engine` calls these checks for a new conversation, and `Handle` for each op, in `Way.judge` beside the rights, so that no front end
can forget them. They run before anything is recorded, and are skipped for callers without limits.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from understudy.config.keys import PROJECT_KEYS
from understudy.config.model import Config
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.errors import NotAllowed
from understudy.places.resolving import is_within
from understudy.protocol.callers import Limits
from understudy.protocol.choices import SandboxMode
from understudy.protocol.ops import Send
from understudy.protocol.records import Entry, Opened, Overrides, Pins, Record, TurnQueued, UserMessage

# Allowed beyond what a trusted folder may set. None of these keys starts a program, names a file of the server, or says where data
# is sent.
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


def check_choices(limits: Limits, chosen: Overrides) -> None:
    """Check what a call asks for. Raises `NotAllowed`."""
    if not limits.open_door and (key := _forbidden_key(chosen)) is not None:
        raise NotAllowed(
            f"`{key}` cannot be set by the `config` argument with this token; ask whoever runs the server to set it there"
        )


def check_setup(limits: Limits, setup: TurnSetup) -> None:
    """Check the resulting setup, after the user's file and profiles, where its folders are pinned. Raises `NotAllowed`."""
    check_config(limits, setup.config)
    _check_place(limits, str(setup.config.cwd), setup.pins)


def check_config(limits: Limits, config: Config) -> None:
    """Check the sandbox. Raises `NotAllowed`."""
    if limits.open_door:
        _check_open_door(config)
    else:
        _check_mode(limits, config.sandbox.mode)


def check_past(limits: Limits, records: Iterable[Record]) -> None:
    """Check every place and mode that a conversation has worked in or will work in. Raises `NotAllowed`."""
    if limits.open_door:
        return
    for record in _choosing(records):
        overrides = record.overrides
        if overrides is None:
            continue
        if overrides.sandbox is not None:
            _check_mode(limits, overrides.sandbox)
        if overrides.cwd is not None:
            _check_place(limits, overrides.cwd, record.pins)


def check_inherited(limits: Limits, records: Iterable[Record]) -> None:
    """Check what others chose for a conversation that would become the caller's own: they may have had more rights.

    Raises `NotAllowed`.
    """
    for record in () if limits.open_door else _choosing(records):
        if record.overrides is not None and (key := _forbidden_key(record.overrides)) is not None:
            raise NotAllowed(f"this token may not fork the conversation: `{key}` was set for it, and cannot be set with this token")


def check_image_paths(limits: Limits | None) -> None:
    """Refuse paths of images, which would name files of the server. Raises `NotAllowed`."""
    if limits is not None and not limits.open_door:
        raise NotAllowed("with this token images are given as `data:` URLs, not as paths of the server")


def _forbidden_key(chosen: Overrides) -> str | None:
    """A key that is not allowed. A table is checked too: it would replace the one in the user's file."""
    return next((key for key, value in (chosen.config or {}).items() if key not in ALLOWED_KEYS or isinstance(value, dict)), None)


def _choosing(records: Iterable[Record]) -> Iterator[Opened | UserMessage]:
    """The records that choose settings. A queued message chooses them for the turn that it will begin."""
    for record in records:
        said = record.message if isinstance(record, TurnQueued) else record
        if isinstance(said, Opened | UserMessage):
            yield said


def _check_mode(limits: Limits, mode: SandboxMode) -> None:
    if mode not in limits.modes:
        allowed = ", ".join(sorted(limits.modes)) or "none"
        raise NotAllowed(f"this token may not use sandbox `{mode}`; choose one of: {allowed}")


def _check_place(limits: Limits, cwd: str, pins: Pins | None) -> None:
    """Check the pinned folder, so that links made later are not followed. A folder judged by name alone might be a different one
    when it is opened.
    """
    if limits.roots is None:
        return
    spelled = os.path.normpath(cwd)
    pinned = next((pin.path for pin in (() if pins is None else pins.places) if pin.spelled == spelled), None)
    if pinned is None or not any(is_within(pinned, os.path.realpath(root)) for root in limits.roots):
        raise NotAllowed(f"this token may not work in `{cwd}`; give as `cwd` a folder in: {', '.join(limits.roots)}")


def _check_open_door(config: Config) -> None:
    if config.sandbox.mode == "danger-full-access":
        return  # this mode asks no question that a command could approve for itself
    if config.sandbox.network == "on" or any(rule.get("network") == "on" for rule in config.policy_rules):
        raise NotAllowed(
            "a server that asks for no token (`--no-auth`) lets no command in the sandbox reach the network: it could approve "
            "for itself here. Serve with a token, or have `loopback` or `off` as `understudy.sandbox.network` and in rules"
        )


# -- messages


class Judged(Protocol):
    """What the check needs to know of a conversation; `Handle` has it."""

    @property
    def queued(self) -> Sequence[UserMessage]: ...
    def setup(self) -> TurnSetup: ...
    def config_with(self, overrides: Overrides) -> Config: ...
    def pinned(self, op: Send) -> Send: ...
    async def read(self, after: int) -> Sequence[Entry]: ...


async def judge_message(limits: Limits, conversation: Judged, op: Send) -> Send:
    """Return the message with the folders that it changes to pinned. Raises `NotAllowed`."""
    message = op.message
    if message.parent_message_id is not None:  # the conversation goes back to the settings it had then
        check_past(limits, [entry.record for entry in await conversation.read(0)])
    check_past(limits, conversation.queued)  # messages queued by a dead process run first, with their own overrides
    if message.overrides is None:
        check_setup(limits, conversation.setup())
        return op
    check_choices(limits, message.overrides)
    config = conversation.config_with(message.overrides)
    check_config(limits, config)
    op = conversation.pinned(op)
    _check_place(limits, str(config.cwd), op.message.pins)
    return op
