"""What nobody may read for a model: masked paths, and what is the same file under another name."""

import os
from collections.abc import Iterable

from understudy.places.resolving import is_within

Identity = tuple[int, int]  # device and inode
_MOST_SEARCHED = 100_000  # entries of masked folders that are looked through for a second name of a file


class Masks:
    def __init__(self, paths: Iterable[str]) -> None:
        """Absolute paths; that of a link counts as well as where it leads."""
        self.paths = tuple(dict.fromkeys(each for path in paths for each in (os.path.normpath(path), os.path.realpath(path))))

    def covering(self, path: str) -> str | None:
        """The masked path that an absolute, normal path is, or lies in."""
        return next((masked for masked in self.paths if is_within(path, masked)), None)

    def identities(self) -> set[Identity]:
        """Of what stands at the masked paths now."""
        found: set[Identity] = set()
        for path in self.paths:
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            found.add((status.st_dev, status.st_ino))
        return found

    def may_hold(self, status: os.stat_result) -> bool:
        """Whether a file with several names has, or may have, one of them in a masked folder."""
        if status.st_nlink < 2:
            return False
        searched = 0
        waiting = list(self.paths)
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        searched += 1
                        if searched > _MOST_SEARCHED:
                            return True
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        elif entry.inode() == status.st_ino and entry.stat(follow_symlinks=False).st_dev == status.st_dev:
                            return True
            except OSError:
                continue  # a file, or nothing
        return False
