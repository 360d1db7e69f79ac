"""Search in a database: it has no index of words yet, and says so."""

from understudy.errors import BadRequest
from understudy.store.search.asked import PATIENCE_SECONDS, Found, Mask, Wanted


class NoSearch:
    async def find(self, wanted: Wanted, mask: Mask, patience: float = PATIENCE_SECONDS) -> Found:
        raise BadRequest("conversations in a database cannot be searched yet: `understudy.store.url` names one")
