"""A server, its model and a name server, all in this network: `python -m tests.net.beside_name_server HOW`.

Prints what the call was answered, and after how many seconds, as JSON. The caller has made a network without anything else in
it, and named 127.0.0.1 as its name server.
"""

import asyncio
import json
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, cast

from understudy.testing import McpProcess, ScriptedModel, say, text_of

A, AAAA = 1, 28
NO_SUCH_NAME, FAILED = 3, 2


class Reply(NamedTuple):
    addresses: tuple[str, ...] = ()
    code: int = 0
    after: float = 0.0


def _told(v4: tuple[str, ...] = (), v6: tuple[str, ...] = (), after: float = 0.0) -> Callable[[int], Reply]:
    return lambda kind: Reply(v4 if kind == A else v6 if kind == AAAA else (), 0, after)


HOW: dict[str, Callable[[int], Reply | None]] = {
    "right": _told(("127.0.0.1",)),
    "slow": _told(("127.0.0.1",), after=3.0),
    "no-word-of-ipv6": lambda kind: Reply(("127.0.0.1",)) if kind == A else None,
    "dead-ipv6": _told(("127.0.0.1",), ("::1",)),  # nothing listens there
    "first-is-dead": _told(("127.0.0.9", "127.0.0.1")),
    "not-known": lambda kind: Reply(code=NO_SUCH_NAME),
    "failing": lambda kind: Reply(code=FAILED),
    "no-address": _told(),
    "nowhere": _told(("255.255.255.255",)),
    "silent": lambda kind: None,
}


class NameServer(asyncio.DatagramProtocol):
    def __init__(self, reply: Callable[[int], Reply | None]) -> None:
        self._reply = reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        end = data.index(b"\0", 12) + 5
        [kind] = struct.unpack("!H", data[end - 4 : end - 2])
        if (reply := self._reply(kind)) is not None:
            answer = self._answer(data[:2], data[12:end], kind, reply)
            asyncio.get_running_loop().call_later(reply.after, self._transport.sendto, answer, addr)

    def _answer(self, number: bytes, question: bytes, kind: int, reply: Reply) -> bytes:
        family = socket.AF_INET if kind == A else socket.AF_INET6
        packed = [socket.inet_pton(family, address) for address in reply.addresses]
        rows = [b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(each)) + each for each in packed]
        head = number + struct.pack("!HHHHH", 0x8180 | reply.code, 1, len(rows), 0, 0)
        return b"".join((head, question, *rows))


async def main(how: str) -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: NameServer(HOW[how]), ("127.0.0.1", 53))
    async with ScriptedModel(lambda _: say("Here.")) as model:
        url = model.url.replace("127.0.0.1", "model.test")
        async with McpProcess(url, wait_seconds=120) as client:
            began = time.monotonic()
            text = text_of(await client.codex("Hello"))
            print(json.dumps({"text": text, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
