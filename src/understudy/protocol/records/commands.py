"""Commands: what was run, and what came of it."""

import msgspec


class CommandStarted(msgspec.Struct, frozen=True, gc=False, tag="command_started", omit_defaults=True):
    """Intent: on disk before the command runs."""

    call_id: str
    command: tuple[str, ...]
    cwd: str
    contained: bool
    session: int | None = None  # of one that may outlive its call and its turn: the number by which the model speaks of it
    tty: bool = False  # it has a terminal


class CommandEnded(msgspec.Struct, frozen=True, gc=False, tag="command_ended"):
    call_id: str
    stdout: str
    stderr: str
    exit_code: int
    duration: float  # seconds
    timed_out: bool = False
    denied: bool = False  # the sandbox seems to have refused something
    started: CommandStarted | None = None  # of a session: it may have begun many turns ago
    untold: bool = False  # of a session: no call of the model waited for its end
    ended_by: str = ""  # why it ended, if neither by itself nor for the user. Of a session the model is told with the next request


class InputWritten(msgspec.Struct, frozen=True, gc=False, tag="input_written"):
    """Intent: something is typed at the terminal of a session, or it is asked to stop."""

    call_id: str  # of the call that began the session
    session: int
    text: str

    def describe(self) -> str:
        """For people, in a line."""
        return f"typed at session {self.session}: {self.text}"
