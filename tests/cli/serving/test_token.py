"""`understudy token add`: what a token's rights and roots come to, said where they are given."""

import pytest

from tests.cli.program import Program

NOTE = "--root does not hold an approved command: it runs outside the sandbox, with all rights of the account that runs the server"


@pytest.mark.parametrize(
    ("flags", "is_told"),
    [
        (("--root", "."), True),
        (("--root", ".", "--rights", "run,read", "--others", "approve"), True),
        (("--root", ".", "--rights", "run,read"), False),
        ((), False),
    ],
)
def test_a_root_beside_the_right_to_approve_is_told_of_there_and_then(
    program: Program, flags: tuple[str, ...], is_told: bool
) -> None:
    ended = program.call("token", "add", "ann", *flags)
    assert (ended.code, len(ended.out.split())) == (0, 1), "stdout has the token, and nothing else"
    assert (NOTE in ended.err) is is_told


@pytest.mark.parametrize(
    ("flags", "rights"),
    [((), ["run", "approve", "read"]), (("--rights", "run,read,budget"), ["run", "read", "budget"])],
)
def test_the_right_to_raise_budgets_is_given_by_name_only(program: Program, flags: tuple[str, ...], rights: list[str]) -> None:
    program.call("token", "add", "ann", *flags)
    [row] = program.json("token", "list", "--json")
    assert row["rights"] == rights
