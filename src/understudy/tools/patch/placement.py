"""In which places the files of a patch are. Only judges paths; policy decides.

Also finds repositories that a patch would create: git takes any folder with HEAD, objects and refs for one, and obeys its config.
The user's own `git status` in there would then run a program of the model's choice.
"""

import os
import posixpath
from collections.abc import Iterable

from understudy.places.judging import Placement
from understudy.places.places import Places

from .plan import PatchPlan

_PARTS = ("HEAD", "objects", "refs")
_OF_A_REPOSITORY = (*_PARTS, "config", "hooks", "commondir")


def planted(targets: Iterable[str]) -> frozenset[str]:
    """The written paths (real and absolute) that would be part of a repository without a `.git`."""
    written = tuple(targets)
    found: set[str] = set()
    for target in written:
        for folder in _folders(target):
            if all(_will_be_there(posixpath.join(folder, part), written) for part in _PARTS):
                found.add(target)
    return frozenset(found)


def _folders(target: str) -> Iterable[str]:
    """Folders in which the path would have the name of a repository's part. Ignores case, because some file systems do."""
    names = target.split("/")
    for index in range(1, len(names)):
        if names[index].casefold() in {part.casefold() for part in _OF_A_REPOSITORY}:
            yield "/".join(names[:index]) or "/"


def _will_be_there(path: str, written: tuple[str, ...]) -> bool:
    folded = path.casefold()
    return os.path.lexists(path) or any((target.casefold() + "/").startswith(folded + "/") for target in written)


def classify_targets(plan: PatchPlan, places: Places) -> tuple[Placement, ...]:
    """Every target of the plan with its place, in the plan's order."""
    judge = places.judge
    written = [edit.spot.real for edit in plan.edits if edit.after is not None]

    def judged() -> tuple[Placement, ...]:
        repositories = planted(written)
        return tuple(_planted(target) if target in repositories else judge.place(target) for target in plan.targets)

    return places.act(judged)


def _planted(target: str) -> Placement:
    return Placement(target, "protected", f"{target} would be part of a git repository that has no .git")
