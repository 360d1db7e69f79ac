"""The words behind a command's name, in the places that each program knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.setup.placeholders import Style, TooLong, Words, fill, named_words

# As a run of Claude Code 2.1.327 filled it.
BODY = r"ALL=<$ARGUMENTS> 0=<$0> 1=<$1> 2=<$2> A0=<$ARGUMENTS[0]> A1=<$ARGUMENTS[1]> esc=<\$1> cost $15 $HOME ${1}"


@pytest.mark.parametrize(
    ("typed", "filled"),
    [
        (
            'one "two words" three',
            'ALL=<one "two words" three> 0=<one> 1=<two words> 2=<three> A0=<one> A1=<two words> esc=<$1> cost $15 $HOME ${1}',
        ),
        ("", "ALL=<> 0=<$0> 1=<$1> 2=<$2> A0=<$ARGUMENTS[0]> A1=<$ARGUMENTS[1]> esc=<$1> cost $15 $HOME ${1}"),
        ("one", "ALL=<one> 0=<one> 1=<$1> 2=<$2> A0=<one> A1=<$ARGUMENTS[1]> esc=<$1> cost $15 $HOME ${1}"),
    ],
)
def test_a_text_that_counts_from_zero_is_filled_as_claude_code_does(typed: str, filled: str) -> None:
    assert fill(BODY, Words(typed, "claude"), 1000) == filled


@pytest.mark.parametrize(
    ("text", "words", "filled"),
    [
        ("fix $1 of $2", Words("12 main", "claude"), "fix 12 of main"),
        ("fix $1, awk '{print $2}'", Words("12", "claude"), "fix 12, awk '{print $2}'"),
        ("issue=<$issue> branch=<$branch>", Words("12", "claude", ("issue", "branch")), "issue=<12> branch=<>"),
        ("in ${CLAUDE_PROJECT_DIR} ${OTHER}", Words("", "claude", (), {"CLAUDE_PROJECT_DIR": "/w"}), "in /w ${OTHER}"),
        ("no place", Words("foo bar", "claude"), "no place\n\nARGUMENTS: foo bar"),
        (r"only \$1", Words("foo", "claude"), "only $1\n\nARGUMENTS: foo"),
        ("awk '{print $1}' $0", Words("one", "skill"), "awk '{print $1}' one"),
        ("$FILE at $HOME costs $$5; $1", Words("FILE=a.py", "codex"), "a.py at $HOME costs $5; FILE=a.py"),
        ("kill $$ $1 $2.", Words("x", "codex"), "kill $$ x ."),
        ("$FILE", Words('FILE="a b.py"', "codex"), "a b.py"),
        ("$ARGUMENTS[0]", Words("x y", "codex"), "x y[0]"),
    ],
)
def test_each_program_has_its_places(text: str, words: Words, filled: str) -> None:
    assert fill(text, words, 1000) == filled


@pytest.mark.parametrize("field", ["[issue, branch]", "issue branch", '\n- issue\n- "branch"', "issue, ARGUMENTS, branch"])
def test_names_are_read_from_any_list(field: str) -> None:
    assert named_words(field) == ("issue", "branch")


@given(
    st.text(alphabet="$ARGUMENTS[]{}0129 \"'\\x", max_size=40),
    st.text(alphabet="a =\"'$1\\", max_size=20),
    st.sampled_from(["codex", "claude", "skill"]),
)
def test_any_text_and_any_words_are_filled_within_the_room(text: str, typed: str, style: Style) -> None:
    try:
        assert len(fill(text, Words(typed, style, ("A",)), 60)) <= 60
    except TooLong:
        assert len(text) + len(typed) * 4 > 20
