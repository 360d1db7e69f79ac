"""Did the sandbox refuse a command something? A guess from its outcome, and what to tell the model then."""

from signal import SIGSYS

from understudy.sandbox.spec import CommandResult, Containment

_SIGNS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
)
_CERTAIN_SIGNS = ("read-only file system", "permission denied", "operation not permitted")
_ORDINARY_FAILURES = (2, 126, 127)  # wrong use, not executable, not found


def looks_denied(result: CommandResult, printed: str) -> bool:
    """True when a contained command failed in a way that containment would explain."""
    if result.signal == SIGSYS:
        return True
    if result.exit_code == 0 or result.timed_out or result.spawn_error is not None or result.setup_error is not None:
        return False
    words = printed.lower()
    if result.exit_code in _ORDINARY_FAILURES:
        return any(sign in words for sign in _CERTAIN_SIGNS)
    return any(sign in words for sign in _SIGNS)


def denial_hint(containment: Containment) -> str:
    """What was out of bounds, and what can be done."""
    roots = ", ".join(containment.writable_roots)
    may_write = f"writable: {roots} and /tmp" if roots else "nothing but /tmp is writable"
    return (
        f"[sandbox: this command was probably refused something. Mode {containment.mode}, {may_write}, "
        f"network {containment.network}. Work inside these bounds, or ask for the command to run outside them with a "
        "justification if that is offered.]"
    )
