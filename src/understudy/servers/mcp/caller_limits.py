"""What a caller other than the local user may choose for a conversation: folders, sandbox modes, and settings that harm nobody."""

import os
from collections.abc import Sequence

import msgspec

from understudy.config.keys import PROJECT_KEYS
from understudy.config.model import Config
from understudy.errors import NotAllowed
from understudy.protocol.choices import SandboxMode
from understudy.protocol.records import Overrides

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
}


class CallerLimits(msgspec.Struct, frozen=True):
    """`roots`: folders in which the caller's agents work; None: anywhere. `modes`: sandboxes that they may have."""

    roots: tuple[str, ...] | None
    modes: frozenset[SandboxMode]

    def check_choices(self, chosen: Overrides) -> None:
        """What a call asks for. Raises `NotAllowed`."""
        for key, value in (chosen.config or {}).items():
            if key not in ALLOWED_KEYS or isinstance(value, dict):  # a table would take the place of the one in the user's file
                raise NotAllowed(
                    f"`{key}` cannot be set by the `config` argument with this token; ask whoever runs the server to set it there"
                )

    def check_images(self, given: Sequence[str]) -> None:
        """A path would name a file of the server. Raises `NotAllowed`."""
        if not all(image.startswith("data:") for image in given):
            raise NotAllowed("with this token images are given as `data:` URLs, not as paths of the server")

    def check_config(self, config: Config) -> None:
        """What comes of it, with the user's file and profiles. Raises `NotAllowed`."""
        if config.sandbox.mode not in self.modes:
            allowed = ", ".join(sorted(self.modes)) or "none"
            raise NotAllowed(f"this token may not use sandbox `{config.sandbox.mode}`; choose one of: {allowed}")
        self.check_place(str(config.cwd))

    def check_place(self, cwd: str) -> None:
        """Raises `NotAllowed`."""
        if self.roots is None:
            return
        real = os.path.realpath(cwd)
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in map(os.path.realpath, self.roots)):
            raise NotAllowed(f"this token may not work in `{cwd}`; give as `cwd` a folder in: {', '.join(self.roots)}")
