"""Where the files of a patch stand. Judges paths only and decides nothing: policy does."""

from understudy.places.judging import Placement
from understudy.places.places import Places

from .plan import PatchPlan
from .repositories import planted


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
