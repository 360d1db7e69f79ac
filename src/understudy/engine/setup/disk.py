"""Files on disk that tell the agent how to work, in any place where programs of this kind keep them: in the user's own homes, where
links are followed, and in a project's folders, where links are not followed and nothing counts until the folder is trusted.

The number of files examined is limited, however large the tree is.
"""

import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from understudy.config.home import is_there, state_dir
from understudy.config.model import Config
from understudy.config.project import is_marked_untrusted, project_folders
from understudy.config.trust import OwnFiles, TrustStore, read_own_files
from understudy.errors import ConfigError
from understudy.places.masks import Masks
from understudy.places.places import Places
from understudy.places.reading import NotForModels, read_for_model

logger = logging.getLogger(__name__)

MOST_LOOKED_AT = 1_000  # entries of one folder
MOST_FOLDERS = 256  # below one of them
MOST_TOGETHER = 5_000  # entries of all folders
MOST_DEPTH = 6
MOST_REMEMBERED = 1_024
LARGEST_REMEMBERED = 16 * 1024
MOST_BYTES = 256 * 1024  # largest file that a model gets as a whole
Standing = Literal["counts", "trust", "no"]  # `trust`: it would count if its folder were trusted

_told: set[str] = set()
_known: "OrderedDict[tuple[object, ...], Found]" = OrderedDict()  # contents of files, by their state: most never change


class Found(msgspec.Struct, frozen=True):
    """A file, and why it does not count, if so. The content is there if it may be read."""

    path: str
    relative: str  # below the searched folder
    standing: Standing = "counts"
    why: str = ""
    content: bytes | None = None


class OwnTree(msgspec.Struct, frozen=True):
    """A project folder with files of its own, judged. `files`: those that count, or that were only read for a listing."""

    folder: str
    standing: Standing
    why: str = ""
    files: OwnFiles | None = None


def project_trees(config: Config, names: Sequence[str], *, listing: bool = False) -> list[OwnTree]:
    """Nearest first. `names`: a folder must have one of these. Untrusted folders are read only for a listing."""
    ours = {os.path.realpath(folder) for folder in (config.home, config.claude_home, config.agents_home)}
    folders = [
        folder
        for folder in project_folders(str(config.cwd))
        if any(is_there(path := f"{folder}/{name}") and os.path.realpath(os.path.dirname(path)) not in ours for name in names)
    ]
    if not folders:
        return []
    store = TrustStore(state_dir(config.home) / "trust.json")
    return [_judged(folder, store, config, listing=listing) for folder in folders]


def _judged(folder: str, store: TrustStore, config: Config, *, listing: bool) -> OwnTree:
    judged = store.judge(Path(folder), config.projects)
    if judged.files is not None:
        return OwnTree(folder, "counts", files=judged.files)
    if is_marked_untrusted(f"{folder}/x", config.projects):
        standing, why = "no", "the folder is marked as untrusted"
    elif judged.standing == "changed":
        standing, why = "trust", "its own files have changed since you trusted it"
    else:
        standing, why = "trust", "it is not trusted"
    if not listing:
        return OwnTree(folder, standing, why)
    try:
        why = why.replace("it is", "its folder is")
        return OwnTree(folder, standing, why, read_own_files(Path(os.path.realpath(folder))))
    except ConfigError as error:
        return OwnTree(folder, "no", str(error))


def in_tree(tree: OwnTree, below: str, config: Config) -> Iterator[Found]:
    """The plain files in a subfolder of the tree; links are named and not followed."""
    own = {os.path.realpath(folder) for folder in (config.home, config.claude_home, config.agents_home)}
    if tree.files is None or os.path.realpath(f"{tree.folder}/{below.partition('/')[0]}") in own:
        return
    for path, content in sorted(tree.files.contents.items()):
        if path.startswith(f"{below}/"):
            yield Found(f"{tree.folder}/{path}", path.removeprefix(f"{below}/"), tree.standing, tree.why, content)


def in_home(folder: str, ending: str, masks: Masks, most: int) -> Iterator[Found]:
    """The user's own files whose names end in `ending`. They may be links, but masked places are not read through them.

    A folder that has a file named exactly `ending` is not searched further: what lies below belongs to that file. `most`: bytes
    read of each file.
    """
    waiting = [(folder, 0)]
    seen: set[tuple[int, int]] = set()  # a link may lead back
    looked_at = 0
    while waiting:
        at, depth = waiting.pop(0)
        if len(seen) > MOST_LOOKED_AT + MOST_FOLDERS or looked_at > MOST_TOGETHER:
            tell(f"{folder} has too many files and folders: not all of them are looked at")
            return
        if (names := _names(at, seen)) is None:
            continue
        looked_at += len(names)
        mine = [name for name in names if name.endswith(ending)]
        for name in mine:
            if (found := _read_own(f"{at}/{name}", folder, masks, most)) is not None:
                yield found
        if depth < MOST_DEPTH and ending not in mine:
            waiting += [
                (f"{at}/{name}", depth + 1) for name in names if not name.endswith(ending) and os.path.isdir(f"{at}/{name}")
            ]


def _names(folder: str, seen: set[tuple[int, int]]) -> list[str] | None:
    """Hidden names belong to other programs and are skipped. None for a folder that was visited before."""
    try:
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            return None
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_LOOKED_AT + 1), strict=False)]
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            tell(f"{folder} was not looked at: {error.strerror}")
        return None
    if len(names) > MOST_LOOKED_AT:
        tell(f"{folder} has more than {MOST_LOOKED_AT} entries: not all of them are looked at")
    return sorted(name for name in names[:MOST_LOOKED_AT] if not name.startswith("."))


def _read_own(path: str, folder: str, masks: Masks, most: int) -> Found | None:
    relative = path.removeprefix(f"{folder}/")
    try:
        status = os.stat(path)
        state = (path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, masks.paths, most)
        if (known := _known.get(state)) is not None:
            return known
        found = Found(path, relative, content=read_for_model(path, masks, most))
        if status.st_size <= LARGEST_REMEMBERED:
            _known[state] = found
            if len(_known) > MOST_REMEMBERED:
                _known.popitem(last=False)
        return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotForModels as error:
        why = str(error)
    except OSError as error:
        why = error.strerror or "it cannot be read"
    tell(f"{path} was not read: {why}")
    return Found(path, relative, "no", why)


def may_be_read(path: str, places: Places) -> bool:
    """Whether the user as whom this conversation's commands run may read the file."""
    if places.doer is None:
        return True
    try:
        os.close(places.open_for_model(path))
    except (OSError, NotForModels) as error:
        tell(f"{path} is not used: {error}")
        return False
    return True


def tell(text: str) -> None:
    """Log the text once per process."""
    if text not in _told and len(_told) < MOST_LOOKED_AT:
        _told.add(text)
        logger.warning("%s", text.encode("unicode_escape", "backslashreplace").decode("ascii") if not text.isprintable() else text)


def tell_cut(path: str, most: int) -> None:
    tell(f"{path} is not told as a whole: the instructions of a project may have {most} bytes together (`project_doc_max_bytes`)")
