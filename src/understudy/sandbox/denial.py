"""Guesses whether the sandbox refused something, and says what to tell the model about it."""

import re
import signal

from understudy.policy.network_use import HOW_TO_ALLOW, says_no_network
from understudy.sandbox.spec import CommandResult, Containment, LimitName

_WORDS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "device or resource busy",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
)


def likely_denied(result: CommandResult, output: str, containment: Containment | None) -> bool:
    """A guess, from the outcome of a contained command and the text that it wrote."""
    if containment is None or containment.mode == "danger-full-access" or result.timed_out or result.exit_code == 0:
        return False
    if not _ran(result):
        return False
    if result.signal == signal.SIGSYS:
        return True
    return _mentions(output, _WORDS) or (containment.network != "on" and says_no_network(output))


def network_hint(result: CommandResult, output: str, containment: Containment | None, *, user: str | None) -> str | None:
    """A hint, if a command probably failed because the sandbox has no network. `user`: see `network_user`."""
    if containment is None or containment.network == "on" or not _ran(result) or (result.exit_code == 0 and not result.timed_out):
        return None
    return no_network(user, containment) if user is not None or says_no_network(output) else None


def no_network(user: str | None, containment: Containment) -> str:
    """One line, for people and the model. `user`: see `network_user`."""
    command = f"`{user}`" if user is not None else "This command"
    if containment.network == "off":
        return f"{command} has no network: the sandbox gives it none. {HOW_TO_ALLOW}"
    return f"{command} reaches only servers that it starts itself: the sandbox gives it no other network. {HOW_TO_ALLOW}"


def _ran(result: CommandResult) -> bool:
    """Whether it ran until its own end or its time limit."""
    reasons = (result.setup_error, result.lost, result.spawn_error, result.limit, result.ended_because)
    return all(reason is None for reason in reasons)


def _mentions(output: str, words: tuple[str, ...]) -> bool:
    text = output.lower()
    return any(word in text for word in words)


_LIMIT_SAYING: dict[LimitName, str] = {
    "memory": "it used more memory than the limit of the sandbox allows",
    "disk": "it left too little room on a disk",
    "tmp": "it put more into /tmp than the limit of the sandbox allows",
    "processes": "it started more processes than the limit of the sandbox allows",
}


def remark(result: CommandResult) -> str | None:
    """What the exit code does not say about how a command ended."""
    said: list[str] = []
    if result.lost is not None:
        said.append(f"How the command ended is not known, and nothing of it runs any more: {result.lost}.")
    if result.limit is not None:
        said.append(f"The command was ended because {_LIMIT_SAYING[result.limit]}.")
    if result.ended_because is not None:
        said.append(f"The command was ended because {result.ended_because}. Start it again if it is still needed.")
    if result.cleared is not None:
        said.append(f"/tmp was emptied because {result.cleared}.")
    return " ".join(said) or None


def hint(result: CommandResult, output: str, containment: Containment | None, *, may_ask: bool = True) -> str | None:
    """What to tell the model after a likely denial: what this sandbox refuses, and what the model can do."""
    if containment is None or not likely_denied(result, output, containment):
        return None
    lines = ["The sandbox probably refused something this command tried.", f"- Writing: {_writing(containment)}"]
    if containment.protected and containment.mode == "workspace-write":
        lines.append(f"- Protected in there, not to be changed or created: {', '.join(containment.protected)}")
        lines += _opening(output, containment.protected)
    lines.append(f"- Network: {_network(containment)}")
    if result.signal == signal.SIGSYS or _mentions(output, ("operation not permitted",)):
        lines.append("- Also refused: tracing or inspecting other processes, mounting, new namespaces, kernel settings")
    otherwise = ", or ask for this one command to be run outside the sandbox and say why it is needed." if may_ask else "."
    lines.append(f"Work within these limits{otherwise}")
    return "\n".join(lines)


def _opening(output: str, protected: tuple[str, ...]) -> list[str]:
    """How to open each protected name that the output mentions: git's message, for one, sounds like a broken disk."""
    if not _mentions(output, ("read-only file system",)):
        return []
    names = [name for name in protected if not name.startswith("/")]
    met = next((name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", output)), None)
    if met is None:
        return []
    entry = f'protect = ["!{met}"]'
    return [f"- `{met}` is one of these. Only the user can open it, by {entry} under [understudy.sandbox] of the configuration"]


_NETWORK_SAYING = {
    "off": "none, not even to this machine or through unix sockets",
    "loopback": "only to servers that the same command starts on 127.0.0.1",
    "on": "allowed",
}


def _network(containment: Containment) -> str:
    saying = _NETWORK_SAYING[containment.network]
    return saying if containment.network == "off" or containment.unix_sockets else f"{saying}; no unix sockets"


def _writing(containment: Containment) -> str:
    if containment.mode == "read-only" or not containment.writable_roots:
        return "only to /tmp, which is private to this conversation; everything else is read-only"
    return f"only to {', '.join(containment.writable_roots)} and to /tmp, which is private to this conversation"
