"""`understudy token`: who may call a server over HTTP, and what each caller may do."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from understudy.cli.parsing import wrong_usage
from understudy.config.home import find_home, state_dir
from understudy.config.private_file import PrivateFile
from understudy.config.tokens import (
    DEFAULT_MODES,
    DEFAULT_RIGHTS,
    MODES,
    NAME,
    RIGHTS,
    NamedToken,
    hash_of,
    new_token,
    parse_budget,
    parse_expiry,
    read_tokens,
    tokens_file,
    write_tokens,
)
from understudy.errors import BadRequest
from understudy.protocol.callers import LOCAL_NAME

T = TypeVar("T", bound=str)

APPROVALS_LEAVE = (
    "Note: {name} may approve commands, and --root does not hold an approved command: it runs outside the sandbox, with all"
    " rights of the account that runs the server. Without that right (--rights run,read) --root confines them."
)


def run(options: Namespace) -> int:
    path = tokens_file(state_dir(find_home(os.environ)))
    if options.action == "list":
        return _list(read_tokens(path), as_json=options.json)
    with PrivateFile(path).locked():
        tokens = read_tokens(path)
        if options.action == "revoke":
            return _revoke(path, tokens, options.name)
        return _add(path, tokens, options)


def _add(path: Path, tokens: tuple[NamedToken, ...], options: Namespace) -> int:
    name: str = options.name
    if not NAME.fullmatch(name) or name == LOCAL_NAME:
        wrong_usage(f"`{name}` cannot be the name of a token: use letters, digits, `.`, `_`, `@` and `-`, and not `{LOCAL_NAME}`")
    if any(token.name == name for token in tokens):
        raise BadRequest(f"there is a token `{name}` already; revoke it first: understudy token revoke {name}")
    token = new_token()
    roots = None if not options.root else tuple(str(Path(root).resolve()) for root in options.root)
    for root in roots or ():
        if root != root.encode(errors="replace").decode():
            raise BadRequest(f"the name of the folder {root!a} is not UTF-8, which a list of tokens cannot hold; rename it")
    added = NamedToken(
        name=name,
        hash=hash_of(token),
        rights=_choices(options.rights, RIGHTS, DEFAULT_RIGHTS, "--rights"),
        others=_choices(options.others, RIGHTS, (), "--others"),
        roots=roots,
        sandbox=_choices(options.sandbox, MODES, DEFAULT_MODES, "--sandbox"),
        budget=_budgets(options.budget),
        expires=_expiry(options.expires),
    )
    write_tokens(path, (*tokens, added))
    print(f"The token of {name}, which is shown only now (a running server knows it within seconds):", file=sys.stderr)
    print(token)
    if roots is not None and "approve" in (*added.rights, *added.others):
        print(APPROVALS_LEAVE.format(name=name), file=sys.stderr)
    return 0


def _revoke(path: Path, tokens: tuple[NamedToken, ...], name: str) -> int:
    if all(token.name != name for token in tokens):
        known = ", ".join(token.name for token in tokens) or "none"
        raise BadRequest(f"there is no token `{name}`; there are: {known}")
    write_tokens(path, (token for token in tokens if token.name != name))
    print(f"The token of {name} is not valid any more; a running server lets it go within seconds.", file=sys.stderr)
    return 0


def _list(tokens: tuple[NamedToken, ...], *, as_json: bool) -> int:
    now = datetime.now(UTC)
    if as_json:
        rows = [
            {
                "name": token.name,
                "rights": token.rights,
                "others": token.others,
                "roots": token.roots,
                "sandbox": token.sandbox,
                "budget": token.budget,
                "expires": token.expires,
                "expired": token.has_expired(now),
            }
            for token in tokens
        ]
        print(msgspec.json.encode(rows).decode())
        return 0
    for token in tokens:
        parts = [f"rights {', '.join(token.rights) or 'none'}"]
        if token.others:
            parts.append(f"of others {', '.join(token.others)}")
        if token.roots is not None:
            parts.append(f"in {', '.join(token.roots)}")
        parts.append(f"sandbox {', '.join(token.sandbox) or 'none'}")
        if token.budget:
            parts.append(f"budget {', '.join(token.budget)}")
        if token.expires is not None:
            parts.append(f"{'EXPIRED' if token.has_expired(now) else 'until'} {token.expires}")
        print(f"{token.name}: {'; '.join(parts)}")
    if not tokens:
        print("There are no named tokens. `understudy token add NAME` makes one.", file=sys.stderr)
    return 0


def _choices(given: str | None, known: tuple[T, ...], default: tuple[T, ...], flag: str) -> tuple[T, ...]:
    if given is None:
        return default
    by_name = {str(choice): choice for choice in known}
    words = [word.strip() for word in given.split(",") if word.strip()]
    for word in words:
        if word not in by_name:
            wrong_usage(f"{flag} has `{word}`; it can have {', '.join(by_name)}, with commas between them")
    return tuple(by_name[word] for word in words)


def _budgets(given: Sequence[str]) -> tuple[str, ...]:
    try:
        budgets = [parse_budget(text) for text in given]
    except ValueError as error:
        wrong_usage(f"--budget {error}")
    kinds = [(budget.limit, budget.period) for budget in budgets]
    if len(set(kinds)) < len(kinds):
        wrong_usage("--budget has the same limit twice for one period; give one amount")
    return tuple(str(budget) for budget in budgets)


def _expiry(given: str | None) -> str | None:
    if given is None:
        return None
    try:
        return parse_expiry(given)
    except ValueError:
        wrong_usage(f"--expires {given} is not a date: write it as 2027-01-31")
