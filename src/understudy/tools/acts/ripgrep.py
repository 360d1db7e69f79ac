"""Uses ripgrep, if it is installed, to find which of the files that we have opened contain a word, so that we search only those.

ripgrep gets no path or folder, only open files that were judged here, so it reads nothing that we would not. Our own search decides
what matches and what is shown, so the results are the same with and without it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

FEWEST_BYTES = 4 << 20  # of a batch: with fewer, we are done before ripgrep has started
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_OPTIONS = (
    "--no-config",
    "--fixed-strings",
    "--files-with-matches",
    "--text",
    "--null",
    "--no-messages",
    "--no-mmap",
    "--threads=2",
)


def find_ripgrep(search_path: str | None, project: Sequence[str]) -> str | None:
    """From the user's own search path. Programs of the project, or in a place where a command may write, are not used."""
    for folder in (search_path or "").split(":"):
        if not folder.startswith("/"):
            continue
        program = os.path.realpath(os.path.join(folder, "rg"))
        if any(_is_in(path, root) for path in (program, folder, os.path.realpath(folder)) for root in project):
            continue
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def files_with(program: str, words: Sequence[str], files: Sequence[int], most_bytes: int, deadline: float) -> frozenset[int]:
    """The open files that may contain one of the words; all of them if that is not known."""
    sizes = {file: os.fstat(file).st_size for file in files}
    asked = [file for file in files if sizes[file] <= most_bytes and os.pread(file, 2, 0) not in _UTF_16]
    if sum(sizes[file] for file in asked) < FEWEST_BYTES:
        return frozenset(files)
    command = [program, *_OPTIONS, *(f"--regexp={word}" for word in words), "--", *(f"{_DESCRIPTORS}/{file}" for file in asked)]
    try:
        done = subprocess.run(
            command,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=asked,
            timeout=max(0.1, deadline - time.monotonic()),
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return frozenset(files)
    if done.returncode not in (0, 1):  # neither "found" nor "not found"
        return frozenset(files)
    found = {int(path.rpartition(b"/")[2]) for path in done.stdout.split(b"\0") if path}
    return frozenset(files) - (frozenset(asked) - found)
