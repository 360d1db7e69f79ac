"""A turn as the app server's clients see it, why a turn failed, and support for clients that begin to listen late.

A client may begin to listen for a turn only some time after it has read the answer to `turn/start`. OpenAI's Python SDK reads
answers and notifications in one thread and waits for its turn in another. If its reader sees `turn/completed` before the other
thread listens for the turn, it drops everything about the turn, and `thread.run` waits for ever. Nothing tells us when it listens,
and on a busy machine that takes longer than the end of each turn should be delayed. So the end is held back only for a moment, and
then repeated with the messages from which the SDK builds its result. If the SDK heard the end, it drops the repetition. Questions
and answers are unaffected: they are requests, and the SDK always reads them.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from understudy.errors import ContextFull
from understudy.protocol.records import Failure, RetryScheduled, TurnEnded
from understudy.servers.app_server.wire import Json


def turn_object(
    turn_id: str,
    status: str,
    *,
    items: Sequence[Json] = (),
    view: str = "notLoaded",
    error: Json | None = None,
    started_at: float | None = None,
    completed_at: float | None = None,
) -> Json:
    spent = None if completed_at is None or started_at is None else max(0, int((completed_at - started_at) * 1000))
    return {
        "id": turn_id,
        "rootTurnId": turn_id,
        "items": list(items),
        "itemsView": view,
        "status": status,
        "error": error,
        "startedAt": None if started_at is None else int(started_at),
        "completedAt": None if completed_at is None else int(completed_at),
        "durationMs": spent,
    }


def error_of(ended: TurnEnded) -> Json:
    return _error(ended.describe_failure(), _kind(ended.failure))


def retry_error(retry: RetryScheduled) -> Json:
    """The error of a request that is repeated."""
    info: Json = {"responseStreamDisconnected": {"httpStatusCode": retry.status}}
    return _error(f"Reconnecting... {retry.attempt}/{retry.of}", info, retry.why)


def _kind(failure: Failure | None) -> object:
    if failure is not None and failure.kind == ContextFull.kind:
        return "contextWindowExceeded"
    if failure is None or failure.status in (None, 400):
        return "other"
    return {"httpConnectionFailed": {"httpStatusCode": failure.status}}


def _error(message: str, info: object, details: str | None = None) -> Json:
    return {"message": message, "codexErrorInfo": info, "additionalDetails": details, "misalignment": None}


NAMES = frozenset({"codex_python_sdk"})
MOMENT = 0.5  # seconds after the answer to `turn/start` in which the end of the turn is held back
AGAIN = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # seconds between the end and its repetitions
LONG = 15.0  # seconds after the answer: if a turn ends later, nothing is repeated
MOST_BYTES = 512 * 1024  # kept messages of a turn; beyond that, only its end is repeated
REPEATED = frozenset({"item/completed", "thread/tokenUsage/updated", "error", "turn/completed"})


@dataclass
class _Turn:
    answered: float | None = None  # when `turn/start` was answered, by the loop's clock
    is_over: bool = False
    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    timer: asyncio.TimerHandle | None = None


class LateListener:
    """For one thread of a client that is known to listen late. `send` takes lines."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._turns: dict[str, _Turn] = {}

    def expect(self, turn_id: str) -> None:
        """`turn/start` is about to be answered with this turn."""
        self._turns[turn_id] = _Turn()

    def forget(self, turn_id: str) -> None:
        turn = self._turns.pop(turn_id, None)
        if turn is not None and turn.timer is not None:
            turn.timer.cancel()

    def answered(self, turn_id: str) -> float:
        """The client learns of the turn now. Returns how long to hold back its end, if the turn is already over."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return 0.0
        turn.answered = self._loop.time()
        return MOMENT if turn.is_over else 0.0

    def rest(self, turn_id: str) -> float:
        """How long to hold back the end of the turn, which is about to be sent."""
        turn = self._turns.get(turn_id)
        if turn is None or turn.answered is None:
            return 0.0
        return turn.answered + MOMENT - self._loop.time()

    def told(self, method: str, params: Json, line: bytes) -> None:
        """The client was sent this."""
        if method not in REPEATED:
            return
        turn_id = params["turn"]["id"] if method == "turn/completed" else params.get("turnId", "")
        turn = self._turns.get(turn_id)
        if turn is None or turn.is_over:
            return
        if turn.answered is not None and self._loop.time() > turn.answered + LONG:
            self.forget(turn_id)
            return
        turn.is_over = method == "turn/completed"
        turn.size += len(line)
        if turn.size > MOST_BYTES:
            turn.lines.clear()
        if turn.size <= MOST_BYTES or turn.is_over:
            turn.lines.append(line)
        if turn.is_over:
            self._repeat_later(turn_id, turn, 0)

    def _repeat_later(self, turn_id: str, turn: _Turn, times: int) -> None:
        if times == len(AGAIN):
            del self._turns[turn_id]
        else:
            turn.timer = self._loop.call_later(AGAIN[times], self._repeat, turn_id, turn, times)

    def _repeat(self, turn_id: str, turn: _Turn, times: int) -> None:
        self._send(b"".join(turn.lines))
        self._repeat_later(turn_id, turn, times + 1)

    def stop(self) -> None:
        for turn_id in list(self._turns):
            self.forget(turn_id)
