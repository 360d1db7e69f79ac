"""Where `export` and `backup` write: to files only, whole or not at all, and nothing is left in the way of the next."""

import asyncio
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.program import LONGEST, Program
from understudy.cli.conversations.output_file import new_file


@pytest.fixture
def conversation(program: Program) -> str:
    program.script({"say": "Hello."})
    return asyncio.run(program.begin("Greet me"))


def _write(program: Program, command: str, conversation: str, target: Path | str) -> tuple[int, str]:
    words = ("export", conversation, "-o", str(target)) if command == "export" else ("backup", str(target))
    ended = program.call(*words)
    assert "Traceback" not in ended.err
    return ended.code, ended.err


@pytest.mark.quick(1)
@pytest.mark.parametrize("command", ["export", "backup"])
def test_what_is_not_a_file_is_left_as_it_is(program: Program, tmp_path: Path, conversation: str, command: str) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(there)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    listener = _socket(tmp_path / "socket")
    before = _names(tmp_path)
    for name, kind in (
        ("pipe", "a pipe"),
        ("link", "a link"),
        ("dangling", "a link"),
        ("null", "a link"),
        ("folder", "a folder"),
        ("socket", "a socket"),
        ("/dev/null", "a device"),
        ("/dev/full", "a device"),
    ):
        code, said = _write(program, command, conversation, tmp_path / name)
        assert (code, f"it is {kind}, and only files are written" in said) == (1, True), said
    listener.close()
    assert _names(tmp_path) == before
    assert there.read_text() == "mine"
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.quick(1)
@pytest.mark.parametrize("made_by", ["the agent, where it works", "a repository"])
@pytest.mark.parametrize("command", ["export", "backup"])
def test_no_link_of_an_agent_or_a_repository_leads_a_file_elsewhere(
    program: Program, tmp_path: Path, conversation: str, command: str, made_by: str
) -> None:
    elsewhere, project = tmp_path / "elsewhere", program.cwd if "agent" in made_by else tmp_path / "cloned"
    elsewhere.mkdir()
    (project / "deep").mkdir(parents=True, exist_ok=True)
    if "repository" in made_by:
        (project / ".git").write_text("gitdir: elsewhere")
    (project / "deep" / "out").symlink_to(elsewhere)
    code, said = _write(program, command, conversation, project / "deep" / "out" / "x.jsonl")
    assert (code, f"{project}/deep/out is a link, in a folder that an agent may write to" in said) == (1, True), said
    assert list(elsewhere.iterdir()) == []


@pytest.mark.quick(1)
@pytest.mark.parametrize("command", ["export", "backup"])
def test_a_link_of_the_user_is_followed(program: Program, tmp_path: Path, conversation: str, command: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mine").symlink_to(elsewhere)
    assert _write(program, command, conversation, tmp_path / "mine" / "x.jsonl")[0] == 0
    assert [path.name for path in elsewhere.iterdir()] == ["x.jsonl"]


def _socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{folder}/{path.name}")  # its own path may be too long for one
    os.close(folder)
    return listener


def _names(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IFMT(path.lstat().st_mode) for path in folder.iterdir()}


@pytest.mark.slow
def test_an_export_replaces_a_file_whole_and_reaches_standard_output_by_any_name(
    program: Program, tmp_path: Path, conversation: str
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    target.chmod(0o644)
    code, said = _write(program, "export", conversation, target)
    assert (code, "is there already and is not overwritten" in said, target.read_text()) == (1, True, "old")
    assert program.call("export", conversation, "-o", str(target), "--force").code == 0
    assert target.read_text().startswith('{"understudy_export":1')
    assert target.stat().st_mode & 0o777 == 0o600
    for name in ("-", "/dev/stdout"):
        assert program.run("export", conversation, "-o", name).out == target.read_text()
    assert stat.S_ISLNK(os.lstat("/dev/stdout").st_mode)


@pytest.mark.slow
def test_a_backup_reaches_standard_output_by_any_name(program: Program, tmp_path: Path, conversation: str) -> None:
    for name in ("-", "/dev/stdout"):
        with open(tmp_path / "copy.db", "wb") as copy:
            words = [sys.executable, "-m", "understudy", "backup", name]
            subprocess.run(words, cwd=program.cwd, env=program.environment(), stdout=copy, timeout=LONGEST, check=True)
        with closing(sqlite3.connect(tmp_path / "copy.db")) as store:
            assert store.execute("SELECT id FROM conversations").fetchall() == [(conversation,)]
    assert not (program.cwd / "-").exists()


# Starts a program that can write no file beyond so many bytes, as on a disk that is full.
WITH_SMALL_FILES = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["export", "backup"])
def test_a_write_that_fails_leaves_nothing_behind(program: Program, tmp_path: Path, conversation: str, command: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    words = ("export", conversation, "-o", str(folder / "x")) if command == "export" else ("backup", str(folder / "x"))
    done = subprocess.run(
        [sys.executable, "-c", WITH_SMALL_FILES, sys.executable, "-m", "understudy", *words],
        cwd=program.cwd,
        env=program.environment({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("understudy: ")
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []
    assert _write(program, command, conversation, folder / "x")[0] == 0, "and nothing is in the way of the next"


def test_what_a_killed_backup_left_is_cleared_by_the_next(program: Program, tmp_path: Path, conversation: str) -> None:
    left = tmp_path / ".copy.db.0123abcd.part"
    left.write_bytes(b"")
    left.with_name(left.name + "-journal").write_bytes(b"")
    (tmp_path / ".copy.db.mine").write_text("another's")
    assert _write(program, "backup", conversation, tmp_path / "copy.db")[0] == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"copy.db", ".copy.db.mine"}
    assert not list(tmp_path.glob("*.part*"))


WRITER = """
import sys, time
from pathlib import Path
from understudy.cli.conversations.output_file import new_file
with new_file(Path(sys.argv[1]), may_replace=True) as part:
    part.write_bytes(b"half of it")
    print("begun", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_writer_that_is_ended_by_a_signal_leaves_the_target_and_nothing_in_the_way(
    program: Program, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "x").write_text("before")
    words = [sys.executable, "-c", WRITER, str(folder / "x")]
    process = subprocess.Popen(words, env=program.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    with new_file(folder / "x", may_replace=True) as part:
        assert len(list(folder.glob(".x.*.part"))) == 2, "one that is at work is not disturbed"
        part.write_text("after")
        process.send_signal(number)
        process.wait(LONGEST)
    process.stdout.close()
    assert (folder / "x").read_text() == "after"
    with new_file(folder / "x", may_replace=True):
        pass
    assert [path.name for path in folder.iterdir()] == ["x"]
