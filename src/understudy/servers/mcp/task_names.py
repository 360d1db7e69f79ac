"""Ids of tasks. They are short, because some clients limit their length and show them to people.

An id names the conversation, marks the message that the task waits for, and is sealed. Its meaning is looked up in the log, so any
process on the store understands it, and nothing else of a task must be kept. Only the seal says who owns it.
"""

import time
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.protocol.ids import uuid_bytes, uuid_of
from understudy.servers.sealing import IdSeal

LONGEST_ID = 48  # characters
_MARK_BYTES = 4
_SEAL_BYTES = 6  # guesses must be made here, by a caller who may read the conversation
_BODY_BYTES = 30
_BEGIN_BITS = 22
_FROM_ANOTHER_CALL = 2**_BEGIN_BITS - 1
_YEAR_2020_MS = 1_577_836_800_000
_UNITS_MS = (1, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)  # units for a task's lifetime
_MOST_UNITS = 2**13 - 1


class TaskName(msgspec.Struct, frozen=True):
    conversation_id: str
    mark: bytes  # mark of the message that began or joined the turn
    begin: int  # a record before that message; -1: another call sent it
    created_ms: int
    ttl_ms: int
    askable: bool  # the task's maker can be asked for approval
    full_report: bool = False  # its result reports everything that the turn did

    @property
    def sends(self) -> bool:
        """Whether its call sent the message. Otherwise it only waits for a turn that was already running."""
        return self.begin >= 0

    @property
    def expires(self) -> float:
        """Seconds since the epoch."""
        return (self.created_ms + self.ttl_ms) / 1000

    @property
    def created_at(self) -> str:
        return written_time(self.created_ms / 1000)

    def means(self, message_id: str) -> bool:
        return mark_of(message_id) == self.mark


def mark_of(message_id: str) -> bytes:
    return sha256(message_id.encode()).digest()[:_MARK_BYTES]


def ttl_as_told(milliseconds: int) -> int:
    """The lifetime rounded up to one that an id can express. Values that people usually write are exact."""
    unit = next((unit for unit in _UNITS_MS if milliseconds <= unit * _MOST_UNITS), _UNITS_MS[-1])
    return unit * min(max(-(-milliseconds // unit), 1), _MOST_UNITS)


def write_task_id(engine: Engine, principal: str, name: TaskName) -> str:
    begin = min(name.begin, _FROM_ANOTHER_CALL - 1) if name.sends else _FROM_ANOTHER_CALL  # reading may begin earlier
    unit = next(number for number, unit in enumerate(_UNITS_MS) if name.ttl_ms <= unit * _MOST_UNITS)
    body = (
        uuid_bytes(name.conversation_id)
        + name.mark
        + (name.full_report << _BEGIN_BITS + 1 | name.askable << _BEGIN_BITS | begin).to_bytes(3, "big")
        + min(max(name.created_ms - _YEAR_2020_MS, 0), 2**40 - 1).to_bytes(5, "big")
        + (unit << 13 | name.ttl_ms // _UNITS_MS[unit]).to_bytes(2, "big")
    )
    return _seal(engine, principal).close(body)


def read_task_id(engine: Engine, principal: str, text: str) -> TaskName | None:
    """None for an id that is not ours, is somebody else's, or has expired: callers cannot distinguish these."""
    name = _read(engine, principal, text) if len(text) <= LONGEST_ID else _read_long(engine, principal, text)
    return None if name is None or name.expires < time.time() else name


def _read(engine: Engine, principal: str, text: str) -> TaskName | None:
    body = _seal(engine, principal).open(text)
    if body is None or len(body) != _BODY_BYTES:
        return None
    begin = int.from_bytes(body[20:23], "big")
    ttl = int.from_bytes(body[28:30], "big")
    record = begin & _FROM_ANOTHER_CALL
    return TaskName(
        uuid_of(body[:16]),
        body[16:20],
        -1 if record == _FROM_ANOTHER_CALL else record,
        int.from_bytes(body[23:28], "big") + _YEAR_2020_MS,
        (ttl & _MOST_UNITS) * _UNITS_MS[ttl >> 13],
        bool(begin >> _BEGIN_BITS & 1),
        bool(begin >> _BEGIN_BITS + 1),
    )


def _seal(engine: Engine, principal: str) -> IdSeal:
    return IdSeal(state_dir(engine.home), b"short task\0" + principal.encode(errors="surrogatepass"), _SEAL_BYTES)


def written_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- ids of earlier builds: they contain everything, and are as long as that requires


class _LongName(msgspec.Struct, frozen=True, array_like=True):
    principal: str
    conversation_id: str
    message_id: str
    begin: int
    created_ms: int
    ttl_ms: int
    askable: bool


_decode_long = msgspec.msgpack.Decoder(_LongName).decode


def _read_long(engine: Engine, principal: str, text: str) -> TaskName | None:
    body = IdSeal(state_dir(engine.home), b"task").open(text)
    try:
        name = None if body is None else _decode_long(body)
    except msgspec.MsgspecError:
        return None
    if name is None or name.principal != principal:
        return None
    return TaskName(name.conversation_id, mark_of(name.message_id), name.begin, name.created_ms, name.ttl_ms, name.askable)
