"""Undoes the patches of a turn. Judged like patches, but nobody is asked, because a person wants it and not the model.

An undo may restore what a patch may change without a question. What a person had to approve is restored only if they did, and only
for a caller who may approve. What policy denies stays as it is.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from understudy.errors import BadRequest, ToolError
from understudy.policy.decide import PatchFacts, decide_patch
from understudy.protocol.records import PatchEnded, PatchStarted
from understudy.protocol.records.files import FileChange, UpdateFile
from understudy.tools.acts.dependencies import identities, locked
from understudy.tools.host import RunsCommands, ToolSettings
from understudy.tools.patch.placement import planted
from understudy.tools.patch.taking_back import DonePatch, Taken, TakingBack, plan_taking_back, take_back

WAIT_TO_CHANGE = 10.0  # seconds
MAY_NOT_CHANGE = (
    "a command that the user approved is running outside the sandbox, and the undo would change what it needs."
    " Try again when that has ended"
)
UNDONE = "changes were taken back at a path that it was kept from"
NOT_DESCRIBED = "the log does not have what the file held before: it was imported, or an earlier version wrote it"
NOT_APPROVED = "this would need an approval: {reason}"


class PatchPair(msgspec.Struct, frozen=True):
    """A patch of the turn in the log; `why` is set if its effect is not known."""

    started: PatchStarted
    ended: PatchEnded
    why: str | None = None


async def undo_patches(
    settings: ToolSettings,
    pairs: Sequence[PatchPair],
    sandbox: RunsCommands,
    *,
    approves: bool,
    begin: Callable[[tuple[str, ...]], Awaitable[None]],
    end: Callable[[Taken], None],
) -> None:
    """`begin` records what will be changed, `end` the outcome. Commands that would lose their protection are ended first. Raises
    `BadRequest`, before any of this, if nothing may be done at all.
    """
    if (complaint := settings.places.complaint()) is not None:
        raise BadRequest(complaint)
    patches = [DonePatch(pair.ended.files or (), pair.ended.folders) for pair in pairs]
    blocked = _not_known(pairs)
    asked = {file.path for pair in pairs if not pair.started.auto_approved for file in pair.ended.files or ()}
    refused = _refusal(settings, patches, asked, approves=approves)
    plan = await asyncio.to_thread(plan_taking_back, patches, refused, settings.places, blocked)
    folders = identities(os.path.dirname(path) for path in plan.paths)
    try:
        async with locked(settings.state, folders, alone=False, seconds=WAIT_TO_CHANGE, otherwise=MAY_NOT_CHANGE):
            await begin(plan.paths)
            await sandbox.end_covering((*plan.paths, *plan.folders), UNDONE)
            await _whole(plan, end)
    except ToolError as error:
        raise BadRequest(str(error)) from error


async def _whole(plan: TakingBack, end: Callable[[Taken], None]) -> None:
    """If it is cancelled, finish it first, so that what was done is on record."""
    taking = asyncio.ensure_future(asyncio.to_thread(take_back, plan))
    try:
        await asyncio.shield(taking)
    except asyncio.CancelledError:
        await asyncio.wait([taking])
        end(taking.result())
        raise
    end(taking.result())


def _not_known(pairs: Sequence[PatchPair]) -> dict[str, str]:
    """Files whose state after a patch is not known."""
    blocked: dict[str, str] = {}
    for pair in pairs:
        why = pair.why or (NOT_DESCRIBED if pair.ended.files is None else None)
        if why is not None:
            for path, change in pair.started.changes.items():
                blocked.update(dict.fromkeys(_touched(path, change), why))
    return blocked


def _touched(path: str, change: FileChange) -> list[str]:
    moved = [change.move_path] if isinstance(change, UpdateFile) and change.move_path else []
    return [os.path.normpath(each) for each in (path, *moved)]


def _refusal(
    settings: ToolSettings, patches: Sequence[DonePatch], asked: set[str], *, approves: bool
) -> Callable[[str], str | None]:
    """`asked`: files about which a person was asked, and said yes."""
    written = {file.path for patch in patches for file in patch.files if file.before}
    in_repositories = planted(written)

    def refused(path: str) -> str | None:
        place = settings.places.judge.place(path)
        protected = place.place == "protected" or path in in_repositories
        if place.place == "masked":
            return place.reason
        verdict = decide_patch(
            PatchFacts(
                settings.approval_policy,
                settings.sandbox_mode,
                outside=place.place == "outside",
                protected=protected,
                targets=(path,),
                project=settings.roots,
                rules=settings.rules,
            )
        )
        if verdict.action == "allow" or (verdict.action == "ask" and approves and (path in asked or verdict.rule == "untrusted")):
            return None
        reason = verdict.reason if place.place == "inside" else place.reason
        return reason if verdict.action == "deny" else NOT_APPROVED.format(reason=reason)

    return refused
