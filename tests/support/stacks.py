"""Where this process waits: the stacks of its threads, those of the tasks of its event loops, and the processes below it."""

import asyncio
import gc
import inspect
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any


def all_stacks() -> str:
    """Threads first, then tasks, each with the call that it waits in at its end."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [f"thread {names.get(ident)}\n{_text(_callers(frame))}" for ident, frame in sys._current_frames().items()]  # pyright: ignore[reportPrivateUsage]
    parts += [f"task {task.get_name()} waits for {_awaited(task)}\n{_text(_awaiting(task))}" for task in _tasks()]
    return "\n".join(parts)


def frames_of_tasks() -> list[FrameType]:
    return [frame for task in _tasks() for frame in _awaiting(task)]


def child_processes(parent: str = "self", indent: str = "") -> str:
    """A line for each process below this one, where the system says which there are (Linux)."""
    lines: list[str] = []
    for found in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in _read(found).split():
            state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1]
            command = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")
            lines.append(f"{indent}{pid} {' '.join(state)} {command[:300]}\n{child_processes(pid, indent + '  ')}")
    return "".join(lines)


def _tasks() -> list[asyncio.Task[Any]]:
    """Those of all event loops: `asyncio.all_tasks` knows only one of them."""
    return [task for task in gc.get_objects() if isinstance(task, asyncio.Task) and not task.done()]


def _awaited(task: asyncio.Task[Any]) -> str:
    return repr(getattr(task, "_fut_waiter", None))[:300]


def _awaiting(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """The frames of a task, from the outermost. `Task.get_stack` gives one only of a task that waits."""
    at: Any = task.get_coro()
    while at is not None:
        if inspect.iscoroutine(at):
            frame, at = at.cr_frame, at.cr_await
        elif inspect.isasyncgen(at):
            frame, at = at.ag_frame, at.ag_await
        elif inspect.isgenerator(at):
            frame, at = at.gi_frame, at.gi_yieldfrom
        else:  # the next value of an asynchronous generator, or the like: it refers to what runs, and does not say so
            frame, at = None, next(filter(_runs, gc.get_referents(at)), None)
        if frame is not None:
            yield frame


def _runs(found: Any) -> bool:
    return inspect.isasyncgen(found) or inspect.iscoroutine(found)


def _callers(frame: FrameType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _text(frames: Iterator[FrameType] | list[FrameType]) -> str:
    return "".join(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format())


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
