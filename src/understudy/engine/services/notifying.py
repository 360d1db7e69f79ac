"""Runs the user's programs that are told something by one JSON argument, such as `notify` after each completed turn.

Nothing waits for such a program. It runs in a session of its own, without our input and output, so it cannot delay the server, and
its time limit holds whether the server continues, ends or is killed. It may fail or be missing; that is logged.
"""

import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from understudy.engine.log.fold import State
from understudy.policy.secrets import REDACTED, secret_pattern
from understudy.protocol.items import InputImage, Message

logger = logging.getLogger(__name__)

SECONDS = 30.0  # time limit of such a program
GRACE_SECONDS = 5  # additional time for `timeout`, which enforces the limit even if this process has died
AT_ONCE = 4  # programs at once
MOST_WAITING = 64  # programs that may wait for a free slot; further ones are dropped
START_SECONDS = 2.0  # how long an ending server waits for programs that have not started yet
MOST_BYTES = 100_000  # longest argument: Linux allows less than 128 KiB for one
MOST_CHARACTERS = 32_768  # longest text in the argument
VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "CODEX_HOME"),
    # to show windows and notifications
    *("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS"),
)

_encode = msgspec.json.Encoder().encode


class CompletedTurn(msgspec.Struct, frozen=True):
    """What the program is told."""

    conversation_id: str
    turn_id: str
    cwd: str
    inputs: tuple[str, ...]  # the users' messages, as far as they are still sent to the model
    answer: str | None

    def argument(self, hide: Callable[[str], str]) -> bytes:
        return argument_for(self, hide)


class Tells(Protocol):
    """Something that a program is told."""

    def argument(self, hide: Callable[[str], str]) -> bytes:
        """The JSON, short enough for an argument; `hide` removes secrets from a text."""
        ...


class NotifyProgram(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    folder: Path  # working folder, and base of relative paths: the user's own, not a project's
    secrets: Callable[[], Iterable[str]]  # removed from the argument
    key: str = "notify"  # its key in the configuration


def completed_turn(state: State, conversation_id: str, turn_id: str, cwd: str, answer: str | None) -> CompletedTurn:
    history = state.history
    said = [item for item, source in zip(history.items, history.sources, strict=True) if source in history.from_users]
    texts = [_text(item) for item in said if isinstance(item, Message)]
    return CompletedTurn(conversation_id, turn_id, cwd, tuple(texts), answer)


def argument_for(turn: CompletedTurn, hide: Callable[[str], str] = lambda text: text) -> bytes:
    """The JSON, short enough for an argument: the oldest messages are left out first, then the middle of long texts.

    `hide` removes secrets from a text: other users of the machine can see the arguments of programs.
    """
    most = MOST_CHARACTERS
    while True:
        answer = None if turn.answer is None else cut_text(hide(cut_text(turn.answer, 2 * most)), most)
        told = _payload(turn, [], answer)
        inputs: deque[str] = deque()
        size = len(_encode(told))
        for text in reversed(turn.inputs):
            # the first cut saves work; the second removes its edges, where half a secret may be left
            cut = cut_text(hide(cut_text(text, 2 * most)), most)
            size += len(_encode(cut)) + 1
            if size > MOST_BYTES:
                break
            inputs.appendleft(cut)
        if inputs or (not turn.inputs and size <= MOST_BYTES):
            return _encode(_payload(turn, list(inputs), answer))
        most //= 2


class Notifier:
    """All such programs of one process."""

    def __init__(self, env: Mapping[str, str], seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._env = {name: env[name] for name in VARIABLES if name in env}
        self._waiting: deque[tuple[NotifyProgram, Tells]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._starting = 0
        self._complained: set[str] = set()

    def tell(self, program: NotifyProgram, news: Tells) -> None:
        """Returns at once, and never raises."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._complain(f"`{program.key}` was not called every time: {AT_ONCE} calls of such programs are still running")
                return
            self._waiting.append((program, news))
            if self._threads == AT_ONCE:
                return
            self._threads += 1
        try:
            # a daemon thread does not keep an ending server alive
            threading.Thread(target=self._work, name="notify", daemon=True).start()
        except RuntimeError as error:  # no more threads
            with self._changed:
                self._threads -= 1
                self._waiting.pop()
                self._complain(f"`{program.key}` was not called: {error}")

    def close(self, seconds: float = START_SECONDS) -> None:
        """Wait until the programs are started, but not for their end."""
        end = time.monotonic() + seconds
        with self._changed:
            while (self._waiting or self._starting) and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._threads -= 1
                    return
                program, news = self._waiting.popleft()
                self._starting += 1
            process = self._start(program, news)
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()
            if process is not None:
                self._wait(process, program.key)

    def _start(self, program: NotifyProgram, news: Tells) -> "subprocess.Popen[bytes] | None":
        name = program.command[0]
        try:
            found = find_program(name, program.folder, self._env.get("PATH", ""))
            if found is None:
                self._complain(f"`{program.key}` was not called: `{name}` is no program that can be run")
                return None
            secrets = secret_pattern(program.secrets())
            argument = news.argument(lambda text: secrets.sub(REDACTED, text))
            argv = (found, *program.command[1:])
            return subprocess.Popen(
                [*map(os.fsencode, (*self._time_limit(program.folder), *argv)), argument],
                cwd=program.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._complain(f"`{program.key}` was not called: `{name}`: {reason}")
        except Exception:  # a bug here must not stop later programs
            logger.exception("bug in calling `%s`", program.key)
        return None

    def _time_limit(self, folder: Path) -> tuple[str, ...]:
        """A prefix for the command that enforces the time limit even if this process dies."""
        timeout = find_program("timeout", folder, self._env.get("PATH", ""))
        return () if timeout is None else (timeout, "-s", "KILL", f"{self._seconds + GRACE_SECONDS:.0f}")

    def _wait(self, process: "subprocess.Popen[bytes]", key: str) -> None:
        try:
            process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            self._complain(f"`{key}` was ended after {self._seconds:g} seconds")
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def _complain(self, text: str) -> None:
        if text not in self._complained:
            self._complained.add(text)
            logger.warning("%s", text)


def find_program(name: str, folder: Path, search_path: str) -> str | None:
    """The file to run. A name without a slash is only searched in absolute folders of the path."""
    if "/" in name:
        places: Sequence[str] = (os.path.join(folder, name),)
    else:
        places = [os.path.join(entry, name) for entry in search_path.split(os.pathsep) if name and os.path.isabs(entry)]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def _payload(turn: CompletedTurn, inputs: list[str], answer: str | None) -> dict[str, object]:
    return {
        "type": "agent-turn-complete",
        "thread-id": turn.conversation_id,
        "turn-id": turn.turn_id,
        "cwd": turn.cwd,
        "input-messages": inputs,
        "last-assistant-message": answer,
    }


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.content if not isinstance(part, InputImage))


def cut_text(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters were left out ...]\n{text[-half:]}"
