"""The reader of word-only scripts, against a table and against bash itself."""

import subprocess
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from understudy.policy.words import MAX_COMMANDS, MAX_LENGTH, Words, script_of, simple_commands, split_script
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("ls && pwd; echo 'hi there' | wc -l", (("ls",), ("pwd",), ("echo", "hi there"), ("wc", "-l"))),
        ("ls", (("ls",),)),
        ("  ls\t-la  ", (("ls", "-la"),)),
        ("ls;", (("ls",),)),
        ("ls\n\n\npwd\n", (("ls",), ("pwd",))),
        ("ls &&\n\n pwd ||\n true", (("ls",), ("pwd",), ("true",))),
        ("ls;\npwd", (("ls",), ("pwd",))),
        ('echo "a b" \'c d\' ""', (("echo", "a b", "c d", ""),)),
        ("echo ''", (("echo", ""),)),
        ("echo '$HOME `id` \\ * ~ {a,b} #'", (("echo", "$HOME `id` \\ * ~ {a,b} #"),)),
        ("echo a=b --x=y 1 -n,+%@:/", (("echo", "a=b", "--x=y", "1", "-n,+%@:/"),)),
        ("./run.sh x|cat", (("./run.sh", "x"), ("cat",))),
    ],
)
def test_words_and_operators_are_split(script: str, commands: tuple[Words, ...]) -> None:
    assert split_script(script) == commands


_REFUSED = [
    'ls &&', 'ls & pwd', '(ls)', '{ ls; }', 'ls > f', 'ls 2>&1', 'cat < f', 'cat <<EOF', 'echo $x', 'echo "$x"', 'echo `x`',
    'echo "a\\b"', 'echo a\\ b', 'FOO=bar ls', '! ls', 'ls # x', 'echo *', 'echo ?', 'echo ~', 'echo ~/x', 'echo {a,b}',
    'echo [ab]', 'a"b"', "a'b'", "'a'b", '"a"\'b\'', "'ls'", '"ls"', '12', 'if x', 'while x', 'time ls', 'for x',
    'function f', 'echo "a!b"', "echo 'x", 'echo "x', ';ls', 'ls;;ls', 'ls;;', '\tls \\', 'echo é', "echo 'é'", 'echo =ls',
    'x+=1', '[[ a ]]', '%1', 'select x',
]  # fmt: skip


@pytest.mark.parametrize("script", _REFUSED)
def test_what_is_not_fully_understood_is_refused(script: str) -> None:
    assert split_script(script) is None


@pytest.mark.parametrize(
    "script", ["ls | ", "ls || ", "ls |& cat", "| ls", "ls || | pwd", "", " ", "\n", "ls\0", "ls\r", "a\vb", "echo 'a\nb'"]
)
def test_broken_and_empty_scripts_are_refused(script: str) -> None:
    assert split_script(script) is None


def test_length_and_number_of_commands_are_bounded() -> None:
    assert (MAX_LENGTH, MAX_COMMANDS) == (10_000, 50)
    assert simple_commands(("ls", "a" * 9_998)) == (("ls", "a" * 9_998),)
    assert simple_commands(("ls", "a" * 9_999)) is None
    assert split_script("echo " + "a" * (MAX_LENGTH - 5)) is not None
    assert split_script("echo " + "a" * (MAX_LENGTH - 4)) is None
    assert len(split_script("\n".join(["ls"] * MAX_COMMANDS)) or ()) == MAX_COMMANDS
    assert split_script("\n".join(["ls"] * (MAX_COMMANDS + 1))) is None


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (("bash", "-lc", "ls"), "ls"),
        (("/bin/sh", "-c", "ls"), "ls"),
        (("/usr/bin/zsh", "-lc", "ls"), "ls"),
        (("/tmp/bash", "-lc", "ls"), None),
        (("/usrbash", "-lc", "ls"), None),
        (("bash", "-lc", "ls", "x"), None),
        (("bash", "-x", "ls"), None),
        (("head", "-c", "5"), None),
        ((), None),
    ],
)
def test_only_a_shell_with_one_script_has_a_script(argv: Words, script: str | None) -> None:
    assert script_of(argv) == script


def test_argv_without_a_shell_is_one_command() -> None:
    assert simple_commands(("git status; rm",)) == (("git status; rm",),)
    assert simple_commands(()) is None


# Every program is unknown to this bash, so that it hands each command's words to the function, which prints them.
_PRELUDE = r"""
PATH=/nonexistent
command_not_found_handle() { printf '%s\0' "$#" "$@" >&3; return "$STATUS"; }
"""


def _words_that_bash_sees(script: str) -> set[Words]:
    """Run with every command succeeding and again with every command failing: one of the two reaches each command."""
    seen: set[Words] = set()
    for status in "01":
        done = subprocess.run(
            ["bash", "--norc", "-c", f"exec 3>&1 >/dev/null; STATUS={status}; {_PRELUDE}{script}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        )
        assert done.stderr == b""
        parts = iter(done.stdout.decode().split("\0")[:-1])
        seen.update(tuple(next(parts) for _ in range(int(count))) for count in parts)
    return seen


_PROGRAMS = ["p", "q1", "x-y", "p.q"]  # unknown to bash, and no path
_PIECES = [
    *_PROGRAMS, *_PROGRAMS, " ", " ", " ", " ", "\t", "\n", ";", "&&", "||", "|", " ; ", " && ", " || ", " | ",
    "a", "-n", "--x=y", "a,b", "%", "+", "@", ":", "=", "'a b'", '"a b"', "''", '""', "'$x'", "'\\'", '"%s"', "1", "23",
    "'", '"', "\\", "$", "`", "&", "<", ">", "(", ")", "{", "}", "[", "]", "*", "?", "~", "!", "#", "\r", "é", "\x00", "^", "=p",
]  # fmt: skip
_soup = st.lists(st.sampled_from(_PIECES), max_size=24).map("".join)
_word = st.one_of(
    st.text("abcXYZ019_./,:=@%+-", min_size=1, max_size=6).filter(lambda word: word[0] != "="),
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'"), max_size=8).map(lambda text: f"'{text}'"),
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"$`\\!'), max_size=8).map(
        lambda text: f'"{text}"'
    ),
)
_command = st.tuples(st.sampled_from(_PROGRAMS), st.lists(_word, max_size=4)).map(lambda parts: " ".join((parts[0], *parts[1])))
_joined = st.lists(
    st.tuples(_command, st.sampled_from([" && ", "||", ";", " | ", "\n", "\n\n", " &&\n"])), min_size=1, max_size=6
).map(lambda parts: "".join(chain.from_iterable(parts)).rstrip("&|\n "))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(_joined)
def test_bash_sees_the_words_that_we_see(script: str) -> None:
    commands = split_script(script)
    assert commands is not None
    assert _words_that_bash_sees(script) == set(commands)


def _check_against_bash(script: str) -> None:
    commands = split_script(script)
    if commands is not None and all(words[0] in _PROGRAMS for words in commands):
        assert _words_that_bash_sees(script) == set(commands)


@pytest.mark.slow
@settings(max_examples=1_500, deadline=None)
@given(_soup)
@example("p a\n&&q1")
@example("p |q1||p.q\t''")
def test_whatever_is_accepted_of_a_jumble_is_what_bash_sees(script: str) -> None:
    _check_against_bash(script)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(_soup)
def test_whatever_is_accepted_of_a_great_jumble_is_what_bash_sees(script: str) -> None:
    _check_against_bash(script)


@pytest.mark.parametrize(
    "word", ["'a'b", "a'b'", "'a''b'", '"a""b"', "'a'\"b\"", "\"a\"'b'", 'a""', "''a", "'a'-", "-'a'", "x='a'"]
)
def test_a_word_that_is_glued_together_from_pieces_is_refused(word: str) -> None:
    assert split_script(f"ls {word}") is None
    assert split_script(f"{word} ls") is None
