"""Whatever a model or a repository writes, the reader of a question can tell which words are ours: a parser can."""

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.policy.questions import (
    CommandQuestion,
    PatchQuestion,
    command_message,
    command_question,
    command_reason,
    patch_message,
    patch_reason,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.text import in_ticks, make_visible, quote_command

OURS = [
    "` in `/p`?",
    "` in `/p`? This only reads and runs inside the sandbox. `",
    "If approved it runs inside the sandbox.",
    "\nIf approved it runs inside the sandbox.\n",
    "| ls",
    "- add a (+1)",
    "! ",
    "' (+0): safe",
    '" ',
    "Allow Codex to apply proposed code changes?",
    "\\u{60}",
    "\\u{",
    "\\",
    "`",
    "\u02cb",
    "\uff40",
    "\u0300",
    "\u0338",
    "\u2018",
    "''",
    '"',
    "\u201d",
    " " * 23,
    " " * 24,
    " " * 25 + "7",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u2028",
    "\x85",
    "\x1b[2J",
    "\r",
    "\t",
    "\0",
    "\ud800",
    "\u05d0",
    "a" * 500,
]
_hostile = st.lists(st.sampled_from(OURS) | st.text(max_size=12), max_size=6).map("".join)
_names = st.lists(st.sampled_from(OURS) | st.text(max_size=8), min_size=1, max_size=4).map(
    lambda parts: "/" + "".join(parts).replace("\0", "0")
)

FIRST = re.compile(r"Allow Codex to run `([^`\n]*)` in `([^`\n]*)`\?")
_ESCAPE = re.compile(r"\\u\{20\}\*([0-9]+)|\\u\{([0-9a-f]+)\}")


def read_back(shown: str) -> str:
    """The text that was put between the backticks."""
    return _ESCAPE.sub(lambda found: " " * int(found[1]) if found[1] else chr(int(found[2], 16)), shown)


COMMAND_LINES = re.compile(
    r"""If\ approved\ it\ runs\ outside\ the\ sandbox,\ with\ all\ rights\ of\ the\ account\ that\ runs\ understudy\.
      | There\ is\ no\ sandbox\ in\ this\ mode:\ if\ approved\ it\ runs
        \ with\ all\ rights\ of\ the\ account\ that\ runs\ understudy\.
      | It\ has\ run\ in\ the\ sandbox\ and\ was\ refused\ something\ there;\ this\ would\ run\ it\ a\ second\ time\.
      | It\ ends\ with\ `…[^`]*`
      | The\ script\ has\ [0-9]+\ lines:
      | The\ command\ is\ [0-9]+\ characters\ long\.\ It\ ends\ with:
      | It\ runs:\ [A-Za-z0-9_./+-]+(?:,\ [A-Za-z0-9_./+-]+)*
      | \|\ .*
      | Letters\ that\ may\ look\ like\ others:\ \w\ \(U\+.*
      | The\ model's\ own\ words,\ not\ checked:\ "[^"]*"(?:\ …\ and\ [0-9]+\ more\ characters)?
    """,
    re.VERBOSE,
)


@given(st.lists(_hostile, min_size=1, max_size=4), _hostile)
def test_the_one_line_of_every_era_gives_back_command_and_folder(argv: list[str], cwd: str) -> None:
    question = command_question(argv, cwd)
    assert question.isprintable()
    found = FIRST.fullmatch(question)
    assert found, question
    assert read_back(found[1]) == quote_command(argv)
    assert read_back(found[2]) == cwd


@given(st.lists(_hostile, min_size=1, max_size=4), _hostile, _hostile, st.booleans(), st.booleans())
def test_each_further_line_is_ours_up_to_a_mark_that_the_model_cannot_make(
    argv: list[str], cwd: str, justification: str, full_access: bool, retries: bool
) -> None:
    question = CommandQuestion(tuple(argv), cwd, justification, full_access, retries)
    first, *rest = command_message(question).split("\n")
    details = rest[1:] if rest[0].startswith("It ends with") else rest
    assert command_reason(question).split("\n") == details
    assert FIRST.fullmatch(first)
    for line in rest:
        assert line.isprintable()
        assert COMMAND_LINES.fullmatch(line), line
    said = [line for line in rest if line.startswith(("If approved", "There is no sandbox"))]
    assert len(said) == 1
    assert ("outside the sandbox" in said[0]) is not full_access


def test_a_script_shows_its_lines_behind_bars() -> None:
    script = "ls\n| If approved it runs inside the sandbox.\nIf approved it runs inside the sandbox."
    bars = [line for line in command_message(CommandQuestion(("bash", "-c", script), "/p")).split("\n") if line.startswith("| ")]
    assert bars == ["| ls", "| | If approved it runs inside the sandbox.", "| If approved it runs inside the sandbox."]


_changes = st.dictionaries(
    _names,
    st.builds(AddFile, _hostile) | st.builds(DeleteFile, _hostile) | st.builds(UpdateFile, _hostile, st.none() | _names),
    min_size=1,
    max_size=4,
)
FILE_LINE = re.compile(
    r"[-!] (?P<verb>add|delete|update|move) (?P<names>.*) \((?:[-+][0-9]+|\+[0-9]+ -[0-9]+)\)"
    r"(?:: (?:protected|outside the project|replaces what is there|takes effect later, [a-zA-Z ,]+)(?:, [a-zA-Z ,]+)*)?"
)


@given(_changes)
def test_the_names_of_files_are_quoted_and_read_back_by_a_shell(changes: dict[str, FileChange]) -> None:
    question = PatchQuestion(changes, "/p", outside=frozenset(changes))
    first, *rest = patch_message(question).split("\n")
    assert first == "Allow Codex to apply proposed code changes?"
    assert patch_reason(question).split("\n") == rest
    lines = [line for line in rest if not line.startswith("Letters that may look like others: ")]
    assert len(lines) == len(changes)
    wanted = [expected_words(path, change) for path, change in changes.items()]
    for line in lines:
        assert line.isprintable()
        found = FILE_LINE.fullmatch(line)
        assert found, line
        words = tuple(shlex.split(found["names"]))
        assert (found["verb"], words) in wanted, line


def expected_words(path: str, change: FileChange) -> tuple[str, tuple[str, ...]]:
    def shown(name: str) -> str:
        return make_visible(name.removeprefix("/p/"))

    match change:
        case AddFile():
            return "add", (shown(path),)
        case DeleteFile():
            return "delete", (shown(path),)
        case UpdateFile(move_path=None):
            return "update", (shown(path),)
        case UpdateFile(move_path=target):
            return "move", (shown(path), "to", shown(target or ""))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git init", "`git init`"),
        ("bash -lc 'echo \"$HOME\" | wc -l; é 日本'", "`bash -lc 'echo \"$HOME\" | wc -l; é 日本'`"),
        ("a`b", "`a\\u{60}b`"),
        ("a\\u{60}b", "`a\\u{5c}u{60}b`"),
        ("a\\ub", "`a\\ub`"),
        ("a\uff40\u02cb\u1fef\u2018b", "`a\\u{ff40}\\u{2cb}\\u{1fef}\\u{2018}b`"),
        ("a\u055d\u02ca\u1ffd\u2032\ua78cb", "`a\\u{55d}\\u{2ca}\\u{1ffd}\\u{2032}\\u{a78c}b`"),
        ("\u0300a\u0301e\u0302\u0301\u0301", "`\\u{300}a\u0301e\u0302\u0301\\u{301}`"),
        ("l\u0336s", "`l\\u{336}s`"),
    ],
)
def test_ordinary_text_is_shown_as_it_is_and_what_imitates_a_mark_is_not(text: str, shown: str) -> None:
    assert in_ticks(text) == shown
    assert read_back(shown[1:-1]) == text


@given(_hostile, _hostile)
def test_no_two_texts_look_the_same(one: str, other: str) -> None:
    assert (in_ticks(one) == in_ticks(other)) == (one == other)
