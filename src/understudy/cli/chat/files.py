"""The files that `@` offers: those that the agent may read, as the tools that list files see them."""

import asyncio
import threading
import time
from collections.abc import Sequence

from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.places.reading import NotForModels, ReadLimits
from understudy.places.tree import Tree
from understudy.places.unreadable import KERNEL, Unreadable

MOST_FILES = 20_000
MOST_SECONDS = 3.0
FRESH_SECONDS = 5.0


class Files:
    """Looked for beside, in a thread that nobody waits for at the end: a disk may hang."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._found: list[str] = []
        self._at = float("-inf")
        self._looking: asyncio.Future[None] | None = None

    async def matching(self, typed: str, most: int) -> Sequence[str]:
        """The best first: those whose name begins so, that hold it, that have its letters in order."""
        if time.monotonic() - self._at > FRESH_SECONDS:
            await self._look()
        wanted = typed.lower()
        ranked = [(rank, len(path), path) for path in self._found if (rank := _rank(path.lower(), wanted)) is not None]
        return [path for _, _, path in sorted(ranked)[:most]]

    async def _look(self) -> None:
        if self._looking is None:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()
            self._looking = done

            def finish(found: list[str]) -> None:
                self._found, self._at, self._looking = found, time.monotonic(), None
                if not done.done():
                    done.set_result(None)

            def look() -> None:
                found = find_files(self._config)
                try:
                    loop.call_soon_threadsafe(finish, found)
                except RuntimeError:
                    return  # the chat is over

            threading.Thread(target=look, daemon=True).start()
        await asyncio.shield(self._looking)


def find_files(config: Config) -> list[str]:
    places = places_of(config)
    pins = {place.path: (place.device, place.inode) for place in places.pinned}
    tree = Tree(ReadLimits(places.masks, Unreadable(KERNEL, places.roots), pins))
    deadline = time.monotonic() + MOST_SECONDS
    found: list[str] = []
    try:
        for entry in tree.walk(str(config.cwd)):
            if not entry.is_link and entry.path.isprintable():
                found.append(entry.path + ("/" if entry.is_folder else ""))
            if len(found) >= MOST_FILES or time.monotonic() > deadline:
                break
    except (OSError, NotForModels):
        return found
    return found


def _rank(path: str, wanted: str) -> int | None:
    name = path.rstrip("/").rsplit("/", 1)[-1]
    if path.startswith(wanted):
        return 0
    if name.startswith(wanted):
        return 1
    if wanted in path:
        return 2
    letters = iter(path)
    return 3 if all(letter in letters for letter in wanted) else None
