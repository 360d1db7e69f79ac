"""Starts our server with counters in it, and tells what they say when it is asked. It runs in the server's process.

`launch.py SCRIPT SOURCE SOCKET COUNTERS WORDS…`: SCRIPT is the installed program, whose place decides the path for imports; SOURCE
is a folder to import `understudy` from, or `-`. COUNTERS is `calls`, `timers` or `none`. It imports as little as it can, because
modules that are loaded already cost the server nothing.
"""

import _socket
import _thread
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_threads: "list[list[int]]" = []  # calls of Python functions and of C functions, by thread
_at_first_write: "list[int]" = []  # calls, and modules loaded, when the first answer was written
_timers: "dict[str, list[float]]" = {}  # by what they call: how many fired, and the seconds that they had been set to
_at_rest: "dict[str, float]" = {}  # how many had fired when `idle` was asked
_periodic: "set[str]" = set()  # what fires where nothing is done at all: it follows the clock, and not the work
_OVER = -1


def main() -> int:
    script, source, address, counters, *words = sys.argv[1:]
    sys.argv = [script, *words]
    sys.path[0] = os.path.dirname(script)
    if source != "-":
        sys.path.insert(0, source)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    control.connect(address)
    _thread.start_new_thread(_tell, (control,))  # not a thread that is counted
    if counters == "timers":
        _count_timers()
    from understudy.cli.main import main as understudy

    if counters == "calls":
        threading.setprofile(_first_call)
        sys.setprofile(_counting_until_the_first_write())
    return understudy()


def _tell(control: _socket.socket) -> None:
    """`counts` is answered. So is any name, once it stands among the system calls of this process, for whoever traces it. Between
    `idle` and `busy` nothing is done: the timers that fire all the same are left out from then on.
    """
    control.sendall(b"%d\n" % os.getpid())
    while asked := control.recv(256):
        if asked == b"idle\n":
            _at_rest.update({name: fired for name, (fired, _) in _timers.items()})
        elif asked == b"busy\n":
            _periodic.update(name for name, (fired, _) in _timers.items() if fired > _at_rest.get(name, 0))
        elif asked != b"counts\n":
            os.access(b"/budget/" + asked.strip(), os.F_OK)
        calls = [sum(cell[kind] for cell in _threads) for kind in (0, 1)]
        first = _at_first_write or [_OVER, _OVER]
        timers = [_timers[name] for name in tuple(_timers) if name not in _periodic]
        fired, seconds = (sum(timer[kind] for timer in timers) for kind in (0, 1))
        facts = [*calls, len(sys.modules), *first, round(fired), round(seconds * 1000)]
        control.sendall(" ".join(map(str, facts)).encode() + b"\n")


def _counting_until_the_first_write() -> "Callable[[FrameType, str, Any], None]":
    cell = [0, 0]
    _threads.append(cell)
    write = os.write

    def count(frame: "FrameType", event: str, argument: "Any") -> None:
        if event == "call":
            cell[0] += 1
        elif event == "c_call":
            cell[1] += 1
            if argument is write:
                _at_first_write.extend((sum(cell), len(sys.modules)))
                sys.setprofile(_counting(cell))

    return count


def _counting(cell: "list[int]") -> "Callable[[FrameType, str, Any], None]":
    def count(frame: "FrameType", event: str, argument: "Any") -> None:
        if event == "call":
            cell[0] += 1
        elif event == "c_call":
            cell[1] += 1

    return count


def _first_call(frame: "FrameType", event: str, argument: "Any") -> None:
    """In a new thread: it is counted by itself from here on, since two threads that add to one number lose some."""
    cell = [0, 0]
    _threads.append(cell)
    count = _counting(cell)
    sys.setprofile(count)
    count(frame, event, argument)


def _count_timers() -> None:
    import uvloop

    class Loop(uvloop.Loop):
        def call_later(self, delay: "Any", callback: "Any", *arguments: "Any", context: "Any" = None) -> "Any":
            timer = _timers.setdefault(getattr(callback, "__qualname__", ""), [0, 0.0])

            def fire(*arguments: "Any") -> None:
                timer[0] += 1
                timer[1] += delay
                callback(*arguments)

            return super().call_later(delay, fire, *arguments, context=context)

    uvloop.new_event_loop = Loop


if __name__ == "__main__":
    sys.exit(main())
