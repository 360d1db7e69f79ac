"""Changes files: a patch is checked, judged and perhaps asked about before the first file is touched, and then applied as a
whole."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from understudy.errors import PatchError
from understudy.places.judging import Placement
from understudy.policy.decide import PROTECTED_REASON, PatchFacts, Verdict, decide_patch
from understudy.policy.words import script_of
from understudy.protocol.records import DiffChanged, PatchApprovalAsked, PatchEnded, PatchStarted
from understudy.text import in_ticks, quote_command
from understudy.tools.acts.dependencies import identities, locked
from understudy.tools.acts.looking import unsaved_in_patch, unsaved_texts
from understudy.tools.calls import ToolOutput
from understudy.tools.host import PLANS, ToolHost
from understudy.tools.output import model_text
from understudy.tools.patch.door import Masked
from understudy.tools.patch.placement import classify_targets
from understudy.tools.patch.plan import Applied, PatchPlan, Unsaved, apply_plan, plan_patch, plan_replacement
from understudy.tools.patch.replacing import ReplaceOperation

T = TypeVar("T")
WAIT_TO_CHANGE = 60.0  # seconds
MAY_NOT_CHANGE = (
    "patch rejected: a command that the user approved is running outside the sandbox, and the patch would change what it needs."
    " Try again when that has ended"
)
APPROVED = "the user approved a change of a file that it was kept from"
PATCHED = "a patch changed a file that it was kept from"
_MOST_NAMED, _NAME_LENGTH = 3, 80
LARGE_PATCH = 256 * 1024  # a larger patch is handled on a thread, so that the event loop need not wait


async def apply_patch(host: ToolHost, call_id: str, body: str, base: str, *, places_hold: bool = False) -> ToolOutput:
    """`places_hold`: the caller has just checked that the pinned places are unchanged."""
    if not places_hold and (complaint := host.settings.places.complaint()) is not None:
        return ToolOutput(f"error: {complaint}", success=False)
    large = len(body) > LARGE_PATCH
    unsaved: Unsaved = {}
    if host.unsaved is not None:
        unsaved = await unsaved_in_patch(host, body, base)
    return await _change(host, call_id, large, lambda: plan_patch(body, base, host.settings.places, unsaved))


async def edit_file(host: ToolHost, call_id: str, operation: ReplaceOperation) -> ToolOutput:
    """Treated like a patch in all but its form: judged, asked about, recorded and shown."""
    settings = host.settings
    if (complaint := settings.places.complaint()) is not None:
        return ToolOutput(f"error: {complaint}", success=False)
    unsaved: Unsaved = {}
    if host.unsaved is not None:
        unsaved = await unsaved_texts(host, (operation.path,))
    return await _change(host, call_id, True, lambda: plan_replacement(operation, settings.cwd, settings.places, unsaved))


async def _change(host: ToolHost, call_id: str, large: bool, planned: Callable[[], PatchPlan]) -> ToolOutput:
    if host.settings.plans:
        return ToolOutput(f"patch rejected: {PLANS}", success=False)
    try:
        plan = await _off_loop(large, planned)
    except Masked as error:
        return ToolOutput(f"patch rejected: {PROTECTED_REASON}: {error}", success=False)
    except PatchError as error:
        return ToolOutput(f"error: {error}", success=False)
    places = classify_targets(plan, host.settings.places)
    verdict = decide_patch(_facts(plan, places, host))
    if verdict.action == "deny":
        return ToolOutput(f"patch rejected: {verdict.reason}{_opening(places, verdict)}", success=False)
    asked = verdict.action == "ask"
    if asked:
        answer = await host.ask(_question(call_id, plan, places, _reason(verdict, plan, host)))
        if answer.decision == "denied":
            return ToolOutput(answer.refusal("patch"), success=False)
    folders = identities(os.path.dirname(edit.spot.real) for edit in plan.edits)
    async with locked(host.settings.state, folders, alone=False, seconds=WAIT_TO_CHANGE, otherwise=MAY_NOT_CHANGE):
        host.record(PatchStarted(call_id, plan.changes, auto_approved=not asked))
        await host.committed()
        await host.sandbox.end_covering(plan.targets, APPROVED if asked else PATCHED)
        return await _apply(call_id, plan, host, large)


def _opening(places: tuple[Placement, ...], verdict: Verdict) -> str:
    """How the user can allow writing such files without a question."""
    if verdict.reason != PROTECTED_REASON:
        return ""
    why = next((place.reason for place in places if place.place == "protected"), "")
    return (
        f": {why}. Only the user can open it, in the list `protect` under [understudy.sandbox] of the configuration" if why else ""
    )


def _facts(plan: PatchPlan, places: tuple[Placement, ...], host: ToolHost) -> PatchFacts:
    settings = host.settings
    return PatchFacts(
        settings.approval_policy,
        settings.sandbox_mode,
        outside=any(place.place == "outside" for place in places),
        protected=any(place.place in ("protected", "masked") for place in places),
        empty=plan.is_empty,
        targets=plan.targets,
        project=settings.roots,
        rules=settings.rules,
    )


def _reason(verdict: Verdict, plan: PatchPlan, host: ToolHost) -> str | None:
    reason = None if verdict.rule == "untrusted" else verdict.reason  # it asks about every patch
    return "; ".join(filter(None, (reason, _what_a_yes_ends(plan, host)))) or None


def _what_a_yes_ends(plan: PatchPlan, host: ToolHost) -> str | None:
    """Commands of other callers' conversations are not named."""
    covered = host.sandbox.covering(plan.targets)
    if not covered:
        return None
    named = [_shortened(each.argv) if each.owner == host.owner else "one of another caller" for each in covered[:_MOST_NAMED]]
    more = [f"{len(covered) - _MOST_NAMED} more"] if len(covered) > _MOST_NAMED else []
    plural = len(covered) > 1
    told = f"a yes ends {'commands that run' if plural else 'a command that runs'} and {'are' if plural else 'is'} kept from this"
    return f"{told}: {', '.join((*named, *more))}"


def _shortened(argv: tuple[str, ...]) -> str:
    """Its script, as lists show it, or all its words."""
    text = " ".join((script_of(argv) or quote_command(argv)).split())
    return in_ticks(text if len(text) <= _NAME_LENGTH else f"{text[:_NAME_LENGTH]}…")


def _question(call_id: str, plan: PatchPlan, places: tuple[Placement, ...], reason: str | None) -> PatchApprovalAsked:
    shown = [(edit.spot.shown, place.place) for edit, place in zip(plan.edits, places, strict=True)]  # as `changes` spells them
    outside = tuple(path for path, place in shown if place == "outside")
    protected = tuple(path for path, place in shown if place == "protected")
    return PatchApprovalAsked(call_id, plan.changes, reason, outside, protected, plan.overwrites)


async def _apply(call_id: str, plan: PatchPlan, host: ToolHost, large: bool) -> ToolOutput:
    started = asyncio.get_running_loop().time()
    host.diff.before(plan)
    if host.unsaved is not None:
        for edit in plan.edits:
            host.unsaved.note_on_disk(edit.spot.real, None if edit.before is None else edit.before.data)
    applying = asyncio.ensure_future(_off_loop(large, lambda: apply_plan(plan)))
    try:
        await asyncio.shield(applying)  # all or nothing: an interrupt waits until the patch is applied and recorded
    except asyncio.CancelledError:
        await asyncio.wait([applying])
        _record_outcome(call_id, plan, host, applying)
        raise
    except PatchError:
        pass
    error = applying.exception()
    _record_outcome(call_id, plan, host, applying)
    seconds = asyncio.get_running_loop().time() - started
    if error is None:
        return ToolOutput(model_text(plan.summary + _note_unsaved(plan), 0, seconds))
    return ToolOutput(model_text(f"{error}\n", 1, seconds), success=False)


def _note_unsaved(plan: PatchPlan) -> str:
    if not plan.unsaved:
        return ""
    return f"The user had not saved {', '.join(plan.unsaved)} in the editor: the file has their changes and yours now.\n"


def _record_outcome(call_id: str, plan: PatchPlan, host: ToolHost, applying: "asyncio.Future[Applied]") -> None:
    error = applying.exception()
    if error is not None and not isinstance(error, PatchError):
        raise error
    if error is None:
        applied = applying.result()
        host.record(PatchEnded(call_id, plan.summary, "", success=True, files=applied.files, folders=applied.folders))
    else:
        host.record(PatchEnded(call_id, "", f"{error}\n", success=False))
    diff = host.diff.news()
    if diff is not None:
        host.record(DiffChanged(diff))


async def _off_loop(large: bool, work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work) if large else work()
