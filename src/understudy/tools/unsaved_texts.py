"""The editors that have a conversation open, and what is known of the files in them.

Which files they may be asked for is judged in `acts/looking.py`.
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
        """The text of the file as the editor has it; None where it does not say so soon, or the text is too long."""
        ...


class UnsavedTexts:
    """Of one conversation."""

    def __init__(self) -> None:
        self._editors: list[Editor] = []
        self._versions: dict[str, dict[bytes, None]] = {}  # digests of what the disk is known to have held, by real path
        self.likely: dict[str, None] = {}  # real paths that were unsaved, or that the user has pointed at: searches ask for these

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
        """The disk holds this, or held it before we changed it."""
        if data is None:
            return
        versions = self._versions.pop(path, {})
        self._versions[path] = versions
        _push(versions, _digest(data.decode(errors="replace")), MOST_VERSIONS)
        while len(self._versions) > MOST_PATHS:
            del self._versions[next(iter(self._versions))]

    def is_outdated(self, path: str, text: str) -> bool:
        """The editor has what was on the disk earlier: it has not noticed a change yet, and has nothing to save."""
        return _digest(text) in self._versions.get(path, {})


def normal(text: str) -> str:
    """Editors keep lines: they have their own line ends, and many do not tell how the last one ends."""
    return text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").rstrip("\n")


def as_file(text: str, on_disk: str) -> str:
    """An editor's text as the file would hold it once it is saved: with the file's own mark, line ends and last line end."""
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
    """As the newest."""
    kept.pop(item, None)
    kept[item] = None
    while len(kept) > most:
        del kept[next(iter(kept))]
