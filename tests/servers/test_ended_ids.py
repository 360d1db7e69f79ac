"""What was ended before its time stays ended, whatever becomes of the file that says so."""

import os
import time
from pathlib import Path

from understudy.servers.sealing import EndedIds

LIFETIME = 3600.0


def test_names_are_known_to_others_and_forgotten_once_they_would_not_be_valid_any_more(tmp_path: Path) -> None:
    path, now = tmp_path / "ended", int(time.time())
    first, second = EndedIds(path, LIFETIME), EndedIds(path, LIFETIME)
    for number in range(10):
        first.add(f"{number:x}", now - 2 * int(LIFETIME))
    first.add("abc", now)
    second.reload()
    assert "abc" in second
    assert "abc" in EndedIds(path, LIFETIME)
    assert path.read_text() == f"abc {now}\n"


def test_a_file_that_cannot_be_written_anew_is_used_as_it_is(tmp_path: Path) -> None:
    path, now = tmp_path / "ended", int(time.time())
    path.write_text("".join(f"{number:x} 1\n" for number in range(10)) + f"abc {now}\n")
    before = path.read_bytes()
    (tmp_path / f".ended.{os.getpid()}" / "in the way").mkdir(parents=True)
    assert "abc" in EndedIds(path, LIFETIME)
    assert path.read_bytes() == before
