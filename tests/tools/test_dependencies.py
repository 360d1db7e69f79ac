"""What a command depends on besides its words: changes to it are noticed, changes to mere data are not."""

import os
import time
from pathlib import Path

import pytest

from understudy.tools.acts.dependencies import fingerprint, folders_to_lock, identities
from understudy.tools.acts.wildcards import TooWide

RUNS_IT = [
    ("./run.sh",),
    ("bash", "run.sh"),
    ("bash", "-x", "run.sh", "now"),
    ("bash", "-lc", "cd . && ./run.sh | head"),
    ("bash", "-c", "set -e; ./run.sh > log"),
    ("sh", "-c", "for x in 1 2; do bash run.sh; done"),
    ("env", "A=b", "timeout", "9", "./run.sh"),
    ("python3", "run.sh"),
    ("/usr/bin/python3.11", "-B", "run.sh"),
    ("node", "--require", "./run.sh", "main.js"),
    ("sudo", "nice", "./run.sh"),
    ("sh", "-c", "$PWD/run.sh"),
    ("sh", "-c", "${PWD}/run.sh;"),
    ("sh", "-c", "${PWD}/run.sh now"),
    ("sh", "-c", './"run".sh>log'),
    ("sh", "-c", "SCRIPT=./run.sh; $SCRIPT"),
    ("sh", "-c", "sh <run.sh"),
    ("sh", "-c", "./r*.sh"),
    ("bash", "--rcfile=run.sh", "-i"),
]
READS_IT = [
    ("cat", "run.sh"),
    ("prettier", "--write", "run.sh"),
    ("make",),
    ("bash", "-lc", "cat run.sh"),
    ("git", "add", "run.sh"),
]


@pytest.mark.parametrize("argv", RUNS_IT)
def test_a_script_that_is_run_must_stay_as_it_is(tmp_path: Path, argv: tuple[str, ...]) -> None:
    (tmp_path / "run.sh").write_text("echo good\n")
    before = fingerprint(argv, str(tmp_path))
    assert fingerprint(argv, str(tmp_path)) == before
    (tmp_path / "run.sh").write_text("echo evil\n")
    assert fingerprint(argv, str(tmp_path)) != before
    (tmp_path / "run.sh").unlink()
    assert fingerprint(argv, str(tmp_path)) != before


IN_A_FOLDER = [
    ("bash", "-lc", "cd sub && ./run.sh"),
    ("bash", "-c", "cd deep; cd ../sub; bash run.sh >log"),
    ("bash", "-c", "(cd sub/ && exec ./run.sh)"),
    ("env", "-C", "sub", "./run.sh"),
    ("env", "--chdir=sub", "sh", "run.sh"),
    ("bash", "-c", "pushd sub; . ./run.sh"),
]


@pytest.mark.parametrize("argv", IN_A_FOLDER)
def test_a_script_in_a_folder_that_the_command_goes_to_must_stay_as_it_is(tmp_path: Path, argv: tuple[str, ...]) -> None:
    for folder in ("sub", "deep"):
        (tmp_path / folder).mkdir()
    (tmp_path / "sub" / "run.sh").write_text("echo good\n")
    before = fingerprint(argv, str(tmp_path))
    assert folders_to_lock(argv, str(tmp_path)) >= identities([str(tmp_path), str(tmp_path / "sub")])
    (tmp_path / "sub" / "run.sh").write_text("echo evil\n")
    assert fingerprint(argv, str(tmp_path)) != before


@pytest.mark.parametrize(
    ("argv", "file"),
    [
        (("python3", "-m", "tool"), "tool.py"),
        (("python3", "-B", "-m", "tool.inner"), "tool/inner.py"),
        (("python3", "-m", "tool"), "tool/__main__.py"),
        (("python3", "tool"), "tool/__main__.py"),
        (("node", "tool"), "tool.js"),
        (("node", "tool"), "tool/index.js"),
    ],
)
def test_a_module_that_is_run_must_stay_as_it_is(tmp_path: Path, argv: tuple[str, ...], file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("good")
    before = fingerprint(argv, str(tmp_path))
    (tmp_path / file).write_text("evil")
    assert fingerprint(argv, str(tmp_path)) != before


CALLS_A_PROGRAM = [
    ("tool",),
    ("env", "A=b", "tool"),
    ("nice", "-n", "5", "tool"),
    ("bash", "-lc", "tool && ls"),
    ("bash", "-c", "tool > log"),
    ("bash", "-c", "echo $(tool)"),
    ("sh", "-c", "x=1 tool"),
    ("./script",),
    ("bash", "-c", "cd . && ./script"),
]


@pytest.mark.parametrize("argv", CALLS_A_PROGRAM)
@pytest.mark.parametrize("changed", ["tool", "interpreter"])
def test_a_program_and_what_interprets_it_must_stay_as_they_are(tmp_path: Path, argv: tuple[str, ...], changed: str) -> None:
    for name, content in {
        "bin/tool": f"#!{tmp_path}/interpreter\n",
        "interpreter": "#!/bin/sh\n",
        "script": "#!/usr/bin/env -S tool -x\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    before = fingerprint(argv, str(tmp_path), path)
    assert fingerprint(argv, str(tmp_path), path) == before
    assert folders_to_lock(argv, str(tmp_path), path) >= identities([str(tmp_path), str(tmp_path / "bin")])
    target = tmp_path / ("bin/tool" if changed == "tool" else changed)
    target.write_text("#!/bin/sh\necho evil\n")
    assert fingerprint(argv, str(tmp_path), path) != before


def test_scripts_that_interpret_each_other_are_looked_at_once(tmp_path: Path) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / name).write_text(f"#!{tmp_path}/{other}\n")
    assert fingerprint(("./one",), str(tmp_path)) == fingerprint(("./one",), str(tmp_path))


@pytest.mark.parametrize("argv", READS_IT)
def test_a_file_that_is_only_read_may_change(tmp_path: Path, argv: tuple[str, ...]) -> None:
    (tmp_path / "run.sh").write_text("echo good\n")
    before = fingerprint(argv, str(tmp_path))
    (tmp_path / "run.sh").write_text("echo evil\n")
    assert fingerprint(argv, str(tmp_path)) == before


def test_the_folder_must_stay_the_same_one(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    before = fingerprint(("make",), str(tmp_path / "sub"))
    (tmp_path / "sub").rename(tmp_path / "old")
    (tmp_path / "sub").symlink_to("/")
    assert fingerprint(("make",), str(tmp_path / "sub")) != before


def test_odd_files_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    argv = ("bash", "pipe", "/dev/zero", "/proc/kmsg", "/dev/tty", "a\0b", "", "x" * 5000, str(tmp_path))
    assert fingerprint(argv, str(tmp_path)) == fingerprint(argv, str(tmp_path))


def test_a_large_script_is_told_by_its_times(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes(b"#" * (2 * 1024 * 1024))
    before = fingerprint(("./run.sh",), str(tmp_path))
    os.utime(script, ns=(1, 1))
    assert fingerprint(("./run.sh",), str(tmp_path)) != before


ENDLESS = [
    ("sh", "-c", f"sh {'[' * 50_000}"),
    ("sh", "-c", f"sh {'*/' * 5_000}x"),
    ("sh", "-c", f"sh {'*/' * 30}nothing"),
    ("sh", "-c", " ".join(f"sh {'[' * 900}{number};" for number in range(400))),
    ("sh", "/*/*/*/*/*/*/nothing"),
]


@pytest.mark.parametrize("argv", ENDLESS, ids=range(len(ENDLESS)))
def test_wildcards_without_end_are_refused_at_once(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Folders that lead back to themselves would be walked for ever, and a class that never closes read again and again."""
    for name in ("a", "b", "c"):
        (tmp_path / name).symlink_to(".")
    began = time.process_time()
    with pytest.raises(TooWide):
        fingerprint(argv, str(tmp_path))
    assert time.process_time() - began < 20  # seconds of computing


NOT_WILD = [
    ("python3", "-c", "x = [1, 2]\n" * 2_000),
    ("node", "-e", "f([1]);" * 2_000),
    ("bash", "-lc", "if [ -f a/x ] && [ -d b/y ]; then ./run.sh; fi\n" * 200),
]


@pytest.mark.parametrize("argv", NOT_WILD, ids=["python", "node", "bash"])
def test_the_text_of_a_program_may_have_any_number_of_brackets(tmp_path: Path, argv: tuple[str, ...]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert fingerprint(argv, str(tmp_path)) == fingerprint(argv, str(tmp_path))


@pytest.mark.parametrize("word", ["r*.sh", "./s*/../r?n.sh", "*/run.sh", "[qr]un.sh", ".h*/run.sh"])
def test_what_fits_a_wildcard_must_stay_as_it_is(tmp_path: Path, word: str) -> None:
    for folder in (tmp_path, tmp_path / "sub", tmp_path / ".hidden"):
        folder.mkdir(exist_ok=True)
        (folder / "run.sh").write_text("echo good\n")
    before = fingerprint(("sh", "-c", f"sh {word}"), str(tmp_path))
    for folder in (tmp_path, tmp_path / "sub", tmp_path / ".hidden"):
        (folder / "run.sh").write_text("echo evil\n")
    assert fingerprint(("sh", "-c", f"sh {word}"), str(tmp_path)) != before


@pytest.mark.parametrize("count", [600, 8_000])
def test_no_number_of_words_keeps_a_script_from_being_watched(tmp_path: Path, count: int) -> None:
    (tmp_path / "run.sh").write_text("echo good\n")
    padding = " ".join(f"w{number}" for number in range(count))
    before = fingerprint(("bash", "-c", f"true {padding}; sh ./run.sh"), str(tmp_path))
    (tmp_path / "run.sh").write_text("echo evil\n")
    assert fingerprint(("bash", "-c", f"true {padding}; sh ./run.sh"), str(tmp_path)) != before


def test_a_command_of_more_words_than_can_be_watched_is_refused(tmp_path: Path) -> None:
    padding = " ".join(f"w{number}" for number in range(11_000))
    with pytest.raises(TooWide):
        fingerprint(("bash", "-c", f"true {padding}; sh ./run.sh"), str(tmp_path))


def test_a_command_that_names_more_files_than_can_be_watched_is_refused(tmp_path: Path) -> None:
    for number in range(1_100):
        (tmp_path / f"f{number}").write_text("")
    with pytest.raises(TooWide):
        fingerprint(("sh", *(f"f{number}" for number in range(1_100)), "run.sh"), str(tmp_path))
