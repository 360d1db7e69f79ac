"""A conversation whose workspace is on another host: only a process of that host may claim it."""

from understudy.errors import HostAway, StandsElsewhere, StoreError
from understudy.store.log import Holder


class Elsewhere(Holder, frozen=True):
    """The host is None if nobody has claimed the conversation since it was moved into the database."""

    address: str = ""
    alive: bool = True  # a process serves that host, or did a moment ago


def why_not(conversation_id: str, holder: Holder) -> StoreError | None:
    """The error for a conversation that belongs to another host; None if the host is not the reason that it cannot be claimed."""
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
