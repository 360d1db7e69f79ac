"""Hidden tests are laid over what an agent left, whatever it put in their way."""

import os
from pathlib import Path

from understudy.bench.judging import copy_work, lay_out
from understudy.bench.tasks import TaskFile

HIDDEN = {"tests/deep/test_it.py": TaskFile(b"judge"), "run": TaskFile(b"#!/bin/sh\n", True)}


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "file").write_text("mine")
    (work / "tests").symlink_to(outside)
    (work / "run").symlink_to(outside / "file")
    copy_work(work, tmp_path / "copy")
    lay_out(tmp_path / "copy", HIDDEN)
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_text() == "mine"
    assert (tmp_path / "copy" / "tests" / "deep" / "test_it.py").read_text() == "judge"
    assert os.access(tmp_path / "copy" / "run", os.X_OK)
    assert (work / "tests").is_symlink(), "what the agent left stays as it is"


def test_files_folders_and_pipes_in_the_way_are_replaced(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "run" / "full").mkdir(parents=True)
    (work / "tests").write_text("a file where a folder has to be")
    os.mkfifo(work / "pipe")
    copy_work(work, tmp_path / "copy")
    lay_out(tmp_path / "copy", {**HIDDEN, "pipe": TaskFile(b"a file")})
    assert (tmp_path / "copy" / "run").is_file()
    assert (tmp_path / "copy" / "tests" / "deep" / "test_it.py").read_text() == "judge"
    assert (tmp_path / "copy" / "pipe").read_bytes() == b"a file"
