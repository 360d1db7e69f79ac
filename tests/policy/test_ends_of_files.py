"""`head` and `tail` in old forms, against the real programs: what is spared a question ends, and reads what was judged."""

import itertools
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.policy.threat_cases import FACTS
from understudy.policy.decide import decide_command
from understudy.testing.waiting import WAIT_SECONDS

LETTERS = "bcfFkln5"
FORMS = [
    f"{sign}{number}{''.join(letters)}"
    for sign in "-+"
    for number in ("", "5")
    for length in range(3)
    for letters in itertools.product(LETTERS, repeat=length)
]


def spared(*argv: str) -> bool:
    return decide_command(msgspec.structs.replace(FACTS, argv=argv)).action == "allow"


@pytest.mark.parametrize(
    "line",
    ["tail -5cf f", "tail +5f f", "tail -cf f", "tail -lf f", "tail -bf f", "tail +f f", "tail -f f", "tail -qf f", "tail -F f",
     "tail -n 5 -f f", "tail f -f", "tail --follow f", "tail --retry f", "tail -n5 +5f", "tail -5 -5f f"],
)  # fmt: skip
def test_to_follow_a_file_for_ever_is_not_harmless(line: str) -> None:
    assert not spared(*line.split())


@pytest.mark.parametrize(
    "line",
    ["tail f", "tail -5 f", "tail +5 f", "tail -5c f", "tail -n 5 f", "tail -n +5 f", "tail -c5 f", "tail -qn5 f g", "tail -- f",
     "head f", "head -5 f", "head -5c f", "head -5qv f", "head -n -5 f", "head -c 5 f", "tail ./-f", "tail -n5 src/f"],
)  # fmt: skip
def test_to_read_an_end_of_a_file_is_harmless(line: str) -> None:
    assert spared(*line.split())


@pytest.mark.parametrize("program", ["head", "tail"])
def test_what_is_spared_ends_and_reads_no_other_file(program: str, tmp_path: Path) -> None:
    """A word that the real program takes for options must not make us take the file for an option's value."""
    (tmp_path / "file").write_text("canary " * 3000)
    for form in FORMS:
        inside, outside = spared(program, form, "file"), spared(program, form, "/etc/file")
        if not inside and not outside:
            continue
        done = subprocess.run(
            [program, form, "file"], cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL, timeout=WAIT_SECONDS, check=False
        )
        if outside:
            assert not done.stdout, form
