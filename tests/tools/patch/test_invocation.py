"""Which commands are calls of apply_patch, which are mistaken for one, and which are ordinary."""

import pytest

from understudy.tools.patch.invocation import PatchInvocation, PatchMistake, recognise

BODY = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
HEREDOC = f"<<'EOF'\n{BODY}\nEOF"


@pytest.mark.parametrize("name", ["apply_patch", "applypatch"])
def test_the_patch_is_the_only_argument(name: str) -> None:
    assert recognise([name, "anything at all"], "/w") == PatchInvocation("anything at all", "/w")


@pytest.mark.parametrize("shell", ["bash", "zsh", "sh", "/bin/bash", "/usr/bin/zsh"])
@pytest.mark.parametrize("flag", ["-lc", "-c"])
def test_each_shell_with_a_heredoc_counts(shell: str, flag: str) -> None:
    assert recognise([shell, flag, f"apply_patch {HEREDOC}"], "/w") == PatchInvocation(BODY + "\n", "/w")


@pytest.mark.parametrize(
    ("script", "base"),
    [
        (f"apply_patch {HEREDOC}\n", "/w"),
        (f"\n  apply_patch {HEREDOC}\n\n  ", "/w"),
        (f"applypatch {HEREDOC}", "/w"),
        (f"apply_patch<<'EOF'\n{BODY}\nEOF", "/w"),
        (f"apply_patch << 'EOF' \n{BODY}\nEOF", "/w"),
        (f'apply_patch <<"PATCH-1"\n{BODY}\nPATCH-1', "/w"),
        (f"apply_patch <<END\n{BODY}\nEND", "/w"),
        (f"cd sub && apply_patch {HEREDOC}", "/w/sub"),
        (f"cd sub/deep.d&&apply_patch {HEREDOC}", "/w/sub/deep.d"),
        (f"cd sub &&\n  apply_patch {HEREDOC}", "/w/sub"),
        (f"cd 'a b' && apply_patch {HEREDOC}", "/w/a b"),
        (f'cd "a (b)" && apply_patch {HEREDOC}', "/w/a (b)"),
        (f"cd /abs && apply_patch {HEREDOC}", "/abs"),
        (f"cd ../up && apply_patch {HEREDOC}", "/w/../up"),
    ],
)
def test_one_statement_counts_with_at_most_a_cd_before_it(script: str, base: str) -> None:
    assert recognise(["bash", "-lc", script], "/w") == PatchInvocation(BODY + "\n", base)


@pytest.mark.parametrize(
    "script",
    [
        f"apply_patch {HEREDOC}\ntouch also",
        f"apply_patch {HEREDOC}\n# a remark",
        f"apply_patch <<'EOF' && touch also\n{BODY}\nEOF",
        f"apply_patch <<'EOF' | cat\n{BODY}\nEOF",
        f"apply_patch <<'EOF' > out\n{BODY}\nEOF",
        f"apply_patch <<'EOF' &\n{BODY}\nEOF",
        f"apply_patch <<-'EOF'\n{BODY}\nEOF",
        f"apply_patch <<<'EOF'\n{BODY}\nEOF",
        f"apply_patch <<E'O'F\n{BODY}\nEOF",
        f"apply_patch arg {HEREDOC}",
        f"apply_patch 0{HEREDOC}",
        f"X=1 apply_patch {HEREDOC}",
        f"(apply_patch {HEREDOC}\n)",
        f"! apply_patch {HEREDOC}",
        f"sudo apply_patch {HEREDOC}",
        f"cd sub; apply_patch {HEREDOC}",
        f"cd sub || apply_patch {HEREDOC}",
        f"cd sub | apply_patch {HEREDOC}",
        f"cd sub & apply_patch {HEREDOC}",
        f"cd sub\napply_patch {HEREDOC}",
        f"cd a && cd b && apply_patch {HEREDOC}",
        f"cd a b && apply_patch {HEREDOC}",
        f"cd && apply_patch {HEREDOC}",
        f"cd - && apply_patch {HEREDOC}",
        f"cd '-' && apply_patch {HEREDOC}",
        f"cd -P sub && apply_patch {HEREDOC}",
        f"cd +1 && apply_patch {HEREDOC}",
        f"cd ~ && apply_patch {HEREDOC}",
        f"cd $HOME && apply_patch {HEREDOC}",
        f'cd "$HOME" && apply_patch {HEREDOC}',
        f'cd "`pwd`" && apply_patch {HEREDOC}',
        f"cd a*b && apply_patch {HEREDOC}",
        f"cd a\\ b && apply_patch {HEREDOC}",
        f"cd 'a'b && apply_patch {HEREDOC}",
        f"cd {{a,b}} && apply_patch {HEREDOC}",
        f"echo a && apply_patch {HEREDOC}",
        f"echo {HEREDOC}",
        f"cat {HEREDOC} | apply_patch",
        "apply_patch patch.txt",
        "apply_patch < patch.txt",
        f"apply_patch '{BODY}'",
        "ls",
        "",
    ],
)
def test_a_script_that_does_anything_else_is_an_ordinary_command(script: str) -> None:
    assert recognise(["bash", "-lc", script], "/w") is None


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["ls"],
        ["git", "apply_patch", BODY],
        ["bash", "-lc"],
        ["bash", "-lc", f"apply_patch {HEREDOC}", "name"],
        ["bash", "-x", f"apply_patch {HEREDOC}"],
        ["fish", "-c", f"apply_patch {HEREDOC}"],
        ["./apply_patch", BODY],
    ],
)
def test_other_commands_are_ordinary(argv: list[str]) -> None:
    assert recognise(argv, "/w") is None


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["apply_patch"], "exactly one argument"),
        (["apply_patch", "-p1", BODY], "exactly one argument"),
        ([BODY], "a patch, not a command"),
        (["\n" + BODY, "x"], "a patch, not a command"),
        (["bash", "-lc", BODY], "a patch, not a shell script"),
        (["bash", "-lc", "apply_patch <<'EOF'\n*** Begin Patch"], "not closed"),
        (["bash", "-lc", f"apply_patch <<'EOF'\n{BODY}\n EOF"], "not closed"),
        (["bash", "-lc", f"apply_patch <<'EOF'\n{BODY}\nEOF; touch also"], "not closed"),
        (["bash", "-lc", "apply_patch <<EOF\n+$HOME\nEOF"], "<<'EOF'"),
        (["bash", "-lc", "apply_patch <<EOF\n+`id`\nEOF"], "<<'EOF'"),
        (["bash", "-lc", "apply_patch <<EOF\n+a\\\\b\nEOF"], "<<'EOF'"),
    ],
)
def test_a_patch_called_wrongly_is_told_how(argv: list[str], word: str) -> None:
    mistake = recognise(argv, "/w")
    assert isinstance(mistake, PatchMistake)
    assert word in mistake.reason


def test_a_body_ends_at_its_first_delimiter_as_for_a_shell() -> None:
    assert recognise(["sh", "-c", "apply_patch <<'EOF'\none\nEOF\ntwo\nEOF\n"], "/w") is None
    assert recognise(["sh", "-c", "apply_patch <<'EOF'\nEOFX\n EOF\nEOF\n"], "/w") == PatchInvocation("EOFX\n EOF\n", "/w")


def test_long_scripts_of_other_commands_cost_little() -> None:
    assert recognise(["bash", "-lc", "cd " * 500_000], "/w") is None
    assert recognise(["bash", "-lc", "apply_patch" + " " * 2_000_000 + "x"], "/w") is None
