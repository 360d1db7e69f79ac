"""Events as lines of JSON, each with its place in the log."""

import msgspec

from understudy.cli.stored import rfc3339
from understudy.engine.broadcast import LiveDelta
from understudy.protocol.records import Entry, UserMessage
from understudy.servers.event_codec import Encoded
from understudy.servers.seed_events import encode_delta, encode_user_message, project

_encode = msgspec.json.Encoder().encode


def event_lines(entry: Entry) -> list[bytes]:
    """The events of an entry, of which there may be none."""
    record = entry.record
    messages = (
        [encode_user_message(record).msg] if isinstance(record, UserMessage) else [_encode(event) for event in project(record)]
    )
    before = b'{"seq":%d,"at":"%b","turn":%b,"msg":' % (entry.seq, rfc3339(entry.at).encode(), _encode(entry.turn))
    return [before + message + b"}\n" for message in messages]


def delta_line(live: LiveDelta) -> bytes:
    """A delta has no place of its own: it comes after an entry."""
    encoded: Encoded = encode_delta(live.delta)
    return b'{"after":%d,"turn":%b,"msg":%b}\n' % (live.after, _encode(live.turn), encoded.msg)
