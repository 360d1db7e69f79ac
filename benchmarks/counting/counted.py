"""A server with counters in it, or under a tracer, and what can be asked of it."""

import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.client import BenchError, Client
from benchmarks.model.process import Model
from benchmarks.servers import ServerSpec, ours

_LAUNCH = Path(__file__).with_name("launch.py")
_WAIT_SECONDS = 60.0
_LOOKS, _LOOK_SECONDS = 5, 0.04  # it is quiet once next to nothing has moved for so many looks
_IDLE_CALLS, _IDLE_TRACE = 80, 4_000  # what an idle server does between two looks, at most: calls, bytes of its trace
_QUIET_SECONDS = 20.0  # then it is taken as it is
STRACE = ("strace", "-f", "-q", "-e", "signal=none", "-s", "64", "-o")


class Counts(NamedTuple):
    python: int
    c: int
    modules: int
    calls_at_first_write: int  # -1: not known
    modules_at_first_write: int
    timers: int
    timer_ms: int

    @property
    def calls(self) -> int:
        return self.python + self.c


class Counted:
    """One process. `words` are the arguments of `understudy`; the client is for those that talk on standard input and output."""

    def __init__(
        self,
        folder: Path,
        model: Model,
        words: Sequence[str] = ("mcp-server",),
        *,
        source: Path | None = None,
        counters: str = "none",
        traced: bool = False,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.trace = folder / "trace" if traced else None
        address = folder / "control"
        address.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(address))
        listening.listen()
        listening.settimeout(_WAIT_SECONDS)
        self._process: Client | None = None
        try:
            spec = _spec(words, folder, source, counters, self.trace, wrapper)
            self.client = Client(spec, model, folder)
            self._control, _ = listening.accept()
        except TimeoutError:
            raise BenchError(f"the server did not start: {(folder / 'stderr').read_text()[-600:]}") from None
        finally:
            listening.close()
        self._control.settimeout(_WAIT_SECONDS)
        self._received = b""
        self.pid = int(self._line())  # not that of the tracer

    # -- asking

    def counts(self, word: str = "counts") -> Counts:
        self._control.sendall(word.encode() + b"\n")
        return Counts(*map(int, self._line().split()))

    def _line(self) -> str:
        while b"\n" not in self._received:
            data = self._control.recv(4096)
            if not data:
                raise BenchError("the server has ended")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def settle(self, mark: str = "quiet") -> tuple[Counts, str]:
        """Wait until nothing goes on any more but the looks at the store, which an idle server goes on with for a while.

        What was counted when it became quiet, and the mark that stands there among the system calls.
        """
        deadline = time.monotonic() + _QUIET_SECONDS
        at, moved = self._look(f"{mark}-0")
        quiet, marked = 0, f"{mark}-0"
        for look in count(1):
            self.client.pump(lambda: False, _LOOK_SECONDS)
            sleeps = self._sleeps()
            now, moves = self._look(f"{mark}-{look}")
            if sleeps and moves - moved < (_IDLE_TRACE if self.trace is not None else _IDLE_CALLS):
                quiet += 1
            else:
                quiet, at, marked = 0, now, f"{mark}-{look}"
            if quiet == _LOOKS or time.monotonic() > deadline:
                return at, marked
            moved = moves
        raise AssertionError

    def _look(self, mark: str) -> tuple[Counts, int]:
        """What is counted now, and something that grows with all that is done."""
        counts = self.counts(mark)
        return counts, counts.calls if self.trace is None else self.trace.stat().st_size

    def _sleeps(self) -> bool:
        """Whether none of its threads runs or wants to. A tracer sleeps once nothing that it follows has anything to tell."""
        for pid in {self.pid, self.client.pid}:
            for task in Path(f"/proc/{pid}/task").iterdir():
                try:
                    state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if state not in "SI":
                    return False
        return True

    # -- ending

    def close(self) -> None:
        self._control.close()
        self.client.close()

    def __enter__(self) -> "Counted":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _spec(
    words: Sequence[str], folder: Path, source: Path | None, counters: str, trace: Path | None, wrapper: Sequence[str]
) -> ServerSpec:
    installed = ours()
    script = Path(installed.command[0])
    python = script.with_name("python")
    launched = [str(python), str(_LAUNCH), str(script), str(source or "-"), str(folder / "control"), counters, *words]
    before = [*STRACE, str(trace)] if trace is not None else list(wrapper)
    env = {"PYTHONHASHSEED": "0"}
    if source is not None:
        env["PYTHONPATH"] = str(source)
    return replace(installed, command=(*before, *launched), env=env)


def fresh_folder(folder: Path, name: str, store: Path | None = None) -> Path:
    """A place for one server. `store`: a home whose conversations it has from the start."""
    made = folder / name
    made.mkdir()
    if store is not None:
        shutil.copytree(store, made / "home")
    return made


def has_tracer() -> bool:
    return shutil.which(STRACE[0]) is not None
