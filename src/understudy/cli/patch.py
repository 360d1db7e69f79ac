"""`understudy apply-patch`: a patch from standard input, applied to the files here."""

import os
import sys
from argparse import Namespace

from understudy.errors import BadRequest
from understudy.policy.visible import strip_terminal_escapes
from understudy.tools.patch.command import run_apply_patch


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
