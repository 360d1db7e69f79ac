"""The variables a command is given, by `shell_environment_policy`."""

import re
from collections.abc import Iterable, Mapping

from understudy.config.model import ShellEnvironment

_CORE = frozenset(("HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"))
_DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")


def command_environment(policy: ShellEnvironment, env: Mapping[str, str]) -> dict[str, str]:
    """Inherit, drop what looks like a secret, drop `exclude`, add `set`, and keep only `include_only` if that is given."""
    match policy.inherit:
        case "all":
            kept = dict(env)
        case "core":
            kept = {name: value for name, value in env.items() if name in _CORE}
        case "none":
            kept = {}
    excluded = policy.exclude if policy.ignore_default_excludes else (*_DEFAULT_EXCLUDES, *policy.exclude)
    if excluded:
        unwanted = _matcher(excluded)
        kept = {name: value for name, value in kept.items() if not unwanted.fullmatch(name)}
    kept.update(policy.set or {})
    if policy.include_only:
        wanted = _matcher(policy.include_only)
        kept = {name: value for name, value in kept.items() if wanted.fullmatch(name)}
    return kept


def _matcher(patterns: Iterable[str]) -> re.Pattern[str]:
    """Whole names, without regard to case; `*` and `?` are the only wildcards."""
    wild = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return re.compile("|".join(f"(?:{pattern})" for pattern in wild), re.IGNORECASE | re.DOTALL)
