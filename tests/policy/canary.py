"""Runs command lines under a watch: which of them changes a file, starts a program it did not name, or opens a socket?

As a script it is the runner: it reads lines from a file and runs each, announcing it by a look at a path that does not exist,
so that the trace can be read line by line.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_ANNOUNCED = "/nonexistent/canary/"
_TRACED = (
    "execve,execveat,socket,bind,listen,open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,"
    "linkat,symlink,symlinkat,mknod,mknodat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utimensat,utimes,"
    "setxattr,lsetxattr,fsetxattr,removexattr,mount,ptrace,kill,tkill,faccessat,faccessat2,access"
)
_CALL = re.compile(r"^(?:\d+ +)?(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|0x[0-9a-f]+)")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_HARMLESS_CALLS = frozenset(("access", "faccessat", "faccessat2"))
_LINE_SECONDS = 60

Line = tuple[str, ...]


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every path below: mode, time of change and content."""
    found: dict[str, tuple[int, int, str]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


def run_watched(lines: Sequence[Line], programs: Sequence[Line], cwd: Path, trace: Path, search_path: str) -> dict[int, list[str]]:
    """What each line did beyond reading and starting its own programs, by its number; lines that did nothing are left out."""
    script = trace.with_suffix(".json")
    script.write_text(json.dumps(lines))
    watch = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "4096", "-e", f"trace={_TRACED}", "-o", str(trace)]
    subprocess.run(
        [*watch, sys.executable, "-I", "-S", __file__, str(script)],
        cwd=cwd,
        env={"PATH": search_path, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
        timeout=_LINE_SECONDS * 60,
        check=True,
    )
    return _read_trace(trace, programs)


def _read_trace(trace: Path, programs: Sequence[Line]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    number = -1
    started: list[str] = []
    for text in _whole_calls(trace):
        call = _CALL.match(text)
        if call is None:
            continue
        if _ANNOUNCED in call["arguments"]:
            number = int(call["arguments"].split(_ANNOUNCED)[1].split('"')[0])
            started = []
        elif 0 <= number < len(programs):  # else it is the runner's own start and end
            if call["name"] == "execve" and call["result"] == "0":
                started.append(os.path.basename(call["arguments"].split('"')[1]))
                if started.count(started[-1]) > programs[number].count(started[-1]):
                    found.setdefault(number, []).append(text)
            elif not _only_reads(call["name"], call["arguments"]):
                found.setdefault(number, []).append(text)
    assert number == len(programs), f"the runner stopped at line {number} of {len(programs)}"
    return found


def _whole_calls(trace: Path) -> Iterator[str]:
    """The trace's lines, with calls that are told in two halves put together."""
    halves: dict[str, str] = {}
    with trace.open(errors="replace") as file:
        for text in file:
            process = text.split(" ", 1)[0]
            if text.rstrip().endswith("<unfinished ...>"):
                halves[process] = text.rstrip().removesuffix("<unfinished ...>")
            elif " resumed>" in text and process in halves:
                yield halves.pop(process) + text.split(" resumed>", 1)[1]
            else:
                yield text


def _only_reads(name: str, arguments: str) -> bool:
    if name in _HARMLESS_CALLS or name == "execve":
        return True
    if name in ("open", "openat"):
        return not _WRITES.search(arguments) or '"/dev/null"' in arguments or '"/dev/tty"' in arguments
    # the C library asks a local daemon for the names of users and groups, if there is one
    return name == "socket" and "AF_UNIX" in arguments


def _run_lines(script: str) -> None:
    lines: list[list[str]] = json.loads(Path(script).read_text())
    for number, argv in enumerate(lines):
        os.access(f"{_ANNOUNCED}{number}", os.F_OK)
        try:
            subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_LINE_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            pass  # not every system has every program
    os.access(f"{_ANNOUNCED}{len(lines)}", os.F_OK)


if __name__ == "__main__":
    _run_lines(sys.argv[1])
