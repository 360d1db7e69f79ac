"""`understudy apply-patch`: applies a patch from standard input to the files here. The user does it, so no policy is asked."""

import os
import sys
from argparse import Namespace

import msgspec

from understudy.errors import BadRequest, PatchError
from understudy.text import strip_terminal_escapes
from understudy.tools.patch.grammar import PatchSyntaxError
from understudy.tools.patch.plan import apply_plan, plan_patch


class CommandOutcome(msgspec.Struct, frozen=True):
    exit_code: int
    stdout: str = ""
    stderr: str = ""


def run_apply_patch(text: str, cwd: str) -> CommandOutcome:
    """Apply the patch to the files below `cwd`: all of it, or nothing, with the reason."""
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


def run(options: Namespace) -> int:
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"the patch is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise BadRequest("there is no patch on standard input")
    outcome = run_apply_patch(text, os.getcwd())
    sys.stdout.write(_safe(outcome.stdout, sys.stdout.isatty()))
    sys.stderr.write(_safe(outcome.stderr, sys.stderr.isatty()))
    return outcome.exit_code


def _safe(text: str, is_terminal: bool) -> str:
    return strip_terminal_escapes(text) if is_terminal else text
