"""Small files of ours that decide what is trusted and who comes in: nothing is believed that others could have written."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from understudy.config.private_file import PrivateFile, written_beside
from understudy.errors import ConfigError


def made(path: Path, text: str = '{"a": 1}', mode: int = 0o600) -> PrivateFile:
    path.write_text(text)
    path.chmod(mode)
    return PrivateFile(path)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- reading


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "list.json")
    assert file.read() is None
    for content in ({"a": [1, "ä"]}, {}, {"b": None}):
        file.write(content)
        assert file.read() == content
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert names(tmp_path) == {"list.json"}


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"', "null", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_what_is_no_object_comes_out_empty(tmp_path: Path, text: str) -> None:
    assert made(tmp_path / "list.json", text).read() == {}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o622])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = made(tmp_path / "list.json", mode=mode)
    with pytest.raises(ConfigError) as refused:
        file.read()
    assert str(refused.value) == f"{file.path} could have been written by others. Expected a file of your own with mode 0600"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away: run the tests as root for it")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = made(tmp_path / "list.json")
    os.chown(file.path, 12345, 12345)
    with pytest.raises(ConfigError, match="could have been written by others"):
        file.read()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_only_a_secret_may_not_be_read_by_others(tmp_path: Path, mode: int) -> None:
    file = made(tmp_path / "list.json", mode=mode)
    assert file.read() == {"a": 1}
    with pytest.raises(ConfigError) as refused:
        PrivateFile(file.path, secret=True).read()
    assert str(refused.value) == f"{file.path} can be read by others: chmod 600 it, and better get new keys too"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700, 0o711])
def test_a_secret_that_only_we_can_read_is_read(tmp_path: Path, mode: int) -> None:
    assert PrivateFile(made(tmp_path / "list.json", mode=mode).path, secret=True).read() == {"a": 1}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    made(tmp_path / "other.json")
    (tmp_path / "list.json").symlink_to("other.json")
    with pytest.raises(ConfigError, match=r"cannot read .*/list\.json: Too many levels of symbolic links"):
        PrivateFile(tmp_path / "list.json").read()


def test_a_pipe_and_a_folder_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir()
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set[str]()
    for name in ("pipe", "folder"):
        with pytest.raises(ConfigError) as refused:
            PrivateFile(tmp_path / name).read()
        assert str(refused.value) == f"cannot read {tmp_path / name}: it is no file; move it away"
    assert not before or set(os.listdir("/proc/self/fd")) <= before


# -- writing


def test_what_stood_beside_it_from_an_earlier_try_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / f".list.json.{os.getpid()}").write_text("x" * 10_000)
    file = PrivateFile(tmp_path / "list.json")
    file.write({"a": 1})
    assert file.read() == {"a": 1}
    assert names(tmp_path) == {"list.json"}


def test_a_link_planted_beside_it_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / f".list.json.{os.getpid()}").symlink_to("victim")
    with pytest.raises(ConfigError, match=r"list\.json cannot be written: Too many levels of symbolic links"):
        PrivateFile(tmp_path / "list.json").write({"a": 1})
    assert (tmp_path / "victim").read_text() == "kept"
    assert not (tmp_path / "list.json").exists()


def test_what_cannot_be_put_in_place_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "list.json").mkdir()
    with pytest.raises(ConfigError, match=r"list\.json cannot be written: Is a directory"):
        PrivateFile(tmp_path / "list.json").write({"a": 1})
    assert names(tmp_path) == {"list.json"}
    with pytest.raises(ConfigError) as refused:
        PrivateFile(tmp_path / "nowhere" / "list.json").write({})
    assert str(refused.value) == f"{tmp_path / 'nowhere' / 'list.json'} cannot be written: No such file or directory"


def test_a_text_that_is_not_put_in_place_is_gone_again(tmp_path: Path) -> None:
    with written_beside(tmp_path / "list.json", "text ä") as beside:
        assert beside.read_text(encoding="utf-8") == "text ä"
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
        assert names(tmp_path) == {beside.name}
    assert names(tmp_path) == set()


# -- one writer at a time


def test_while_it_is_locked_nobody_else_gets_the_lock(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "home" / "deep" / "list.json")
    with file.locked():
        lock = file.path.with_name("list.json.lock")
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        assert stat.S_IMODE(lock.parent.stat().st_mode) == 0o700
        with lock.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with file.locked():  # the folder is there already
        pass


def test_a_lock_goes_with_an_error(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "list.json")
    with pytest.raises(ZeroDivisionError), file.locked():
        raise ZeroDivisionError
    with (tmp_path / "list.json.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
