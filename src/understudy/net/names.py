"""Asks the system for the addresses of a name, in threads of our own.

A name server that says nothing holds whoever asks it for half a minute. The pools of event loops have few threads: two such
names would hold up all others, and a process that ends would wait for them. Some routers drop questions for IPv6 addresses,
and then the system has nothing to say although it knows an IPv4 address. So if an answer takes long, each family is asked for
on its own, and the first address counts.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain, zip_longest
from threading import Lock, Thread

PATIENCE_SECONDS = 2.0

Address = tuple[int, str]  # family, numeric host
Found = Sequence[Address] | OSError

_asked: dict[tuple[str, int], "Future[Found]"] = {}  # questions that are under way, by name and family
_lock = Lock()  # event loops of several threads may ask


async def addresses_of(name: str) -> Sequence[Address]:
    """IPv4 and IPv6 alternate, so that a broken one of them costs a single head start. Raises OSError."""
    whole = asyncio.wrap_future(_ask(name, socket.AF_UNSPEC))
    waiting = {whole}
    try:
        await asyncio.wait(waiting, timeout=PATIENCE_SECONDS)
        if not whole.done():
            waiting |= {asyncio.wrap_future(_ask(name, family)) for family in (socket.AF_INET, socket.AF_INET6)}
        return await _first(whole, waiting)
    finally:
        for each in waiting:
            each.cancel()  # ends only our waiting: the question stays, for others who ask it


async def _first(whole: "asyncio.Future[Found]", waiting: "set[asyncio.Future[Found]]") -> Sequence[Address]:
    pending = waiting
    while True:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            if not isinstance(found := each.result(), OSError):
                return _alternating(found)
        if whole in done and isinstance(failure := whole.result(), OSError):
            raise failure


def _ask(name: str, family: int) -> "Future[Found]":
    """A question that is under way is not asked again, so that a silent name server does not hold ever more threads."""
    with _lock:
        if (asked := _asked.get((name, family))) is None:
            asked = Future["Found"]()
            asked.set_running_or_notify_cancel()  # from here on nobody can cancel it for others
            Thread(target=_look_up, args=(name, family, asked), name=f"name {name}", daemon=True).start()
            _asked[name, family] = asked
        return asked


def _look_up(name: str, family: int, asked: "Future[Found]") -> None:
    found: Found
    try:
        answers = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
        found = [(each, str(address[0])) for each, _, _, _, address in answers]
    except OSError as error:
        found = error
    except UnicodeError:  # an empty or very long part
        found = socket.gaierror(socket.EAI_NONAME, "it is no valid name")
    with _lock:
        _asked.pop((name, family), None)
    asked.set_result(found)


def _alternating(found: Sequence[Address]) -> Sequence[Address]:
    by_family: dict[int, list[Address]] = {}
    for family, host in found:
        by_family.setdefault(family, []).append((family, host))
    return [address for address in chain(*zip_longest(*by_family.values())) if address is not None]
