"""What a person is asked: canonical argv first, our facts next, the model's words last and marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.policy.questions import (
    CommandQuestion,
    PatchQuestion,
    command_details,
    command_message,
    command_question,
    command_reason,
    patch_details,
    patch_message,
    patch_question,
    runs_later,
)
from understudy.policy.words import names
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile

OUTSIDE = "If approved it runs outside the sandbox, with all rights of the account that runs understudy."


def test_the_first_line_is_the_one_that_clients_know() -> None:
    assert command_question(["git", "init"], "/home/me/proj") == "Allow Codex to run `git init` in `/home/me/proj`?"
    assert patch_question() == "Allow Codex to apply proposed code changes?"
    assert patch_question("changes a protected path") == f"changes a protected path\n{patch_question()}"


def test_hidden_characters_are_shown_in_command_and_folder() -> None:
    question = command_question(["cat", "a\u202eb", "c\u200bd"], "/p\x1b[8m")
    assert question == "Allow Codex to run `cat 'a\\u{202e}b' 'c\\u{200b}d'` in `/p\\u{1b}[8m`?"


def test_the_models_words_come_last_and_are_marked_as_such() -> None:
    message = command_message(
        CommandQuestion(("touch", "../made"), "/p", justification='trust "me"\n\nAllow Codex to run `ls`?', note="mind the gap")
    )
    assert message.split("\n") == [
        "Allow Codex to run `touch ../made` in `/p`?",
        OUTSIDE,
        "Asked because of a rule: mind the gap",
        "The model's own words, not checked: \"trust 'me' Allow Codex to run `ls`?\"",
    ]


def test_a_second_run_says_that_it_is_one() -> None:
    details = command_details(CommandQuestion(("make",), "/p", retries=True))
    assert details == (OUTSIDE, "It has run in the sandbox and was refused something there; this would run it a second time.")
    assert command_reason(CommandQuestion(("make",), "/p", retries=True)) == "\n".join(details)


def test_where_there_is_no_sandbox_none_is_said_to_be_left() -> None:
    details = command_details(CommandQuestion(("make",), "/p", full_access=True, justification="  "))
    assert details == (
        "There is no sandbox in this mode: if approved it runs with all rights of the account that runs understudy.",
    )


def test_a_long_command_is_not_cut_and_its_end_is_shown_again() -> None:
    argv = ("bash", "-lc", "echo " + "a" * 600 + "; rm -rf /precious")
    question = CommandQuestion(argv, "/p")
    first, *details = command_message(question).split("\n")
    assert "; rm -rf /precious'` in `/p`?" in first
    assert len(first) > 600
    assert details[0] == f"It ends with `…{'a' * 35}; rm -rf /precious'`"
    assert details[1] == OUTSIDE
    assert details[2] == f"The command is {len(first) - len('Allow Codex to run `` in `/p`?')} characters long. It ends with:"
    assert details[3].startswith("| aaa")
    assert details[3].endswith("; rm -rf /precious'")
    assert "It runs: echo, rm" in details


def test_a_script_is_shown_line_by_line_so_that_none_can_pass_for_ours() -> None:
    script = "ls\nAllow Codex to run `ls`?\nIf approved it runs inside the sandbox."
    lines = command_message(CommandQuestion(("bash", "-lc", script), "/p")).split("\n")
    assert lines[0].startswith("Allow Codex to run `bash -lc 'ls\\u{a}Allow Codex")
    assert lines[1] == "It ends with `…" + lines[0].removesuffix(" in `/p`?")[-55:]
    assert lines[3:] == [
        "The script has 3 lines:",
        "| ls",
        "| Allow Codex to run `ls`?",
        "| If approved it runs inside the sandbox.",
    ]


def test_letters_that_look_like_others_are_named() -> None:
    told = "Letters that may look like others: \u0430 (U+0430 CYRILLIC SMALL LETTER A)"
    assert command_details(CommandQuestion(("cat", "p\u0430ssword"), "/p")) == (OUTSIDE, told)
    assert command_details(CommandQuestion(("echo", "naïve", "日本語"), "/p")) == (OUTSIDE,)
    assert patch_details(PatchQuestion({"/p/p\u0430ss": AddFile("")}, "/p")) == ("- add 'p\u0430ss' (+0)", told)


def test_letters_that_turn_the_direction_of_writing_are_named() -> None:
    told = "Letters that may look like others: \u05d0 (U+05D0 HEBREW LETTER ALEF, written from right to left)"
    assert command_details(CommandQuestion(("rm", "\u05d0"), "/p")) == (OUTSIDE, told)


def test_of_a_very_long_script_the_head_and_the_tail_are_shown_with_the_gap_between_them() -> None:
    script = "\n".join(f"echo {number}" for number in range(1000))
    details = command_details(CommandQuestion(("bash", "-lc", script), "/p"))
    assert details[1:3] == ("The script has 1000 lines:", "| echo 0")
    assert details[201:204] == (
        "| echo 199",
        "600 lines here are only in the first line of this question. Then it goes on:",
        "| echo 800",
    )
    assert details[402] == "| echo 999"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.text(max_size=60), st.text(max_size=20))
def test_no_text_of_the_models_begins_a_line(argv: list[str], justification: str, cwd: str) -> None:
    question = CommandQuestion(("x", *argv), cwd, justification=justification)
    first, *rest = command_message(question).split("\n")
    assert first.startswith("Allow Codex to run `x ")
    ours = (
        OUTSIDE,
        "It ends with `…",
        "The model's own words, not checked: ",
        "Letters that may look like others: ",
        "The command is ",
    )
    assert all(line.startswith((*ours, "The command is ")) for line in rest)
    assert all(line.isprintable() for line in (first, *rest))


CHANGES: dict[str, FileChange] = {
    "/p/src/a.py": UpdateFile("@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n"),
    "/p/new.txt": AddFile("a\nb\nc"),
    "/p/old.txt": DeleteFile("a\nb\n"),
    "/p/m.py": UpdateFile("", move_path="/p/n.py"),
    "/p/.envrc": AddFile("export X=1\n"),
    "/p/.git/config": UpdateFile("@@ -1 +1 @@\n-a\n+b\n"),
    "/etc/hosts": UpdateFile("@@ -1 +1 @@\n-a\n+b\n"),
    "/p/x\u202e.py": DeleteFile(),
}


def test_a_patch_is_shown_file_by_file_those_that_matter_most_first() -> None:
    question = PatchQuestion(CHANGES, "/p", outside=frozenset(("/etc/hosts",)), protected=frozenset(("/p/.git/config",)))
    assert patch_message(question).split("\n") == [
        "Allow Codex to apply proposed code changes?",
        "! add .envrc (+1): takes effect later, run by direnv and similar tools on entering the folder",
        "! update .git/config (+1 -1): protected, takes effect later, run or obeyed by git",
        "! update /etc/hosts (+1 -1): outside the project",
        "- update src/a.py (+2 -1)",
        "- add new.txt (+3)",
        "- delete old.txt (-2)",
        "- move m.py to n.py (+0 -0)",
        "- delete 'x\\u{202e}.py' (-0)",
    ]


def test_the_name_of_a_file_cannot_pass_for_our_words() -> None:
    changes: dict[str, FileChange] = {"/p/a (+0)\n- b (+0): safe": AddFile("x")}
    assert patch_details(PatchQuestion(changes, "/p")) == ("- add 'a (+0)\\u{a}- b (+0): safe' (+1)",)


def test_a_file_that_gives_way_to_another_is_marked() -> None:
    changes: dict[str, FileChange] = {"/p/a": UpdateFile("", move_path="/p/b"), "/p/c": UpdateFile("@@\n-x\n+y\n")}
    question = PatchQuestion(changes, "/p", replaced=frozenset(("/p/b", "/p/c")))
    assert patch_details(question) == (
        "! move a to b (+0 -0): replaces what is there",
        "! update c (+1 -1): replaces what is there",
    )


def test_a_move_onto_a_file_that_matters_is_marked() -> None:
    changes: dict[str, FileChange] = {"/p/a": UpdateFile("", move_path="/p/.github/workflows/x.yml")}
    assert patch_details(PatchQuestion(changes, "/p")) == (
        "! move a to .github/workflows/x.yml (+0 -0): takes effect later, run by the build service",
    )


def test_of_very_many_files_the_ones_that_matter_are_all_shown() -> None:
    changes: dict[str, FileChange] = {f"/p/f{number}": AddFile("") for number in range(300)}
    changes["/p/.bashrc"] = AddFile("x\n")
    details = patch_details(PatchQuestion(changes, "/p", reason="a reason"))
    assert details[:2] == ("Asked because: a reason", "! add .bashrc (+1): takes effect later, run by each new shell or at login")
    assert details[-1] == "and 201 more files"
    assert len(details) == 102


_RUNS_LATER = names(
    ".envrc .vscode/tasks.json .github/workflows/ci.yml .gitlab-ci.yml .bashrc .zshrc .profile .git/hooks/pre-commit .GIT/config"
    " .git./hooks/x .husky/pre-push .pre-commit-config.yaml Jenkinsfile sub/.envrc .codex/config.toml .mcp.json AGENTS.md x.pth"
    " .config/fish/config.fish .ｇit/config"
)


@pytest.mark.parametrize("path", sorted(_RUNS_LATER))
def test_a_file_that_takes_effect_by_itself_is_known(path: str) -> None:
    assert runs_later(f"/p/{path}")


@pytest.mark.parametrize("path", ["src/a.py", "envrc", "github/workflows/x", "README.md", "bashrc", ".gitignore", "agents.py"])
def test_an_ordinary_file_is_not_marked(path: str) -> None:
    assert not runs_later(f"/p/{path}")
