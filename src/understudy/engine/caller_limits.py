"""Whether a caller with limits may have what they ask for: folders, sandbox modes, and settings that harm nobody.

`Engine` asks here for a new conversation, and `Handle` for each op, by its `Way.judge`, beside the rights, so that no front end can
forget it. Nothing has been recorded by then. Callers without limits never come here.
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


def check_choices(limits: Limits, chosen: Overrides) -> None:
    """What a call asks for. Raises `NotAllowed`."""
    if not limits.open_door and (key := _forbidden_key(chosen)) is not None:
        raise NotAllowed(
            f"`{key}` cannot be set by the `config` argument with this token; ask whoever runs the server to set it there"
        )


def check_setup(limits: Limits, setup: TurnSetup) -> None:
    """What comes of it, with the user's file and profiles, where it is pinned. Raises `NotAllowed`."""
    check_config(limits, setup.config)
    _check_place(limits, str(setup.config.cwd), setup.pins)


def check_config(limits: Limits, config: Config) -> None:
    """The sandbox. Raises `NotAllowed`."""
    if limits.open_door:
        _check_open_door(config)
    else:
        _check_mode(limits, config.sandbox.mode)


def check_past(limits: Limits, records: Iterable[Record]) -> None:
    """Everywhere that a conversation has worked or will, and how. Raises `NotAllowed`."""
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
    """What others chose for a conversation that would be the caller's own: they may have chosen what the caller may not.

    Raises `NotAllowed`.
    """
    for record in () if limits.open_door else _choosing(records):
        if record.overrides is not None and (key := _forbidden_key(record.overrides)) is not None:
            raise NotAllowed(f"this token may not fork the conversation: `{key}` was set for it, and cannot be set with this token")


def check_image_paths(limits: Limits | None) -> None:
    """A path would name a file of the server. Raises `NotAllowed`."""
    if limits is not None and not limits.open_door:
        raise NotAllowed("with this token images are given as `data:` URLs, not as paths of the server")


def _forbidden_key(chosen: Overrides) -> str | None:
    """A table would take the place of the one in the user's file."""
    return next((key for key, value in (chosen.config or {}).items() if key not in ALLOWED_KEYS or isinstance(value, dict)), None)


def _choosing(records: Iterable[Record]) -> Iterator[Opened | UserMessage]:
    """Those that can say what a conversation runs with; a queued message says it for the turn that it will begin."""
    for record in records:
        said = record.message if isinstance(record, TurnQueued) else record
        if isinstance(said, Opened | UserMessage):
            yield said


def _check_mode(limits: Limits, mode: SandboxMode) -> None:
    if mode not in limits.modes:
        allowed = ", ".join(sorted(limits.modes)) or "none"
        raise NotAllowed(f"this token may not use sandbox `{mode}`; choose one of: {allowed}")


def _check_place(limits: Limits, cwd: str, pins: Pins | None) -> None:
    """The folder as it was pinned: links that come to be after that are not followed. One that is judged by its name alone
    might be another one when it is opened.
    """
    if limits.roots is None:
        return
    spelled = os.path.normpath(cwd)
    pinned = next((pin.path for pin in (() if pins is None else pins.places) if pin.spelled == spelled), None)
    if pinned is None or not any(is_within(pinned, os.path.realpath(root)) for root in limits.roots):
        raise NotAllowed(f"this token may not work in `{cwd}`; give as `cwd` a folder in: {', '.join(limits.roots)}")


def _check_open_door(config: Config) -> None:
    if config.sandbox.mode == "danger-full-access":
        return  # nothing is asked there that a command could approve for itself
    if config.sandbox.network == "on" or any(rule.get("network") == "on" for rule in config.policy_rules):
        raise NotAllowed(
            "a server that asks for no token (`--no-auth`) lets no command in the sandbox reach the network: it could approve "
            "for itself here. Serve with a token, or have `loopback` or `off` as `understudy.sandbox.network` and in rules"
        )


# -- messages


class Judged(Protocol):
    """What has to be known of a conversation: its `Handle` knows it."""

    @property
    def queued(self) -> Sequence[UserMessage]: ...
    def setup(self) -> TurnSetup: ...
    def config_with(self, overrides: Overrides) -> Config: ...
    def pinned(self, op: Send) -> Send: ...
    async def read(self, after: int) -> Sequence[Entry]: ...


async def judge_message(limits: Limits, conversation: Judged, op: Send) -> Send:
    """With the folders that it changes to pinned. Raises `NotAllowed`."""
    message = op.message
    if message.parent_message_id is not None:  # the conversation goes back to where it was then
        check_past(limits, [entry.record for entry in await conversation.read(0)])
    check_past(limits, conversation.queued)  # what a process left that ended goes before the message, with what it chose
    if message.overrides is None:
        check_setup(limits, conversation.setup())
        return op
    check_choices(limits, message.overrides)
    config = conversation.config_with(message.overrides)
    check_config(limits, config)
    op = conversation.pinned(op)
    _check_place(limits, str(config.cwd), op.message.pins)
    return op
