"""The file of `exec -o`. A model has chosen what is written, and may have put a link where it will be written."""

import errno
import os
import stat
from collections.abc import Callable, Sequence

from understudy.places.named_by_users import follow_links, is_in
from understudy.places.walking import open_plain

Act = Callable[[Callable[[], None]], None]


def write_last_message(file: str, message: str, roots: Sequence[str], act: Act = lambda work: work()) -> None:
    """`roots`: real folders that the model may write to. In them no link is followed, only a file gives way to this one, and it
    is written with the rights of the model's commands, which is what `act` is for.

    Raises OSError and ValueError.
    """
    path = os.path.join(os.getcwd(), file)
    folder, name = follow_links(path, lambda folder: is_in(folder, roots))
    if not name or not is_in(folder, roots):
        with open(path, "w", encoding="utf-8", newline="") as target:
            target.write(message)
        return

    def replace() -> None:
        descriptor = open_plain(folder)
        try:
            _replace(descriptor, name, message)
        finally:
            os.close(descriptor)

    act(replace)


def _replace(folder: int, name: str, message: str) -> None:
    mode: int | None = None
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "something stands there that is not a file")
        mode = stat.S_IMODE(before.st_mode) & 0o777
    beside = f".{os.urandom(6).hex()}.last-message"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(message)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(beside, dir_fd=folder)
        raise
