"""The editors that have a conversation open, and what is known about the files in them.

`acts/looking.py` judges which files they may be asked for.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol, TypeVar

MOST_PATHS = 512  # that are remembered
MOST_VERSIONS = 16  # of each

_BYTE_ORDER_MARK = "\ufeff"
T = TypeVar("T")


class Editor(Protocol):
    async def text_of(self, path: str) -> str | None:
        """The text of the file in the editor; None if it does not answer soon, or the text is too long."""
        ...


class UnsavedTexts:
    """Those of one conversation."""

    def __init__(self) -> None:
        self._editors: list[Editor] = []
        self._versions: dict[str, dict[bytes, None]] = {}  # digests of contents that the disk had, by real path
        self.likely: dict[str, None] = {}  # real paths that were unsaved, or that the user pointed at: searches ask about these

    @property
    def editor(self) -> Editor | None:
        """The one that came last."""
        return self._editors[-1] if self._editors else None

    def lend(self, editor: Editor) -> Callable[[], None]:
        """Use it until the returned function is called."""
        self._editors.append(editor)

        def take_back() -> None:
            if editor in self._editors:
                self._editors.remove(editor)

        return take_back

    def note_likely(self, path: str) -> None:
        _push(self.likely, path, MOST_PATHS)

    def note_on_disk(self, path: str, data: bytes | None) -> None:
        """The disk contains this, or did before we changed it."""
        if data is None:
            return
        versions = self._versions.pop(path, {})
        self._versions[path] = versions
        _push(versions, _digest(data.decode(errors="replace")), MOST_VERSIONS)
        while len(self._versions) > MOST_PATHS:
            del self._versions[next(iter(self._versions))]

    def is_outdated(self, path: str, text: str) -> bool:
        """Whether the editor has an earlier content of the disk: it has not noticed a change yet, and has nothing to save."""
        return _digest(text) in self._versions.get(path, {})


def normal(text: str) -> str:
    """For comparing: editors have line ends of their own, and many do not tell how the last line ends."""
    return text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").rstrip("\n")


def as_file(text: str, on_disk: str) -> str:
    """An editor's text as the file would contain it once saved: with the file's own mark, line ends and last line end."""
    made = text.removeprefix(_BYTE_ORDER_MARK)
    with_returns = "\r\n" in on_disk and on_disk.count("\n") == on_disk.count("\r\n")
    if with_returns and "\r\n" not in made:
        made = made.replace("\n", "\r\n")
    if on_disk.endswith("\n") and made and not made.endswith("\n"):
        made += "\r\n" if with_returns else "\n"
    return _BYTE_ORDER_MARK + made if on_disk.startswith(_BYTE_ORDER_MARK) else made


def _digest(text: str) -> bytes:
    return blake2b(normal(text).encode(errors="replace"), digest_size=16).digest()


def _push(kept: dict[T, None], item: T, most: int) -> None:
    """Add as the newest; drop the oldest beyond `most`."""
    kept.pop(item, None)
    kept[item] = None
    while len(kept) > most:
        del kept[next(iter(kept))]
