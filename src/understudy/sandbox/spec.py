"""What a command is, how it is to be contained, and how it ended. Data only."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

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
    """Per command; None is no limit."""

    seconds: float | None = None
    processes: int | None = 2048  # threads count too
    memory_mb: int | None = None  # of each process by the kernel; of all together where the full rung is in use
    file_mb: int | None = None  # of one file
    tmp_mb: int | None = 2048  # of the private /tmp, over all commands
    tmp_files: int | None = 250_000  # likewise; folders count too
    disk_free_mb: int | None = 256  # a command that fills a disk beyond this is ended


@dataclass(frozen=True)
class Containment:
    """What a command may change, reach and see."""

    mode: SandboxMode
    writable_roots: tuple[str, ...] = ()  # absolute; for workspace-write they include the workspace
    network: NetworkMode = "off"
    unix_sockets: bool = False  # whether a network includes unix sockets; then those of other programs can be reached too
    masked: tuple[str, ...] = ()  # absolute; look empty
    protected: tuple[str, ...] = ()  # names inside every writable root, or absolute paths; cannot be changed or created
    kept: tuple[str, ...] = ()  # of those names, beside the ones that always are: not to be changed where they stand
    private_tmp: str | None = None  # folder that is /tmp inside; made by the caller
    limits: Limits = field(default_factory=Limits)
    # The conversation's folder: its owner's rights are the command's where the server is root, and it stays visible
    # where it lies in a folder that is covered. None: the first writable root, else the command's cwd.
    workspace: str | None = None
    pinned: tuple[Place, ...] = ()  # what the conversation began with; a root or workspace that is not among them is looked up now

    def allows_no_more_than(self, other: "Containment") -> bool:
        """Whether whatever is contained so may change, reach and see only what `other` lets it."""
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
    """What is to be run, where, with what, and how far it can reach. `Sandbox.run` takes it."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    timeout: float | None = None  # seconds
    containment: Containment | None = None  # None: not contained, but its processes still end with it
    # Leave to begin: nothing is executed before it returns, nor if it raises. The sandbox may be set up meanwhile.
    clearance: Callable[[], Awaitable[None]] | None = None
    folder: tuple[int, int] | None = None  # device and inode that `cwd` has to have, where it is not contained
    control: Control | None = None  # a hold on it while it runs; it may ask for a terminal
    input: int | None = None  # a descriptor for its standard input, which stays the caller's; None: it has none
    grace_seconds: float = GRACE_SECONDS  # for what was asked to end, and for what the command itself left running
    owner: str = ""  # of the conversation that it belongs to: others are not told what it is

    @property
    def on_terminal(self) -> bool:
        return self.control is not None and self.control.terminal


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. `exit_code` is as a shell has it: 124 time limit, 125 not run, 126 and 127 not found or not
    executable, 128+n signal n."""

    exit_code: int
    duration: float
    timed_out: bool = False
    signal: int | None = None
    setup_error: str | None = None  # why it was not run
    lost: str | None = None  # why nobody can say how it ended; it has probably run, and nothing of it is left
    spawn_error: str | None = None  # why it could not be executed, in the words of the system
    limit: LimitName | None = None  # which limit ended it
    ended_for: str | None = None  # why we ended it, where it did nothing wrong
    exposed: str | None = None  # a protected or masked path that came to be within its reach, for which it was ended at once
    cleared: str | None = None  # why the private /tmp was emptied after it

    @property
    def ended_because(self) -> str | None:
        """Why it did not end by itself, where that is nothing that it did."""
        if self.exposed is None:
            return self.ended_for
        return f"another program replaced, moved or removed {self.exposed}, and with that it was no longer kept from it"
