"""Recognizes commands that call apply_patch. Nothing else in the command line may get lost.

A script counts only if it is exactly one `apply_patch` with a here-document, after at most one `cd DIR &&`. A script that does more
is an ordinary command, and its shell will report that there is no apply_patch.
"""

import posixpath
import re
from collections.abc import Sequence

import msgspec

from .grammar import BEGIN, WHITESPACE

_NAMES = ("apply_patch", "applypatch")
_SHELLS = ("bash", "zsh", "sh")
_FLAGS = ("-lc", "-c")

HOW_TO_CALL = 'Call it as ["apply_patch", "*** Begin Patch\\n…\\n*** End Patch\\n"]'

# Words that mean the same to a shell and to us: without expansions, escapes or globs.
_CALL = r"""
    [ \t\n]*
    (?:
        cd [ \t]+
        (?! ['"]? [-+] )  # options, and places on the directory stack
        (?: (?P<bare>[\w./,:@%][\w./,:=@%+-]*) | '(?P<raw>[^'\n]+)' | "(?P<quoted>[^"\\$`\n!]+)" )
        [ \t]* && [ \t\n]*
    )?
    (?: apply_patch | applypatch ) [ \t]*
    << [ \t]* (?: (?P<open>\w[\w.-]*) | '(?P<single>\w[\w.-]*)' | "(?P<double>\w[\w.-]*)" ) [ \t]*
    \n
    """


class PatchInvocation(msgspec.Struct, frozen=True):
    body: str
    base: str  # the directory its paths are relative to


class PatchMistake(msgspec.Struct, frozen=True):
    """The command looks like a patch but is none; the model is told so, and nothing is run."""

    reason: str


def recognise(argv: Sequence[str], cwd: str) -> PatchInvocation | PatchMistake | None:
    """None for an ordinary command."""
    if not argv:
        return None
    if argv[0] in _NAMES:
        if len(argv) == 2:
            return PatchInvocation(argv[1], cwd)
        return PatchMistake(f"apply_patch takes exactly one argument, the patch; it was given {len(argv) - 1}. {HOW_TO_CALL}")
    if _is_body(argv[0]):
        return PatchMistake(f"this is a patch, not a command. {HOW_TO_CALL}")
    if len(argv) == 3 and posixpath.basename(argv[0]) in _SHELLS and argv[1] in _FLAGS:
        return _from_script(argv[2], cwd)
    return None


def _from_script(script: str, cwd: str) -> PatchInvocation | PatchMistake | None:
    if _is_body(script):
        return PatchMistake(f"this is a patch, not a shell script. {HOW_TO_CALL}")
    if not any(name in script for name in _NAMES):
        return None
    call = re.match(_CALL, script, re.VERBOSE)  # compiled at its first use, because that takes longer than importing this module
    if call is None:
        return None
    delimiter: str = call["open"] or call["single"] or call["double"]
    end = re.compile(f"^{re.escape(delimiter)}$", re.MULTILINE).search(script, call.end())
    if end is None:
        return PatchMistake(f"the here-document is not closed: no line is exactly {delimiter}")
    if script[end.end() :].strip(" \t\n"):
        return None
    body = script[call.end() : end.start()]
    if call["open"] and re.search(r"[$`\\]", body):
        return PatchMistake(
            "a shell would expand the `$`, backticks and backslashes of this patch, since the delimiter of the here-document is "
            f"not quoted. Write apply_patch <<'{delimiter}'"
        )
    directory: str = call["bare"] or call["raw"] or call["quoted"] or ""
    return PatchInvocation(body, posixpath.join(cwd, directory) if directory else cwd)


def _is_body(text: str) -> bool:
    return text.lstrip(WHITESPACE).startswith(BEGIN)
