"""Search in what was said and run, limited to what the caller may read and with secrets masked."""

from collections.abc import Mapping

import msgspec

from understudy.policy.secrets import REDACTED, may_hold_token, names_a_secret, redact, secret_pattern
from understudy.protocol.callers import Caller
from understudy.store.log import Store
from understudy.store.search.asked import Found, Mask, Wanted


def mask_of(env: Mapping[str, str]) -> Mask:
    """Masks values of variables that are named like secrets, and tokens of well-known kinds."""
    values = [value for name, value in env.items() if names_a_secret(name)]
    pattern = secret_pattern(values)

    def mask(text: str) -> str:
        if may_hold_token(text):
            return pattern.sub(REDACTED, text)
        return redact(text, values)

    return mask


async def search(store: Store, caller: Caller, wanted: Wanted, mask: Mask) -> Found:
    """Search the kept conversations; others leave no trace, not even in an index. Raises `BadRequest` and `StoreError`."""
    own, others = "read" in caller.rights, "read" in caller.others
    if not own and not others:
        return Found((), None)
    wanted = msgspec.structs.replace(wanted, owner=None if others else caller.name)
    found = await store.search.find(wanted, mask)
    if own:
        return found
    return Found(tuple(hit for hit in found.hits if hit.owner != caller.name), found.next)
