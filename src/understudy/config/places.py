"""The places of a conversation as its configuration names them."""

from understudy.config.model import Config
from understudy.places.own_code import load_nothing_from
from understudy.places.places import Places, pin_places
from understudy.protocol.records import Pins


def places_of(config: Config, known: Pins | None = None) -> Places:
    """Pinned as `known`, and the rest as it is now."""
    sandbox = config.sandbox
    load_nothing_from((str(config.cwd), *map(str, sandbox.writable_roots)))
    return pin_places(
        str(config.cwd),
        (str(root) for root in sandbox.writable_roots),
        masked=(str(path) for path in sandbox.mask),
        protected=sandbox.protect,
        known=known,
    )
