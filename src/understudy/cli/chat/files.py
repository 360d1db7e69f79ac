"""The files that `@` offers: those that the agent may read, as the tools for listing files see them.

Completes while typing: a slash command at the beginning, a file after `@`.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from understudy.cli.chat.typed import SLASHES
from understudy.config.model import Config
from understudy.config.sandbox import places_of
from understudy.places.reading import KERNEL, NotForModels, ReadLimits, Unreadable
from understudy.places.tree import Tree

MOST_FILES = 20_000
MOST_SECONDS = 3.0
FRESH_SECONDS = 5.0


class Files:
    """Searches on a thread for which nobody waits at the end, because a disk may hang."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._found: list[str] = []
        self._at = float("-inf")
        self._looking: asyncio.Future[None] | None = None

    async def matching(self, typed: str, most: int) -> Sequence[str]:
        """The best matches first: names that begin so, then those that contain it, then those with its letters in order."""
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


MOST_OFFERED = 40
_FILE = re.compile(r"(?:^|(?<=[\s(\"']))@([^\s@]*)$")


class ChatCompleter(Completer):
    def __init__(self, files: Callable[[], Files]) -> None:
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # another search is in progress

    async def get_completions_async(self, document: Document, complete_event: CompleteEvent) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if before.startswith("/") and not any(blank in before for blank in " \n"):
            for slash in SLASHES:
                if slash.name.startswith(before[1:].lower()):
                    yield Completion(f"/{slash.name} ", -len(before), display=f"/{slash.name}", display_meta=slash.about)
            return
        if (typed := _FILE.search(before)) is None:
            return
        for path in await self._files().matching(typed[1], MOST_OFFERED):
            text = f'@"{path}"' if " " in path else f"@{path}"
            yield Completion(text if path.endswith("/") else text + " ", -len(typed[1]) - 1, display=path)


def completes(document: Document) -> bool:
    """Whether there may be something to complete at the cursor."""
    before = document.text_before_cursor
    return (before.startswith("/") and not any(blank in before for blank in " \n")) or _FILE.search(before) is not None
