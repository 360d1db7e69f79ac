"""Where the files of a patch stand. Judges paths only and decides nothing: policy does."""

from understudy.places.judging import Placement
from understudy.places.places import Places

from .plan import PatchPlan


def classify_targets(plan: PatchPlan, places: Places) -> tuple[Placement, ...]:
    """Every target of the plan with its place, in the plan's order."""
    return tuple(places.judge.place(target) for target in plan.targets)
