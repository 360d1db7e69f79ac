"""A conversation whose workspace lies on another host: only a process of that host may claim it."""

from understudy.errors import HostAway, StandsElsewhere, StoreError
from understudy.store.log import Holder


class Elsewhere(Holder, frozen=True):
    """The host is unknown if nobody has claimed the conversation since it came into the database."""

    address: str = ""
    alive: bool = True  # somebody serves it, or has done so a moment ago


def why_not(conversation_id: str, holder: Holder) -> StoreError | None:
    """The error for a conversation that lies on another host; None if its host is not what keeps it from being claimed."""
    if not isinstance(holder, Elsewhere):
        return None
    if holder.host is None:
        return HostAway(
            f"nobody has gone on with conversation {conversation_id} since it came into this database, so it is on no host yet: "
            "send to it once on the machine that has its folder"
        )
    if not holder.alive:
        return HostAway(
            f"This workspace is on host {holder.host}, which is away. Its conversation can be read; it goes on when "
            f"{holder.host} is back."
        )
    return StandsElsewhere(f"conversation {conversation_id} is on host {holder.host}")
