"""Quoting as clients know it, and as a shell reads it back."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.policy.words import Words
from understudy.testing.waiting import WAIT_SECONDS
from understudy.text import quote_command


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("git", "init"), "git init"),
        (("bash", "-lc", "echo hi"), "bash -lc 'echo hi'"),
        (("a=b",), "'a=b'"),
        (("a,b",), "'a,b'"),
        (("a%b",), "'a%b'"),
        (("~",), "'~'"),
        (("it's",), '"it\'s"'),
        (("it's $x",), "\"it's \"'$x'"),
        (("it's!",), "\"it's\"'!'"),
        (("a$b", "!x", '"q"'), "'a$b' '!x' '\"q\"'"),
        (("a\\b",), '"a\\\\b"'),
        (("x^y",), "x'^y'"),
        (("^a",), "'^a'"),
        (("a]b",), "a]b"),
        (("é",), "'é'"),
        (("print('hi')",), "\"print('hi')\""),
        (("",), "''"),
        (("a", "", "b"), "a '' b"),
        ((), ""),
        (("a b", "c\0d"), "a b c\0d"),
        (("rg", "--pre=x", "y"), "rg '--pre=x' y"),
        (("bash", "-lc", 'echo "$HOME"'), "bash -lc 'echo \"$HOME\"'"),
        (("^^",), "'^''^'"),
        (("'^",), "\"'\"'^'"),
        (("\\^",), "\"\\\\\"'^'"),
    ],
)
def test_words_are_quoted_as_ever(argv: Words, text: str) -> None:
    assert quote_command(argv) == text


_words = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=6)
_tricky = st.lists(st.text("ab '\"\\$`!^]~é\n\t=-", max_size=10), min_size=1, max_size=6)


@given(st.one_of(_words, _tricky))
def test_a_word_splitter_gives_the_words_back(argv: list[str]) -> None:
    assert shlex.split(quote_command(argv)) == argv


@settings(max_examples=60, deadline=None)
@given(_tricky)
def test_bash_gives_the_words_back(argv: list[str]) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", f"printf '%s\\0' {quote_command(argv)}"],
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.decode().split("\0")[:-1] == argv
