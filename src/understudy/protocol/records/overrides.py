"""What a caller chose for a conversation or asks of a message, and the places that were pinned for it."""

from typing import Any

import msgspec

from understudy.protocol.choices import ApprovalPolicy, Mode, SandboxMode


class Overrides(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a caller chose for a conversation, or from one message on. `None` means: as before."""

    model: str | None = None
    profile: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxMode | None = None
    config: dict[str, Any] | None = None  # dotted keys of config.toml; never holds a secret once it is in the log
    base_instructions: str | None = None
    developer_instructions: str | None = None
    compact_prompt: str | None = None
    include_plan_tool: bool | None = None
    mode: Mode | None = None


class Budget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What may be used. None: no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None  # of work; waiting for a person is none
    requests: int | None = None  # to the model


class Terms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a message asks of the turn it is sent to, and of no other."""

    output_schema: dict[str, Any] | None = None  # the form that the final answer should have
    budget: Budget | None = None  # from this message to the end of the turn
    insists: bool = True  # on the form. False: an answer that does not fit stands where the model cannot be asked again
    until: str = ""  # a shell command of the user\'s: the turn goes on until it succeeds


class Pin(msgspec.Struct, frozen=True, gc=False):
    """A place that the user named, and what stood there when it was pinned; see `places`."""

    spelled: str
    path: str  # real
    device: int
    inode: int  # 0: nothing


class Pins(msgspec.Struct, frozen=True, gc=False):
    """Where a conversation works: its working directory and the other writable roots."""

    boot: str  # of the machine; device numbers hold for one
    places: tuple[Pin, ...]
