"""The command that checks what was written."""

import argparse

from understudy.cli.arguments.adding import ID, CommandParsers, add, add_json

_DIGITS = 64


def add_verify(commands: CommandParsers) -> None:
    verify = add(
        commands,
        "verify",
        "verify",
        "check that conversations are what was written, by their digests and seals",
        more="The exit code is 0 if they are, 1 if something is broken, 2 for an unknown id.",
    )
    verify.add_argument("id", nargs="?", metavar="ID", help=f"{ID} (default: all)")
    verify.add_argument("--head", type=_digest, metavar="DIGEST", help="a digest noted earlier: one of its records must have it")
    verify.add_argument(
        "--seal",
        action="store_true",
        help="seal what is whole but not sealed with this machine's key, for example after moving a store",
    )
    verify.add_argument(
        "--page", metavar="FILE", help="instead: check that a page of `export --format html` shows what the store has"
    )
    add_json(verify, "each conversation as a JSON object")


def _digest(text: str) -> str:
    digits = text.lower()
    if len(digits) != _DIGITS or any(digit not in "0123456789abcdef" for digit in digits):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a digest: {_DIGITS} hexadecimal digits, as `understudy verify` prints them"
        )
    return digits
