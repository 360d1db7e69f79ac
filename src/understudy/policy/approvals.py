"""What an approval for the session covers: one exact command, in one place, with one environment, in one mode.

And, where the caller says so, while the scripts that it names stay as they are.
"""

import hashlib
from collections.abc import Iterable, Mapping

from understudy.policy.words import Words
from understudy.protocol.choices import SandboxMode


def approval_key(argv: Words, cwd: str, environment: str, mode: SandboxMode, depends_on: str = "") -> str:
    """Equal for two calls only if everything about them is: their environment, by its digest, and what they depend on."""
    return _digest((mode, cwd, environment, depends_on, *argv))


def dependencies_digest(depends_on: str) -> str:
    """What a question says of what its command depends on: the same after a restart, if nothing has changed."""
    return _digest((depends_on,))


class _Latest:
    """The digest of the environment that was asked about last: one command after another has the same."""

    def __init__(self) -> None:
        self._variables: dict[str, str] | None = None
        self._digest = ""

    def digest(self, variables: Mapping[str, str]) -> str:
        if variables != self._variables:
            self._variables = dict(variables)
            self._digest = _digest(part for name in sorted(variables) for part in (name, variables[name]))
        return self._digest


_latest = _Latest()


def environment_digest(variables: Mapping[str, str]) -> str:
    """Stands for the variables in a key without telling them: it is a keyless hash of all of them at once."""
    return _latest.digest(variables)


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw))  # lengths, so that no two lists of parts run together into the same bytes
        digest.update(raw)
    return digest.hexdigest()
