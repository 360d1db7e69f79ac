"""Standard error of `exec` that nobody reads: nothing waits for it, and what is kept of it has a bound."""

import re
import subprocess
import sys

from tests.cli.program import LONGEST
from understudy.cli.exec.patient_errors import MOST_WAITING

# Tells on standard output how far it is; the parent decides when standard error is read.
PROGRAM = """
import asyncio, sys
from understudy.cli.exec.patient_errors import patient_errors
from understudy.cli.streams import prepare_streams

async def main():
    async with patient_errors() as errors:
        for number in range({lines}):
            sys.stderr.write(f"line {{number:08}} ")
            sys.stderr.write({rest!r})
        sys.stderr.write("half a line")
        print("told", flush=True)
        await errors.taken()
        sys.stderr.write("the end\\n")
        await errors.taken()

prepare_streams()
asyncio.run(main())
"""
LINE = 100  # bytes


def told(lines: int) -> bytes:
    """All that comes out of standard error, which is read only once everything was written to it."""
    rest = "x" * (LINE - len("line 00000000 \n")) + "\n"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(lines=lines, rest=rest)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"told\n"
        _, err = process.communicate(timeout=LONGEST)
    finally:
        process.kill()
        process.communicate(timeout=LONGEST)
    assert process.returncode == 0, err[-2000:]
    return err


def numbers(text: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"line (\d{8}) x+\n", text)]


def test_what_nobody_has_read_yet_is_kept_up_to_a_bound() -> None:
    lines = MOST_WAITING // LINE - 1
    err = told(lines)
    assert numbers(err) == list(range(lines))
    assert err.endswith(b"x\nhalf a linethe end\n")


def test_what_goes_beyond_the_bound_is_left_out_and_said_to_be() -> None:
    lines = 3 * MOST_WAITING // LINE
    err = told(lines)
    kept, left_out, after = re.split(rb"understudy: (\d+) bytes were left out here, because nobody read them\n", err)
    if kept.endswith(b" \n"):  # it is in the middle of a line, and has ended it
        kept = kept[:-1]
    assert MOST_WAITING <= len(kept) < MOST_WAITING + 200_000  # a pipe takes some at once
    assert numbers(kept) == list(range(len(kept) // LINE))
    assert after == b"the end\n"
    assert len(kept) + int(left_out) == lines * LINE + len("half a line")
