"""What a path in a patch names. Links in the directory that the user chose are followed once, here; links in the model's part
never.

The path that is shown is the path that is written, so a path that cannot be shown faithfully is refused.
"""

import os
import posixpath

import msgspec

from understudy.errors import PatchError
from understudy.places.places import Places

_MAX_PATH_BYTES = 4095
_MAX_NAME_BYTES = 255
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LINE_SEPARATORS = frozenset("\u2028\u2029")


class PatchSpot(msgspec.Struct, frozen=True):
    written: str  # as in the patch
    shown: str  # absolute; `..` is kept, as events have always shown it
    real: str  # absolute, without `..`; no part of it may be a link


class Base(msgspec.Struct, frozen=True):
    """Where relative paths start, and the directories below which absolute paths may be written in the user's spelling."""

    real: str
    anchors: tuple[tuple[str, str], ...]  # (as spelled, real), longest first

    def spot(self, written: str) -> PatchSpot:
        """Raises `PatchError` for a path that no file should have."""
        complaint = _complaint(written)
        if complaint:
            raise PatchError(f"{_visible(written)} cannot be patched: {complaint}")
        shown = self._shown(written)
        real = posixpath.normpath(shown)
        if real.startswith("//"):  # POSIX lets two leading slashes be special; here they are not
            real = real[1:]
        return PatchSpot(written, shown, real)

    def _shown(self, written: str) -> str:
        if not written.startswith("/"):
            return posixpath.join(self.real, written)
        for spelled, real in self.anchors:
            if written.startswith(spelled + "/"):
                return real + written[len(spelled) :]
        return _without_system_link(written)


def resolve_base(base: str, places: Places | None = None) -> Base:
    """The folders of `places` may be written in the user's spelling. Raises `PatchError` if `base` is not a directory."""
    pairs = {place.spelled: place.path for place in places.pinned} if places is not None else {}
    spelled = os.path.abspath(base)
    real = pairs.setdefault(spelled, os.path.realpath(base))
    try:
        os.stat(os.path.join(real, ""))
    except OSError as error:
        raise PatchError(f"Failed to enter {base}: {os_text(error)}") from None
    moved = [(spelled, target) for spelled, target in pairs.items() if spelled != target]
    return Base(real, tuple(sorted(moved, key=lambda pair: len(pair[0]), reverse=True)))


def os_text(error: OSError) -> str:
    return f"{error.strerror} (os error {error.errno})"


def _without_system_link(path: str) -> str:
    """`/tmp` and `/var` are links on some systems. They are followed, because the model cannot change the root directory."""
    first, slash, rest = path.lstrip("/").partition("/")
    top = "/" + first
    if slash and first not in ("", ".", "..") and os.path.islink(top):
        return posixpath.join(os.path.realpath(top), rest)
    return path


def _complaint(path: str) -> str | None:
    if not path.strip():
        return "the path is empty"
    if any(ord(character) < 32 or 127 <= ord(character) < 160 or character in _LINE_SEPARATORS for character in path):
        return "the path contains control characters"
    if not _BIDI_CONTROLS.isdisjoint(path):
        return "the path contains characters that reverse the direction of writing"
    if path.endswith("/") or posixpath.basename(path) in (".", ".."):
        return "the path names a directory"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "the path is not UTF-8"
    if size > _MAX_PATH_BYTES:
        return f"the path is {size} bytes long, more than {_MAX_PATH_BYTES}"
    if any(len(name.encode()) > _MAX_NAME_BYTES for name in path.split("/")):
        return f"a name in the path is longer than {_MAX_NAME_BYTES} bytes"
    return None


def _visible(path: str) -> str:
    shortened = path if len(path) <= 200 else path[:200] + "…"
    return "'" + "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in shortened) + "'"
