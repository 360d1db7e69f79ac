"""Ids of turns and items as clients of the app server see them.

They follow from the log alone, so that every process gives the same ones. Those of items are unique in their thread: models
give their calls and messages the same ids again and again.
"""

import hashlib

from understudy.protocol.uuids import read_uuid


def uuid_of(*parts: str) -> str:
    """One that stands for these texts, and for no others."""
    digest = bytearray(hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80  # version 8: made in a way of one's own
    digest[8] = digest[8] & 0x3F | 0x80
    return read_uuid(digest.hex())


class ItemIds:
    """Gives out ids in the order of the log: what the model calls it where that is free, else with a number behind it."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._messages = 0
        self._thoughts = 0

    def message(self) -> str:
        self._messages += 1
        return self._take(f"msg_{self._messages}")

    def reasoning(self) -> str:
        self._thoughts += 1
        return self._take(f"rs_{self._thoughts}")

    def call(self, call_id: str) -> str:
        return self._take(call_id)

    def _take(self, wanted: str) -> str:
        found, number = wanted, 1
        while found in self._used:
            number += 1
            found = f"{wanted}-{number}"
        self._used.add(found)
        return found
