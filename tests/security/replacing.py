"""Ways in which programs outside the sandbox replace, move or change what stands at a name.

Each takes the path and a folder beside the root. Some need a file there, some a folder; where the other one stands they do
something like it, or nothing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

FRESH = "FRESH-CONTENT"  # what the user puts there: of a masked path the secret
Way = Callable[[Path, Path], None]

_libc = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fresh_file(at: Path) -> Path:
    at.write_text(FRESH)
    return at


def fresh_folder(at: Path) -> Path:
    at.mkdir()
    (at / "key").write_text(FRESH)
    return at


def exchange(one: Path, other: Path) -> None:
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), one)


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def rename_over(path: Path, aside: Path, new: Path) -> None:
    if is_folder(path) != is_folder(new) or (is_folder(path) and any(path.iterdir())):
        remove(path)
    new.replace(path)


def rename_a_file_over(path: Path, aside: Path) -> None:
    rename_over(path, aside, fresh_file(aside / "new"))


def rename_a_folder_over(path: Path, aside: Path) -> None:
    rename_over(path, aside, fresh_folder(aside / "new"))


def rename_a_link_over(path: Path, aside: Path) -> None:
    (aside / "new").symlink_to(fresh_file(aside / "target"))
    rename_over(path, aside, aside / "new")


def save_as_editors_do(path: Path, aside: Path) -> None:
    new = path.with_name(f".{path.name}.swp")
    rename_over(path, aside, fresh_file(new))


def keep_a_backup_and_write(path: Path, aside: Path) -> None:
    path.rename(path.with_name(path.name + "~"))
    fresh_file(path)


def copy_a_backup_and_write_in_place(path: Path, aside: Path) -> None:
    if is_folder(path):
        shutil.copytree(path, aside / "copy", symlinks=True)
    else:
        shutil.copy(path, aside / "copy", follow_symlinks=False)
    write_in_place(path, aside)


def remove_only(path: Path, aside: Path) -> None:
    remove(path)


def remove_and_write(path: Path, aside: Path) -> None:
    remove(path)
    fresh_file(path)


def remove_and_make_a_folder(path: Path, aside: Path) -> None:
    remove(path)
    fresh_folder(path)


def remove_and_link(path: Path, aside: Path) -> None:
    remove(path)
    path.symlink_to(fresh_file(aside / "target"))


def remove_and_link_to_a_folder(path: Path, aside: Path) -> None:
    remove(path)
    path.symlink_to(fresh_folder(aside / "target"))


def remove_and_give_a_file_the_name(path: Path, aside: Path) -> None:
    remove(path)
    path.hardlink_to(fresh_file(aside / "other"))


def remove_and_make_a_pipe(path: Path, aside: Path) -> None:
    remove(path)
    os.mkfifo(path)


def remove_and_make_a_socket(path: Path, aside: Path) -> None:
    remove(path)
    folder = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def remove_and_begin_a_repository(path: Path, aside: Path) -> None:
    remove(path)
    git("init", "-q", "--bare", str(path))


def replace_many_times(path: Path, aside: Path) -> None:
    for _ in range(20):
        remove(path)
        fresh_file(path)


def give_it_back_its_own_inode(path: Path, aside: Path) -> None:
    if is_folder(path) or not path.exists():
        rename_away_and_back(path, aside)
        return
    (aside / "held").hardlink_to(path)
    path.unlink()
    path.hardlink_to(aside / "held")


def rename_its_own_second_name_over(path: Path, aside: Path) -> None:
    """Which does nothing at all."""
    if is_folder(path):
        return
    os.link(path, aside / "second", follow_symlinks=False)
    (aside / "second").replace(path)


def rename_away(path: Path, aside: Path) -> None:
    path.rename(aside / "gone")


def rename_away_within_the_root(path: Path, aside: Path) -> None:
    path.rename(path.with_name(f"{path.name}.gone"))


def rename_away_and_back(path: Path, aside: Path) -> None:
    path.rename(aside / "gone")
    (aside / "gone").rename(path)


def rename_away_and_write(path: Path, aside: Path) -> None:
    path.rename(aside / "gone")
    fresh_file(path)


def rename_away_and_make_a_folder(path: Path, aside: Path) -> None:
    path.rename(aside / "gone")
    fresh_folder(path)


def exchange_with_a_file(path: Path, aside: Path) -> None:
    exchange(path, fresh_file(aside / "new"))


def exchange_with_a_folder(path: Path, aside: Path) -> None:
    exchange(path, fresh_folder(aside / "new"))


def exchange_and_back(path: Path, aside: Path) -> None:
    exchange(path, fresh_file(aside / "new"))
    exchange(path, aside / "new")


def ln(path: Path, aside: Path) -> None:
    subprocess.run(["ln", "-sfn", str(fresh_file(aside / "target")), str(path)], check=False, capture_output=True)


def cp(path: Path, aside: Path) -> None:
    if is_folder(path):
        remove(path)
    subprocess.run(["cp", "--remove-destination", str(fresh_file(aside / "new")), str(path)], check=True)


def install(path: Path, aside: Path) -> None:
    if is_folder(path):
        remove(path)
    subprocess.run(["install", "-m", "644", str(fresh_file(aside / "new")), str(path)], check=True)


def sed(path: Path, aside: Path) -> None:
    target = path / "key" if is_folder(path) else path
    subprocess.run(["sed", "-i", f"1i {FRESH}", str(target)], check=False, capture_output=True)


def mv(path: Path, aside: Path) -> None:
    if is_folder(path):
        remove(path)
    subprocess.run(["mv", "-f", str(fresh_file(aside / "new")), str(path)], check=True)


def mv_a_folder(path: Path, aside: Path) -> None:
    if not is_folder(path) or any(path.iterdir()):
        remove(path)
    subprocess.run(["mv", "-T", str(fresh_folder(aside / "new")), str(path)], check=True)


def unpack(path: Path, aside: Path) -> None:
    with tarfile.open(aside / "it.tar", "w") as made:
        made.add(fresh_file(aside / "new"), path.name)
    if is_folder(path):
        remove(path)
    subprocess.run(["tar", "-C", str(path.parent), "-xf", str(aside / "it.tar")], check=True)


def check_out(path: Path, aside: Path) -> None:
    """Another branch of a repository elsewhere that has its files here."""
    store, names = aside / "store", ("-c", "user.name=u", "-c", "user.email=u@example.org", "-c", "commit.gpgsign=false")
    if is_folder(path):
        remove(path)
    git("init", "-q", "--bare", str(store))
    here = ("--git-dir", str(store), "--work-tree", str(path.parent))
    fresh_file(aside / "new")
    tree = git("--git-dir", str(store), "hash-object", "-w", str(aside / "new")).strip()
    git(*here, "update-index", "--add", "--cacheinfo", f"100644,{tree},{path.name}")
    git(*here, *names, "commit", "-qm", "one")
    git(*here, "checkout", "-f", "HEAD", "--", path.name)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


# -- what leaves the same thing at the name


def write_in_place(path: Path, aside: Path) -> None:
    if is_folder(path):
        (path / "key").write_text(FRESH)
    elif path.is_file():
        with path.open("r+") as file:
            file.write(FRESH)


def append(path: Path, aside: Path) -> None:
    if path.is_file():
        with path.open("a") as file:
            file.write(FRESH)


def truncate(path: Path, aside: Path) -> None:
    if path.is_file():
        os.truncate(path, 0)
        with path.open("w") as file:
            file.write(FRESH)


def chmod(path: Path, aside: Path) -> None:
    path.chmod(0o755)


def touch(path: Path, aside: Path) -> None:
    os.utime(path, (1, 1), follow_symlinks=False)


def give_it_a_second_name_elsewhere(path: Path, aside: Path) -> None:
    if not is_folder(path):
        os.link(path, aside / "second", follow_symlinks=False)


def replace_what_is_in_the_folder(path: Path, aside: Path) -> None:
    if is_folder(path):
        fresh_file(aside / "new").replace(path / "key")


def empty_the_folder(path: Path, aside: Path) -> None:
    if is_folder(path):
        for each in path.iterdir():
            remove(each)


def fill_the_folder(path: Path, aside: Path) -> None:
    if is_folder(path):
        for number in range(20):
            (path / str(number)).write_text(FRESH)


def work_beside_it(path: Path, aside: Path) -> None:
    for number in range(50):
        fresh_file(path.with_name(f"other{number}")).rename(path.with_name("another"))
    path.with_name("another").unlink()


def rename_the_root_and_back(path: Path, aside: Path) -> None:
    path.parent.rename(aside / "root")
    (aside / "root").rename(path.parent)


def rename_the_root(path: Path, aside: Path) -> None:
    path.parent.rename(aside / "root")


def rename_the_root_and_make_another(path: Path, aside: Path) -> None:
    path.parent.rename(aside / "root")
    path.parent.mkdir()


REPLACING: tuple[Way, ...] = (
    *(rename_a_file_over, rename_a_folder_over, rename_a_link_over, save_as_editors_do, keep_a_backup_and_write),
    *(remove_only, remove_and_write, remove_and_make_a_folder, remove_and_link, remove_and_link_to_a_folder),
    *(remove_and_give_a_file_the_name, remove_and_make_a_pipe, remove_and_make_a_socket, remove_and_begin_a_repository),
    *(replace_many_times, give_it_back_its_own_inode, rename_away, rename_away_within_the_root, rename_away_and_back),
    *(rename_away_and_write, rename_away_and_make_a_folder, exchange_with_a_file, exchange_with_a_folder, exchange_and_back),
    *(ln, cp, install, sed, mv, mv_a_folder, unpack, check_out),
)
CHANGING: tuple[Way, ...] = (
    *(copy_a_backup_and_write_in_place, write_in_place, append, truncate, chmod, touch, give_it_a_second_name_elsewhere),
    *(replace_what_is_in_the_folder, empty_the_folder, fill_the_folder, work_beside_it, rename_its_own_second_name_over),
    *(rename_the_root_and_back, rename_the_root, rename_the_root_and_make_another),
)
