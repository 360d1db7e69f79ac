"""A command, how to contain it, and how it ended. Data only."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from understudy.places.resolving import Place
from understudy.protocol.choices import NetworkMode, SandboxMode
from understudy.sandbox.cell.plan import GRACE_SECONDS
from understudy.sandbox.control import Control

LimitName = Literal["memory", "disk", "processes", "tmp"]
RungName = Literal["full", "landlock", "bubblewrap", "seatbelt"]
_NETWORKS: tuple[NetworkMode, ...] = ("off", "loopback", "on")  # each allows more than the one before

TIMED_OUT = 124
NOT_RUN = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127


@dataclass(frozen=True)
class Limits:
    """Limits for a command; None: no limit."""

    seconds: float | None = None
    processes: int | None = 2048  # including threads
    memory_mb: int | None = None  # of each process, by the kernel; on the full rung of all processes together
    file_mb: int | None = None  # of one file
    tmp_mb: int | None = 2048  # of the private /tmp, which commands share
    tmp_files: int | None = 250_000  # likewise; folders count, too
    disk_free_mb: int | None = 256  # a command that leaves less on a disk is ended


@dataclass(frozen=True)
class Containment:
    """What a command may change, reach and see."""

    mode: SandboxMode
    writable_roots: tuple[str, ...] = ()  # absolute; for workspace-write they include the workspace
    network: NetworkMode = "off"
    unix_sockets: bool = False  # whether the network includes unix sockets; then those of other programs can be reached, too
    masked: tuple[str, ...] = ()  # absolute; look empty
    protected: tuple[str, ...] = ()  # names inside every writable root, or absolute paths; cannot be changed or created
    kept: tuple[str, ...] = ()  # further such names; cannot be changed where they exist, but can be created
    private_tmp: str | None = None  # folder that the command sees as /tmp; made by the caller
    limits: Limits = field(default_factory=Limits)
    # The conversation's folder. If the server is root, the command gets the rights of its owner. It stays visible even inside a
    # covered
    # folder. None: the first writable root, or else the command's cwd.
    workspace: str | None = None
    pinned: tuple[Place, ...] = ()  # as pinned at the conversation's beginning; other roots are looked up now

    def allows_no_more_than(self, other: "Containment") -> bool:
        """Whether all that is allowed here is allowed by `other`, too."""
        return (
            set(self._written) <= set(other._written)
            and (not self._written or set(self.protected) >= set(other.protected))
            and _NETWORKS.index(self.network) <= _NETWORKS.index(other.network)
            and self.unix_sockets <= other.unix_sockets
            and set(self.masked) >= set(other.masked)
        )

    @property
    def _written(self) -> tuple[str, ...]:
        return self.writable_roots if self.mode == "workspace-write" else ()


@dataclass(frozen=True)
class Command:
    """What to run, where, with what, and how it is contained. For `Sandbox.run`."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    timeout: float | None = None  # seconds
    containment: Containment | None = None  # None: not contained, but its processes still end with it
    # Nothing is executed before this returns, nor if it raises. The sandbox may be set up meanwhile.
    clearance: Callable[[], Awaitable[None]] | None = None
    folder: tuple[int, int] | None = None  # device and inode that `cwd` must have, for a command that is not contained
    control: Control | None = None  # to type at it and stop it while it runs; may ask for a terminal
    input: int | None = None  # a descriptor for its standard input, which the caller closes; None: no input
    grace_seconds: float = GRACE_SECONDS  # time to end: for a stopped command, and for what a finished one left
    owner: str = ""  # the conversation that it belongs to; others do not learn what it is

    @property
    def on_terminal(self) -> bool:
        return self.control is not None and self.control.terminal


class Temporary(NamedTuple):
    """The private folder of a contained command: its /tmp on most rungs."""

    folder: str
    seen: str | None  # its path as the command sees it; None: the command cannot reach it


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. `exit_code` is as in a shell: 124 time limit, 125 not run, 126 and 127 not executable or not found,
    128+n signal n."""

    exit_code: int
    duration: float
    timed_out: bool = False
    signal: int | None = None
    setup_error: str | None = None  # why it was not run
    lost: str | None = None  # why nobody knows how it ended; it has probably run, and nothing of it is left
    spawn_error: str | None = None  # why it could not be executed, in the system's words
    limit: LimitName | None = None  # which limit ended it
    ended_for: str | None = None  # why we ended it, although it did nothing wrong
    exposed: str | None = None  # a protected or masked path that came within its reach, for which it was ended at once
    exposed_by: str = "another program"
    cleared: str | None = None  # why the private /tmp was emptied afterwards

    @property
    def ended_because(self) -> str | None:
        """Why it did not end by itself, if the reason is not its fault."""
        if self.exposed is None:
            return self.ended_for
        return f"{self.exposed_by} replaced, moved or removed {self.exposed}, and with that it was no longer kept from it"
