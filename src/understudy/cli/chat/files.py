"""What is offered while one types: slash commands at the beginning, the user's own among them, and after `@` the files that the
agent may read, as the tools for listing files see them.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from understudy.cli.chat.typed import SLASH_NAMES, SLASHES, Slash
from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.places.reading import KERNEL, NotForModels, ReadLimits, Unreadable
from understudy.places.tree import Tree

MOST_FILES = 20_000
MOST_SECONDS = 3.0
FRESH_SECONDS = 5.0


Found = TypeVar("Found")


class Search(Generic[Found]):
    """Looks on a thread for which nobody waits at the end, because a disk may hang. What was found counts for a few seconds."""

    def __init__(self, prepare: Callable[[], Callable[[], Sequence[Found]]]) -> None:
        """`prepare`: called here, it returns what is called on the thread."""
        self._prepare = prepare
        self._found: Sequence[Found] = ()
        self._at = float("-inf")
        self._looking: asyncio.Future[None] | None = None

    async def found(self) -> Sequence[Found]:
        if time.monotonic() - self._at > FRESH_SECONDS:
            await self._look()
        return self._found

    async def _look(self) -> None:
        if self._looking is None:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()
            self._looking = done
            find = self._prepare()

            def finish(found: Sequence[Found]) -> None:
                self._found, self._at, self._looking = found, time.monotonic(), None
                if not done.done():
                    done.set_result(None)

            def look() -> None:
                found = find()
                try:
                    loop.call_soon_threadsafe(finish, found)
                except RuntimeError:
                    return  # the chat is over

            threading.Thread(target=look, daemon=True).start()
        await asyncio.shield(self._looking)


class Files:
    def __init__(self, config: Config) -> None:
        self._search = Search(lambda: partial(find_files, config))

    async def matching(self, typed: str, most: int) -> Sequence[str]:
        """The best matches first: names that begin so, then those that contain it, then those with its letters in order."""
        wanted = typed.lower()
        found = await self._search.found()
        ranked = [(rank, len(path), path) for path in found if (rank := _rank(path.lower(), wanted)) is not None]
        return [path for _, _, path in sorted(ranked)[:most]]


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


MOST_OFFERED = 40
_FILE = re.compile(r"(?:^|(?<=[\s(\"']))@([^\s@]*)$")


class ChatCompleter(Completer):
    def __init__(self, files: Callable[[], Files], own: Callable[[], Callable[[], Sequence[Slash]]]) -> None:
        """`own`: prepares a search for the commands and skills on disk that can be called here."""
        self._files = files
        self._own = Search(own)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # another search is in progress

    async def get_completions_async(self, document: Document, complete_event: CompleteEvent) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if before.startswith("/") and not any(blank in before for blank in " \n"):
            async for slash in self._slashes(before[1:].casefold()):
                yield Completion(f"/{slash.name} ", -len(before), display=f"/{slash.name}", display_meta=slash.about)
            return
        if (typed := _FILE.search(before)) is None:
            return
        for path in await self._files().matching(typed[1], MOST_OFFERED):
            text = f'@"{path}"' if " " in path else f"@{path}"
            yield Completion(text if path.endswith("/") else text + " ", -len(typed[1]) - 1, display=path)

    async def _slashes(self, typed: str) -> AsyncGenerator[Slash, None]:
        """Those of the chat first: they are offered before the disk has answered, and their names belong to them."""
        for slash in SLASHES:
            if slash.name.startswith(typed):
                yield slash
        offered = 0
        for own in await self._own.found():
            if offered < MOST_OFFERED and own.name.casefold().startswith(typed) and own.name.casefold() not in SLASH_NAMES:
                offered += 1
                yield own


def completes(document: Document) -> bool:
    """Whether there may be something to complete at the cursor."""
    before = document.text_before_cursor
    return (before.startswith("/") and not any(blank in before for blank in " \n")) or _FILE.search(before) is not None
