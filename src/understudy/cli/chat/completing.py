"""What can be completed while typing: a slash command at the beginning, a file behind `@`."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from understudy.cli.chat.files import Files
from understudy.cli.chat.slash import SLASHES

MOST_OFFERED = 40
_FILE = re.compile(r"(?:^|(?<=[\s(\"']))@([^\s@]*)$")


class ChatCompleter(Completer):
    def __init__(self, files: Callable[[], Files]) -> None:
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()  # the other one does it

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
