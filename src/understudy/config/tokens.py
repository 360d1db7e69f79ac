"""Who may call a server over HTTP: the first token, which is the local user's, and named tokens with rights of their own.

The first is stored as it is, in `understudy/token` (0600). Of the others only hashes are stored, in `understudy/tokens.toml`.
"""

import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time
from hashlib import sha256
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from understudy.config.private_file import written_beside
from understudy.errors import ConfigError
from understudy.protocol.callers import LOCAL_NAME, PersonBudget, Right
from understudy.protocol.choices import PERIODS, PERSON_LIMITS, Period, PersonLimit, SandboxMode

RIGHTS: tuple[Right, ...] = get_args(Right)
DEFAULT_RIGHTS: tuple[Right, ...] = ("run", "approve", "read")
MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)
DEFAULT_MODES: tuple[SandboxMode, ...] = ("read-only", "workspace-write")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_PREFIX = "us_"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_BUDGET = re.compile(rf"({'|'.join(PERSON_LIMITS)})=(\d{{1,15}}(?:\.\d{{1,6}})?)/({'|'.join(PERIODS)})", re.ASCII)
_MEMBERS = ("name", "hash", "rights", "others", "roots", "sandbox", "budget", "expires")


class NamedToken(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    hash: str
    rights: tuple[Right, ...] = DEFAULT_RIGHTS  # on one's own conversations
    others: tuple[Right, ...] = ()  # on everybody else's
    roots: tuple[str, ...] | None = None  # folders in which they may work; None: anywhere
    sandbox: tuple[SandboxMode, ...] = DEFAULT_MODES
    budget: tuple[str, ...] = ()  # as `parse_budget` reads them
    expires: str | None = None  # RFC 3339

    @property
    def budgets(self) -> tuple[PersonBudget, ...]:
        return tuple(parse_budget(text) for text in self.budget)

    def has_expired(self, now: datetime) -> bool:
        return self.expires is not None and datetime.fromisoformat(self.expires) <= now


def new_token() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    return "sha256:" + sha256(token.encode()).hexdigest()


def tokens_file(state_dir: Path) -> Path:
    return state_dir / "tokens.toml"


def first_token(path: Path) -> str:
    """The local user's token; made if there is none. Raises `ConfigError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.path.lexists(path):
        with written_beside(path, new_token() + "\n") as beside, suppress(FileExistsError):
            os.link(beside, path)  # another process has just made it
    token = _read_text(path).strip()
    if len(token) < 16 or not token.isascii() or any(character.isspace() for character in token):
        raise ConfigError(f"{path} does not hold a token of at least 16 characters: remove the file, and a new one is made")
    return token


def read_tokens(path: Path) -> tuple[NamedToken, ...]:
    """Raises `ConfigError` that names the entry and the expected value."""
    try:
        text = _read_text(path)
    except FileNotFoundError:
        return ()
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    entries = tree.get("token", [])
    if set(tree) - {"token"} or not isinstance(entries, list):
        raise ConfigError(f"{path} should have entries [[token]] and nothing else")
    tokens = tuple(_read_entry(path, entry) for entry in cast(list[Any], entries))
    names = [token.name for token in tokens]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path} has two tokens with the name `{name}`")
    return tokens


def write_tokens(path: Path, tokens: Iterable[NamedToken]) -> None:
    """All or nothing. Raises `ConfigError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = ["# Made by `understudy token`. A running server reads it again when it changes.\n"]
    for token in tokens:
        lines.append("\n[[token]]\n")
        for member in _MEMBERS:
            value = getattr(token, member)
            if value is not None and (value or member != "budget"):
                text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON may contain it, TOML may not
                lines.append(f"{member} = {text}\n")
    with written_beside(path, "".join(lines)) as beside:
        os.replace(beside, path)


def _read_entry(path: Path, entry: object) -> NamedToken:
    if not isinstance(entry, dict):
        raise ConfigError(f"{path}: an entry [[token]] should be a table")
    table = cast(Mapping[str, Any], entry)
    name = table.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == LOCAL_NAME:
        raise ConfigError(f"{path}: a token needs a `name` of letters, digits, `.`, `_`, `@` and `-`, other than `{LOCAL_NAME}`")

    def fail(member: str, wanted: str) -> ConfigError:
        return ConfigError(f"{path}: `{member}` of the token `{name}` should be {wanted}")

    def choices(member: str, known: tuple[str, ...], default: tuple[str, ...]) -> tuple[Any, ...]:
        given = table.get(member, list(default))
        if not isinstance(given, list) or any(item not in known for item in cast(list[Any], given)):
            raise fail(member, f"a list of {', '.join(known)}")
        return tuple(cast(list[Any], given))

    if unknown := set(table) - set(_MEMBERS):
        raise ConfigError(f"{path}: the token `{name}` has `{min(unknown)}`, which is not known; known are {', '.join(_MEMBERS)}")
    hashed = table.get("hash")
    if not isinstance(hashed, str) or not _HASH.fullmatch(hashed):
        raise fail("hash", "`sha256:` and 64 hexadecimal digits")
    roots = table.get("roots")
    if roots is not None and (
        not isinstance(roots, list) or not all(isinstance(root, str) and os.path.isabs(root) for root in cast(list[Any], roots))
    ):
        raise fail("roots", "a list of absolute paths")
    return NamedToken(
        name=name,
        hash=hashed,
        rights=choices("rights", RIGHTS, DEFAULT_RIGHTS),
        others=choices("others", RIGHTS, ()),
        roots=None if roots is None else tuple(cast(list[str], roots)),
        sandbox=choices("sandbox", MODES, DEFAULT_MODES),
        budget=_read_budgets(table.get("budget", []), fail),
        expires=_read_expiry(table.get("expires"), fail),
    )


def parse_budget(text: str) -> PersonBudget:
    """Parses `cost_usd=50/month`. Raises `ValueError` that says what was expected."""
    found = _BUDGET.fullmatch(text)
    amount = float(found[2]) if found else 0.0
    if found is None or amount <= 0 or (found[1] != "cost_usd" and amount != int(amount)):
        raise ValueError(
            f"{text!r} is not LIMIT=N/PERIOD: the limit is one of {', '.join(PERSON_LIMITS)}, N a number above 0 "
            f"(whole, but for cost_usd), the period one of {', '.join(PERIODS)}; for example cost_usd=50/month"
        )
    return PersonBudget(cast(PersonLimit, found[1]), amount, cast(Period, found[3]))


def _read_budgets(value: object, fail: Any) -> tuple[str, ...]:
    texts = cast(list[Any], value) if isinstance(value, list) else [value]
    try:
        return tuple(str(parse_budget(text if isinstance(text, str) else "")) for text in texts)
    except ValueError:
        raise fail("budget", 'a list such as ["cost_usd=50/month"]') from None


def _read_expiry(value: object, fail: Any) -> str | None:
    if value is None:
        return None
    try:
        return parse_expiry(value)
    except ValueError:
        raise fail("expires", "a date or a date and time, such as 2027-01-31") from None


def parse_expiry(value: object) -> str:
    """A date means its last moment, UTC. Raises `ValueError`."""
    if isinstance(value, str):
        value = date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return datetime.combine(value, time(23, 59, 59), UTC).isoformat()
    raise ValueError(value)


def _read_text(path: Path) -> str:
    """Raises `FileNotFoundError` and `ConfigError`."""
    try:
        return read_private(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None


def read_private(path: Path) -> bytes:
    """Raises `FileNotFoundError`, and `ConfigError` if others could read or write it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} should be a plain file with mode 0600: it holds keys. Move away what is there")
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ConfigError(f"{path} should be a file of your own with mode 0600: it holds keys. Run: chmod 600 {path}")
        return os.read(descriptor, 1 << 20)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    finally:
        os.close(descriptor)
