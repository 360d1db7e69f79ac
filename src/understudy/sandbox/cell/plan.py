"""One command as the helper gets it: already decided, in bytes, packed for the socket."""

import marshal

FULL = "full"
LANDLOCK = "landlock"
BUBBLEWRAP = "bubblewrap"
PLAIN = "plain"
GRACE_SECONDS = 0.2


Kind = tuple[bool, "tuple[int, int] | None"]  # whether it has a network namespace of its own, and whose rights it gets


class Plan:
    """What to run and how to confine it. `shape` is the means; PLAIN is not confined, BUBBLEWRAP confines itself."""

    def __init__(
        self,
        *,
        shape: str,
        argv: list[bytes],
        environment: dict[bytes, bytes],
        cwd: bytes,
        folder: "tuple[int, int] | None" = None,
        workspace: bytes = b"/",
        roots: list[bytes] | None = None,
        pins: "dict[bytes, tuple[int, int]] | None" = None,
        private_tmp: bytes = b"",
        masked: list[bytes] | None = None,
        protected: list[bytes] | None = None,
        kept: list[bytes] | None = None,
        watched: list[bytes] | None = None,
        covered: list[bytes] | None = None,
        covered_at: int = 0,
        network: str = "off",
        unix_sockets: bool = False,
        owner: tuple[int, int] | None = None,
        processes: int = 0,
        memory_mb: int = 0,
        file_mb: int = 0,
        shared_memory_mb: int = 1024,
        tmp_mb: int = 0,
        tmp_files: int = 0,
        disk_free_mb: int = 0,
        open_files: int = 0,
        held: bool = False,
        terminal: bool = False,
        own_terminal: bytes = b"",
        has_input: bool = False,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self.shape = shape
        self.argv = argv  # empty: set everything up and run nothing (the helper tests so what works here)
        self.environment = environment
        self.cwd = cwd
        self.folder = folder  # device and inode that `cwd` must have; None: any
        self.workspace = workspace
        self.roots = roots or []  # real paths, also of roots inside others
        self.pins = pins or {}  # device and inode that roots and workspace must have; see `places.walking`
        self.private_tmp = private_tmp
        self.masked = masked or []  # real paths once the view is built
        self.protected = protected or []  # names inside every root, or absolute paths
        self.kept = kept or []  # names that are protected only if they exist
        self.watched = watched or []  # outside a full cell: paths that end the command when they lead to something else
        self.covered = covered or []  # for bubblewrap: missing names, which placeholders hold while the command runs
        self.covered_at = covered_at  # where in `argv` the mounts over them belong
        self.network = network
        self.unix_sockets = unix_sockets
        self.owner = owner  # whose rights to take, if the helper is root and the workspace is not root's
        self.processes = processes  # limits; 0: none
        self.memory_mb = memory_mb
        self.file_mb = file_mb
        self.shared_memory_mb = shared_memory_mb
        self.tmp_mb = tmp_mb
        self.tmp_files = tmp_files
        self.disk_free_mb = disk_free_mb
        self.open_files = open_files
        self.held = held  # set everything up, then wait for the order to begin
        self.terminal = terminal  # give it a terminal as standard input and both outputs
        self.own_terminal = own_terminal  # the terminal's path, once it exists
        self.has_input = has_input  # the last of the extra descriptors is the command's standard input
        self.grace_seconds = grace_seconds  # time to end: for a stopped command, and for what a finished one left running

    @property
    def kind(self) -> Kind:
        """What a full cell depends on before its command is known."""
        return self.network != "on", self.owner

    def pack(self) -> bytes:
        return marshal.dumps(self.__dict__)

    @classmethod
    def unpack(cls, packed: bytes) -> "Plan":
        return cls(**marshal.loads(packed))
