"""Guesses which commands need the network, by their words or by their error messages.

Only for hints: nothing is decided by it.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping

from understudy.policy.words import Words, names, script_of

HOW_TO_ALLOW = (
    'The user can allow it: `network = "on"` under `[understudy.sandbox]` for all commands, or in a rule of `[[policy.rules]]`'
    " that allows this one."
)

# What programs and libraries print when no name can be resolved and nothing can be reached.
_SAID_WITHOUT = (
    "eai_again",
    "enetunreach",
    "enotfound",
    "could not resolve",
    "couldn't resolve",
    "dns error",
    "failed to lookup address",
    "name or service not known",
    "name resolution",  # "temporary failure in name resolution"
    "network is unreachable",
    "nodename nor servname",
    "no such host",
    "temporary failure resolving",
    "unable to resolve host",
    "unknownhostexception",
)
_ANY = names("")  # for programs that always need it
_NODE = names("install i ci add update upgrade up view info outdated audit publish dlx create")
_PYTHON = names("install download wheel")
_SYSTEM = names("install update upgrade dist-upgrade full-upgrade download add search")
_PROGRAMS: Mapping[str, frozenset[str]] = {
    "apk": _SYSTEM,
    "apt": _SYSTEM,
    "apt-get": _SYSTEM,
    "brew": _SYSTEM,
    "bun": _NODE,
    "bundle": names("install update"),
    "cargo": names("add fetch install publish search update"),
    "composer": names("install require update"),
    "conda": names("create install search update"),
    "curl": _ANY,
    "dnf": _SYSTEM,
    "docker": names("pull push login"),
    "gem": names("install update fetch push"),
    "gh": _ANY,
    "git": names("clone fetch ls-remote pull push"),
    "go": names("get install"),
    "npm": _NODE,
    "pip": _PYTHON,
    "pip3": _PYTHON,
    "pipx": names("install run upgrade"),
    "pnpm": _NODE,
    "poetry": names("add install lock update"),
    "uv": names("add lock sync"),
    "wget": _ANY,
    "yarn": _NODE,
    "yum": _SYSTEM,
}
_BEFORE = names("command env exec nice nohup stdbuf sudo time timeout")  # programs that run another program
_WITHOUT = names("--help --no-index --offline --version -h -V")  # such a call needs no network
_NEAR = re.compile(r"\b(?:localhost|127\.0\.0\.1|file://)|\[::1\]")
_PARTS = re.compile(r"[;&|\n(){}]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_LONGEST = 10_000


def says_no_network(output: str) -> bool:
    text = output.lower()
    return any(said in text for said in _SAID_WITHOUT)


def network_user(argv: Words) -> str | None:
    """The first command that needs the network: its program and subcommand, as in `npm install`."""
    return next((found for words in _commands(argv) if (found := _need_of(words)) is not None), None)


def _commands(argv: Words) -> Iterator[list[str]]:
    script = script_of(argv)
    if script is None:
        yield list(argv)
        return
    for part in _PARTS.split(script[:_LONGEST]):
        yield part.split()


def _need_of(words: list[str]) -> str | None:
    words = _bare(words)
    if not words or _WITHOUT.intersection(words):
        return None
    program = posixpath.basename(words[0])
    if program.startswith("python") and words[1:3] == ["-m", "pip"]:
        program, words = "pip", words[2:]
    if program == "uv" and words[1:2] == ["pip"]:
        program, words = "uv pip", words[1:]
    asked = _PYTHON if program == "uv pip" else _PROGRAMS.get(program)
    if asked is None:
        return None
    if not asked:
        return None if len(words) < 2 or any(_NEAR.search(word) for word in words) else program
    action = next((word for word in words[1:] if word in asked), None) if program == "git" else _action(words)
    return f"{program} {action}" if action in asked else None


def _action(words: list[str]) -> str | None:
    """The first word that is not an option."""
    return next((word for word in words[1:] if not word.startswith("-")), None)


def _bare(words: list[str]) -> list[str]:
    """The words without those that only say how to run the command."""
    while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] in _BEFORE or re.fullmatch(r"-\S+|\d+[smh]?", words[0])):
        words = words[1:]
    return words
