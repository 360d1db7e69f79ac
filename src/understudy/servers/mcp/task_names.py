"""Ids of tasks. One says itself which turn it means, and is sealed: the log is all that has to be kept of a task."""

import time
from datetime import UTC, datetime

import msgspec

from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.servers.sealing import IdSeal

_encode = msgspec.msgpack.Encoder().encode


class TaskName(msgspec.Struct, frozen=True, array_like=True):
    principal: str  # whose task it is; for everybody else there is no such task
    conversation_id: str
    message_id: str  # that began the turn, or joined it
    begin: int  # a record before that message; -1: it was sent by another call
    created_ms: int
    ttl_ms: int
    askable: bool  # whoever made it can be asked for approval

    @property
    def sends(self) -> bool:
        """Whether its call has sent the message. Else it only waits for a turn that ran already."""
        return self.begin >= 0

    @property
    def expires(self) -> float:
        """Seconds since the epoch."""
        return (self.created_ms + self.ttl_ms) / 1000

    @property
    def created_at(self) -> str:
        return written_time(self.created_ms / 1000)


_decode = msgspec.msgpack.Decoder(TaskName).decode


def write_task_id(engine: Engine, name: TaskName) -> str:
    return _seal(engine).close(_encode(name))


def read_task_id(engine: Engine, principal: str, text: str) -> TaskName | None:
    """None for one that is not ours, is somebody else's, or has expired: nobody can tell these apart."""
    body = _seal(engine).open(text)
    try:
        name = None if body is None else _decode(body)
    except msgspec.MsgspecError:
        name = None
    return None if name is None or name.principal != principal or name.expires < time.time() else name


def _seal(engine: Engine) -> IdSeal:
    return IdSeal(state_dir(engine.home), b"task")


def written_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
