"""Where a command's program is, tried place by place."""

import os
from collections.abc import Callable

from .plan import Plan

_ENOENT, _ENOEXEC, _ENOTDIR = 2, 8, 20

Attempt = Callable[[bytes, "list[bytes]"], None]  # program and argv: execute or spawn it, raise OSError


def execute(plan: Plan, attempt: Attempt) -> int:
    """Try each place where the program may be; returns the error number, 0 after success.

    As execvp does, a text file without #! is given to /bin/sh.
    """
    program = plan.argv[0]
    if b"/" in program:
        candidates = [program]
    else:
        path = plan.environment.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
        candidates = [os.path.join(folder or b".", program) for folder in path.split(b":")]
        candidates = [candidate for candidate in candidates if not _is_missing(candidate)]  # an attempt is a new process
    result = _ENOENT
    for candidate in candidates:
        try:
            try:
                attempt(candidate, plan.argv)
            except OSError as error:
                if error.errno != _ENOEXEC:
                    raise
                attempt(b"/bin/sh", [b"sh", candidate, *plan.argv[1:]])
        except OSError as error:
            number = error.errno or _ENOENT
            if number not in (_ENOENT, _ENOTDIR):
                result = number
        else:
            return 0
    return result


def _is_missing(path: bytes) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # whatever it is, executing it gives the right answer
    return False
