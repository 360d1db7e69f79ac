"""What is called harmless: a table, and thousands of generated lines that are run and watched."""

import os
import random
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.policy import canary
from tests.policy.threat_cases import FACTS
from understudy.policy.decide import decide_command
from understudy.policy.harmless import Surroundings, is_harmless
from understudy.policy.words import Words, simple_commands


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "ls -la src",
        "ls -la --color=auto --sort=size src/",
        "ls /home/me/project/src",
        "ls -R src",
        "ls /usr/include",
        "cat a.py b.py",
        "cat -A -n a.py",
        "cat -- -delete",
        "cat -",
        "cat ./src/../a.py",
        "head -n 5 a.py",
        "head -20 a.py",
        "head -c100 a.py",
        "head",
        "tail -n 3",
        "tail -n +5 a.py",
        "tail --lines=5 a.py",
        "wc -l a.py",
        "nl -ba a.py",
        "grep -rn pattern src",
        "grep -A 3 -B2 -i pattern a.py",
        "grep -rn pattern src --include=*.py",
        "grep -e one -e two a.py",
        "grep -E /api/v1 a.py",
        "grep -- -x a.py",
        "grep pattern",
        "rg pattern",
        "rg -n --hidden -g !*.lock pattern src",
        "rg --files src",
        "rg -e a -e b src",
        "rg -tpy -C3 /etc/passwd",
        "find . -name *.py -type f",
        "find src ( -name a -o -name b ) -prune -print0",
        "find . -maxdepth 2 -not -path ./x -size +10k -ls",
        "find . -name -delete",
        "find",
        "find -P src",
        "sed -n 1p a.py",
        "sed -n 10,20p src/a.py",
        "sed -n 10,$p a.py",
        "which python3 node",
        "which -a ls",
        "pwd",
        "pwd -P",
        "echo anything -e --at all; rm $x",
        "true",
        "false --help",
        "cd src",
        "cd -- src",
        "cat /dev/null",
    ],
)
def test_a_command_that_only_reads_the_project_needs_no_question(line: str) -> None:
    verdict = decide_command(msgspec.structs.replace(FACTS, argv=tuple(line.split())))
    assert (verdict.action, verdict.contained, verdict.rule) == ("allow", True, "known-harmless")


@pytest.mark.parametrize(
    "line",
    [
        "ls --hyperlin",
        "ls --col",
        "ls --unknown",
        "ls -I",
        "head -n",
        "head a.py +5",
        "head -20 /etc/passwd",
        "head -20 /etc/passwd a.py",
        "tail -5 /etc/passwd",
        "tail +x a.py",
        "tail -c5f a.py",
        "tail -5 -n3f a.py",
        "cat -l a.py",
        "which ./evil",
        "which --read-alias x",
        "cd",
        "cd a b",
        "cd -",
        "cd ~",
        "find . -newer x -exec",
        "find . -name",
        "find -L .",
        "find . -P",
        "find src /etc -name x",
        "cat +/../../../../etc/passwd",
        "find -D exec .",
        "find . -name a x",
        "sed -n 1p",
        "sed -n 1p -",
        "sed -n 1p a b",
        "sed -n 1;2p a",
        "sed -n 1p;w a",
        "grep -R pattern .",
        "grep -z pattern .",
    ],
)
def test_an_option_or_form_that_is_not_listed_is_asked_about(line: str) -> None:
    assert decide_command(msgspec.structs.replace(FACTS, argv=tuple(line.split()))).action == "ask"


def test_a_folder_without_a_name_is_asked_about() -> None:
    """To one shell it is the folder itself, to another an error."""
    for argv in (("cd", ""), ("cd", "--", ""), ("bash", "-lc", "cd '' && ls")):
        assert decide_command(msgspec.structs.replace(FACTS, argv=argv)).action == "ask"


def test_the_end_of_a_file_with_any_name_that_no_option_has_is_only_read() -> None:
    for program in ("head", "tail"):
        for name in ("#notes", "(draft)", "!", " ", "$HOME", "*"):
            assert decide_command(msgspec.structs.replace(FACTS, argv=(program, name))).action == "allow"
        for name in ("+", "+notes", "a +b"):
            action = decide_command(msgspec.structs.replace(FACTS, argv=(program, "-q", name))).action
            assert action == ("allow" if name == "a +b" else "ask")


def test_folders_are_not_walked_from_home_or_root() -> None:
    for home, cwd in (("/home/me", "/home/me"), ("/home/me", "/home"), ("", "/")):
        facts = msgspec.structs.replace(FACTS, cwd=cwd, project=(cwd,), home=home)
        for line in ("rg x", "grep -r x", "find . -name x", "ls -R"):
            assert decide_command(msgspec.structs.replace(facts, argv=tuple(line.split()))).action == "ask"
        assert decide_command(msgspec.structs.replace(facts, argv=("ls",))).action == "allow"


def test_other_writable_roots_may_be_read_too() -> None:
    facts = msgspec.structs.replace(FACTS, argv=("cat", "/srv/data/x"))
    assert decide_command(facts).action == "ask"
    assert decide_command(msgspec.structs.replace(facts, project=(*FACTS.project, "/srv/data"))).action == "allow"


_FLAGS: dict[str, str] = {
    "cat": "-A -b -e -E -n -s -t -T -u -v --number --show-all",
    "head": "-n -c -q -v -z -5 --lines=3 --bytes=10 -n3 -c7",
    "tail": "-n -c -q -v -z -5 --lines=3 --bytes=10 -n3 -c7 -f --follow=name",
    "wc": "-c -m -l -L -w --lines --files0-from=names",
    "nl": "-b -ba -w -s -v --no-renumber -p",
    "ls": "-a -l -R -t -r -h -1 -F -i -s --color=always --sort=size --full-time -d -L -H -Z",
    "grep": "-r -n -i -v -c -l -o -q -w -x -E -F -P -A -B2 -C -e -m --include=*.py --exclude-dir=src --color=always -f -R -z",
    "rg": "-n -i -v -c -l -o -w -F -U -P -u -uu -. -e -g -t -A -B2 -m --files --hidden --json --sort -j -z --pre=touch --pre",
    "find": "-name -iname -path -type -maxdepth -mindepth -size -mtime -print -print0 -ls -prune -empty -depth -not ! ( ) -o -a"
    " -true -quit -printf -perm -regex -delete -exec -execdir -ok -fprint -fls -fprintf -P -user -newer",
    "sed": "-n -n -n -n -i -e -s --expression=wF -E --in-place",
    "which": "-a -s",
    "pwd": "-L -P",
    "cd": "-P -L --",
    "echo": "-n -e -E",
    "true": "--help",
    "false": "--version",
    "git": "status diff log --output=F",
    "sort": "-o",
    "touch": "",
}
_OPERANDS = [
    *(
        "a.py",
        "b.txt",
        "src",
        "src/c.py",
        ".",
        "./src",
        "F",
        "x",
        "path",
        "made",
        "-",
        "--",
        "",
        "/dev/null",
        "/usr/bin",
        "/usr/share/doc",
    ),
    *(
        "-delete",
        "-exec",
        "-fprint",
        "--output=F",
        "-type",
        "-1",
        ";",
        "+",
        "{}",
        "touch",
        "rm",
        "a\\b",
        ">F",
        "|touch",
        "`touch`",
        "~",
    ),
    *("1", "5", "2,3", "1p", "2,4p", "1,$p", "wF", "1wF", "s/a/b/wF", "1e", "f", "d", "+5", "*.py", "!*.lock", "py", "%p\\n", "%f"),
    *("..", "../x", "/etc/passwd", "$(touch F)", "none", "always"),
]
_JOINTS = (" && ", " || ", ";", " | ", "\n", " & ", " |& ")


def _generated(rng: random.Random) -> Words:
    """A line that a model might write, or a trick that looks like one; most are not harmless, and those that are get run."""
    if rng.random() < 0.6:
        return _command(rng)
    commands = (" ".join(_spelt(rng, word) for word in _command(rng)) for _ in range(rng.randint(1, 4)))
    joints = (rng.choice(_JOINTS[:5] if rng.random() < 0.95 else _JOINTS) for _ in range(4))
    script = "".join(part for pair in zip(commands, joints, strict=False) for part in pair)
    return ("bash", "-lc", script.rstrip("&| ;\n"))


def _command(rng: random.Random) -> Words:
    program = rng.choice(tuple(_FLAGS))
    flags = _FLAGS[program].split()
    words = [program]
    if program == "sed" and rng.random() < 0.7:
        return ("sed", "-n", rng.choice(("1p", "2,3p", "1,$p", "1wF", "1e", "p")), rng.choice(_OPERANDS))
    words.extend(rng.choice(flags if flags and rng.random() < 0.5 else _OPERANDS) for _ in range(rng.randint(0, 5)))
    return tuple(words)


def _spelt(rng: random.Random, word: str) -> str:
    style = rng.random()
    if word.isalnum() or style < 0.2:
        return word
    return f"'{word}'" if style < 0.8 else f'"{word}"'


def _harmless_lines(rng: random.Random, count: int, cwd: Path) -> list[Words]:
    lines: list[Words] = []
    while len(lines) < count:
        argv = _generated(rng)
        if is_harmless(argv, Surroundings(str(cwd), (str(cwd),), home="/nonexistent")):
            lines.append(argv)
    return lines


def _scratch(folder: Path) -> Path:
    for name in ("a.py", "b.txt", "F", "names", "-delete", "-exec", ";", "x", "1p", "src/c.py", "src/touch", "path"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one\ntwo\nthree touch path\n")
    for file in (folder / "src").iterdir():
        file.chmod(0o755)
    return folder


def _without_profile(argv: Words) -> Words:
    """A login shell's start-up files are the machine's own, not the command's doing."""
    return (argv[0], "--noprofile", *argv[1:]) if argv[0] == "bash" else argv


def _programs(argv: Words) -> Words:
    """Each program that the line names, as often as it does."""
    commands = simple_commands(argv) or ()
    return ("bash", *(words[0] for words in commands)) if argv[0] == "bash" else argv[:1]


def _assert_that_nothing_happens(tmp_path: Path, seed: int, count: int, part: int = 0) -> None:
    """Of the lines that follow from `seed`, the part of this number, each of `count`."""
    cwd = _scratch(tmp_path / "project")
    rng = random.Random(seed)
    before = canary.snapshot(cwd)
    harmless = [_harmless_lines(rng, count, cwd) for _ in range(part + 1)][-1]
    lines, programs = [_without_profile(line) for line in harmless], [_programs(line) for line in harmless]
    done = canary.run_watched(lines, programs, cwd, tmp_path / "trace", _SEARCH_PATH)
    assert {lines[number]: what for number, what in done.items()} == {}
    assert canary.snapshot(cwd) == before


_SEARCH_PATH = os.environ.get("CANARY_PATH", "/usr/bin:/bin")  # where `rg` is, if it is elsewhere
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (apt-get install strace)")


@pytest.mark.slow
@needs_strace
def test_generated_harmless_lines_change_nothing(tmp_path: Path) -> None:
    _assert_that_nothing_happens(tmp_path, seed=1, count=300)


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))  # several processes can share them
def test_ten_thousand_generated_harmless_lines_change_nothing(tmp_path: Path, part: int) -> None:
    _assert_that_nothing_happens(tmp_path, seed=2, count=1_000, part=part)


@needs_strace
@pytest.mark.parametrize(
    "line",
    [
        ("touch", "made"),
        ("bash", "-c", "echo x > made"),
        ("bash", "-c", "ls; rm a.py"),
        ("find", "src", "-delete"),
        ("find", ".", "-name", "a.py", "-exec", "cat", "{}", ";"),
        ("sed", "-i", "s/a/b/", "b.txt"),
        ("python3", "-c", "import socket; socket.socket()"),
        ("chmod", "600", "a.py"),
    ],
)
def test_the_canary_sings_when_something_does_happen(tmp_path: Path, line: Words) -> None:
    cwd = _scratch(tmp_path / "project")
    lines: list[Words] = [("ls", "-la"), line, ("cat", "a.py")]
    programs: list[Words] = [("ls",), ("bash", "ls", line[0]), ("cat",)]
    done = canary.run_watched(lines, programs, cwd, tmp_path / "trace", "/usr/bin:/bin")
    assert list(done) == [1]


@pytest.mark.parametrize(
    ("script", "action"),
    [
        ("cd src && cat a", "allow"),
        ("cd src && cat ../a", "ask"),  # the `cd` may fail, and then it is read from outside
        ("cd src; cd lib; cat ../a", "ask"),
        ("cd .. && ls", "ask"),
        ("cd / && ls", "ask"),
        ("cd /usr/bin && ls", "allow"),
        ("cd /usr/bin && cat a", "allow"),
        ("cd /usr/bin && cat ../../etc/passwd", "ask"),
        ("cd src && rg x", "allow"),
        ("; ".join(f"cd d{number}" for number in range(3)) + "; ls", "allow"),
        ("; ".join(f"cd d{number}" for number in range(4)) + "; ls", "ask"),  # too many places to keep in mind
    ],
)
def test_a_command_after_cd_is_judged_in_every_folder_it_may_find_itself_in(script: str, action: str) -> None:
    assert decide_command(msgspec.structs.replace(FACTS, argv=("bash", "-lc", script))).action == action


def test_a_walk_after_cd_is_judged_by_the_folder_that_holds_most() -> None:
    facts = msgspec.structs.replace(FACTS, cwd="/srv/me/project", project=("/srv",), home="/srv/me")
    for script, action in (
        ("rg x", "allow"),
        ("cd /srv && rg x", "ask"),
        ("cd /srv && ls", "allow"),
        ("cd /srv/other; rg x", "allow"),
    ):
        assert decide_command(msgspec.structs.replace(facts, argv=("bash", "-lc", script))).action == action, script
