"""Messages as server-sent events, byte for byte."""

PING = b": ping\r\n\r\n"  # keeps proxies and clients from taking silence for the end
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
EVENT = b"id: %b\r\nevent: message\r\ndata: %b\r\n\r\n"  # its id, and a line of JSON without its end


def event(message: bytes, event_id: bytes | None = None) -> bytes:
    """`message` is one line of JSON, with or without its end."""
    name = b"" if event_id is None else b"id: " + event_id + b"\r\n"
    return name + b"event: message\r\ndata: " + message.rstrip(b"\n") + b"\r\n\r\n"


def priming(event_id: bytes, retry_ms: int) -> bytes:
    """Tells a client from where it can resume, before there is anything to show."""
    return b"id: %b\r\ndata: \r\nretry: %d\r\n\r\n" % (event_id, retry_ms)
