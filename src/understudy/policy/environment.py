"""The variables that a command gets: those that it needs, but no keys, tokens or passwords, and never a provider's key."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal, Protocol

from understudy.config.providers import BUILT_IN
from understudy.policy.words import names
from understudy.protocol.choices import NetworkMode

Inherit = Literal["all", "core", "none"]

CORE = names("HOME LOGNAME PATH SHELL USER USERNAME TMPDIR TEMP TMP")
DEFAULT_EXCLUDES = (
    "*KEY*",
    "*SECRET*",
    "*TOKEN*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*_PWD",
    "*_PASS",
    "*_PW",
    "PGPASS*",
    "*_PAT",
    "*COOKIE*",
    "*_DSN",
    "*JWT*",
    "*BEARER*",
    "OTEL_EXPORTER_*HEADERS",  # the key of a telemetry collector
    "*WEBHOOK*",  # whoever has the address may post there
    "*_CREDS",
    "*CONNECTION_STRING*",
    "*CONNECTIONSTRING*",
    "*CONNSTR*",
    "*_SAS",
    # `npm_config__auth`, `DOCKER_AUTH_CONFIG`, `BASIC_AUTH`, `COMPOSER_AUTH`; not `GIT_AUTHOR_NAME`
    "*_AUTH",
    "*_AUTH_*",
    "*AUTHORIZATION*",
    # sessions of password managers
    "BW_SESSION",
    "OP_SESSION*",
    "LPASS_*",
    # Bundler names its variables with credentials after hosts; git numbers them, and one is useless without the other
    *("BUNDLE_*__COM", "BUNDLE_*__ORG", "BUNDLE_*__NET", "BUNDLE_*__IO"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_VALUE_*", "GIT_CONFIG_PARAMETERS"),
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
)
# A command must be the program that its name says. These variables make a loader, a shell or a harmless program run something else
# first, so none of them is inherited; the user can bring one back with `set`.
STARTUP = (
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "BASHOPTS",
    "SHELLOPTS",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "PROMPT_COMMAND",
    "PS0",
    "PS4",
    "ZDOTDIR",
    "CDPATH",
    "GLOBIGNORE",
    "EXECIGNORE",
    "IFS",
    "RIPGREP_CONFIG_PATH",
    "GREP_OPTIONS",
    "POSIXLY_CORRECT",
    "LESSOPEN",
    "LESSCLOSE",
    "*ASKPASS",
    "PYTHONSTARTUP",
    "PERL5DB",
)
PROVIDER_KEYS = names("OPENAI_API_KEY CODEX_API_KEY") | {row.env_key for row in BUILT_IN if row.env_key is not None}

NETWORK_MARKER = "CODEX_SANDBOX_NETWORK_DISABLED"
SANDBOX_MARKER = "CODEX_SANDBOX"

_PASSWORD_IN_URL = re.compile(r"://[^/?#@\s:]*:[^/?#@\s]+@")
# Recognizes secrets by their value, whatever the variable's name: a password in an address or connection string, a header, a
# private
# key, or a token with a well-known beginning.
_SECRET_VALUE = re.compile(
    r"(?i:(?:^|[?&;])\s*(?:password|passwd|pwd|accountkey|sharedaccesskey|access_?key|api_?key|secret|token|sig)\s*=\s*[^\s;&])"
    r"|(?i:\bauthorization:\s*\S|^(?:basic|bearer)\s+\S{8})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:gh[pousr]_\w{20}|github_pat_\w{20}|glpat-[\w-]{20}|xox[abeprs]-[\w-]{10}|sk-[\w-]{20}|npm_\w{30}|pypi-\w{20}|hf_\w{20})"
    r"|\b(?:[rs]k_(?:live|test)_\w{16}|hv[sb]\.[\w-]{20}|ya29\.[\w-]{16}|SG\.[\w-]{16,}\.\w|AIza[\w-]{30}|do[opr]_v1_\w{20}|shp(?:at|ss)_\w{20})"
    r"|\b(?:AGE-SECRET-KEY-1\w{10}|xapp-[\w-]{10}|glsa_\w{20}|sq0(?:atp|csp)-[\w-]{20}|dapi[0-9a-f]{32}|tskey-[\w-]{10}|pul-[0-9a-f]{40})"
    r"|(?i:^jdbc:oracle:\w+:[^@/\s]+/[^@\s]+@)"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."
)
_SHORTEST_KEY = 8  # shorter values occur in other variables by chance


class EnvironmentPolicy(Protocol):
    """`shell_environment_policy`, as the configuration holds it."""

    @property
    def inherit(self) -> Inherit: ...
    @property
    def ignore_default_excludes(self) -> bool: ...
    @property
    def exclude(self) -> tuple[str, ...]: ...
    @property
    def set(self) -> Mapping[str, str] | None: ...
    @property
    def include_only(self) -> tuple[str, ...]: ...


def shell_environment(policy: EnvironmentPolicy, source: Mapping[str, str], *, provider_keys: Iterable[str] = ()) -> dict[str, str]:
    """Inherit variables, drop secrets and those that start other programs, drop `exclude`, add `set`; then, if it is given, keep
    only `include_only`.

    `provider_keys` are the names of variables with keys of model providers: neither these nor their values are ever passed,
    whatever the policy says.
    """
    match policy.inherit:
        case "all":
            kept = dict(source)
        case "core":
            kept = {name: value for name, value in source.items() if name in CORE}
        case "none":
            kept = {}
    unwanted = _matcher((*STARTUP, *policy.exclude, *(() if policy.ignore_default_excludes else DEFAULT_EXCLUDES)))
    kept = {name: value for name, value in kept.items() if not unwanted.has(name)}
    if not policy.ignore_default_excludes:
        kept = {name: value for name, value in kept.items() if not _is_secret(value)}
    kept.update(policy.set or {})
    if policy.include_only:
        wanted = _matcher(policy.include_only)
        kept = {name: value for name, value in kept.items() if wanted.has(name)}
    return _without_keys(kept, source, PROVIDER_KEYS | frozenset(provider_keys))


def _is_secret(value: str) -> bool:
    return _PASSWORD_IN_URL.search(value) is not None or _SECRET_VALUE.search(value) is not None


def secret_values(source: Mapping[str, str]) -> tuple[str, ...]:
    """The values in an environment that are secret by their name or by their form."""
    named = _matcher((*DEFAULT_EXCLUDES, *sorted(PROVIDER_KEYS)))
    found = (value for name, value in source.items() if named.has(name) or _is_secret(value))
    return tuple(dict.fromkeys(value.strip() for value in found if len(value.strip()) >= _SHORTEST_KEY))


_ASK_ONCE = {
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "npm_config_fetch_retries": "0",
}


def with_markers(
    environment: Mapping[str, str], *, contained: bool, network: NetworkMode, seatbelt: bool = False
) -> dict[str, str]:  # fmt: skip
    """Tell the command how it really runs: mention a sandbox only if it is in one, and a missing network only if it is missing.

    Package managers are also told not to retry what they cannot reach; npm alone would try for a minute.
    """
    marked = {name: value for name, value in environment.items() if name not in (NETWORK_MARKER, SANDBOX_MARKER)}
    if contained and network != "on":
        marked = {**_ASK_ONCE, **marked, NETWORK_MARKER: "1"}
    if contained and seatbelt:
        marked[SANDBOX_MARKER] = "seatbelt"
    return marked


def _without_keys(kept: Mapping[str, str], source: Mapping[str, str], keys: frozenset[str]) -> dict[str, str]:
    values = [value for name in keys if len(value := source.get(name, "")) >= _SHORTEST_KEY]
    return {
        name: value for name, value in kept.items() if name not in keys and not any(secret in value for secret in values)
    }  # fmt: skip


class _Names:
    """Patterns of whole names, ignoring case; only `*` and `?` are wildcards.

    Nearly all are a word with `*` before or behind it, which plain text comparison can match. Compiling one regular expression of
    all took 16,000 calls at the start of every server.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        words: set[str] = set()
        begins: list[str] = []
        ends: list[str] = []
        parts: list[str] = []
        others: list[str] = []
        for pattern in patterns:
            word = pattern.strip("*").casefold()
            if not word or "*" in word or "?" in word:
                others.append(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))
            elif pattern[0] == "*" == pattern[-1]:
                parts.append(word)
            elif pattern[0] == "*":
                ends.append(word)
            elif pattern[-1] == "*":
                begins.append(word)
            else:
                words.add(word)
        self._words, self._begins, self._ends, self._parts = frozenset(words), tuple(begins), tuple(ends), tuple(parts)
        alternatives = "|".join(f"(?:{other})" for other in others)
        self._others = re.compile(alternatives, re.IGNORECASE | re.DOTALL) if others else None

    def has(self, name: str) -> bool:
        folded = name.casefold()
        if folded in self._words or folded.startswith(self._begins) or folded.endswith(self._ends):
            return True
        if any(part in folded for part in self._parts):
            return True
        return self._others is not None and self._others.fullmatch(name) is not None


_matcher = lru_cache(maxsize=64)(_Names)
