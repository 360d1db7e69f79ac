"""What an approval for the session covers: one exact command, in one place, with one environment, in one mode.

If the caller says so, it also ends when the scripts that the command names change.
"""

import hashlib
from collections.abc import Iterable, Mapping

from understudy.policy.words import Words
from understudy.protocol.choices import SandboxMode


def approval_key(argv: Words, cwd: str, environment: str, mode: SandboxMode, depends_on: str = "") -> str:
    """Equal for two calls only if all is equal: words, folder, mode, the environment's digest, and what they depend on."""
    return _digest((mode, cwd, environment, depends_on, *argv))


def dependencies_digest(depends_on: str) -> str:
    """The digest of what a command depends on, for its question; it survives a restart if nothing has changed."""
    return _digest((depends_on,))


class _Latest:
    """Keeps the digest of the latest environment, because consecutive commands usually have the same."""

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
    """Represents all variables in a key without revealing them: one keyless hash of them together."""
    return _latest.digest(variables)


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw))  # with lengths, so that different lists of parts never give the same bytes
        digest.update(raw)
    return digest.hexdigest()
