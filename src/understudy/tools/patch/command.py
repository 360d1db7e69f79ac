"""`apply-patch` as a command: a patch in, what to print and the exit code out. The user's own hand: no policy is asked."""

import msgspec

from understudy.errors import PatchError

from .grammar import PatchSyntaxError
from .plan import apply_plan, plan_patch


class CommandOutcome(msgspec.Struct, frozen=True):
    exit_code: int
    stdout: str = ""
    stderr: str = ""


def run_apply_patch(text: str, cwd: str) -> CommandOutcome:
    """Apply the patch to the files under `cwd`: all of it, or nothing and the reason."""
    try:
        plan = plan_patch(text, cwd)
        if plan.is_empty:
            return CommandOutcome(1, stderr="No files were modified.\n")
        apply_plan(plan)
    except PatchSyntaxError as error:
        return CommandOutcome(1, stderr=f"{error.shell_text}\n")
    except PatchError as error:
        return CommandOutcome(1, stderr=f"{error}\n")
    return CommandOutcome(0, stdout=plan.summary)
