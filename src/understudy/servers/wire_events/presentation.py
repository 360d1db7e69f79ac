"""How a conversation is presented to a client: the shapes of its events, their methods, and what is left out."""

import msgspec

from understudy.config.model import Config, EventMethods, ReportKind, Wire
from understudy.engine.handle import Handle
from understudy.errors import AgentError
from understudy.servers.wire_events.event_codec import EventCodec
from understudy.servers.wire_events.seed_events import SeedCodec

_SEED = SeedCodec()


class Presentation(msgspec.Struct, frozen=True, gc=False):
    wire: Wire = "seed"
    events: EventMethods = "auto"
    hides_reasoning: bool = False
    thread_in_text: bool = True  # a result ends with a line that names its session
    report: ReportKind = "brief"  # how much a result says of its turn's work

    def asked_for(self, report: ReportKind | None) -> "Presentation":
        """For a call that chooses its own kind of report."""
        return self if report is None else msgspec.structs.replace(self, report=report)

    def codec(self, handle: Handle) -> EventCodec:
        if self.wire == "seed":
            return _SEED
        from understudy.servers.wire_events.modern_events import ModernCodec  # only if it is configured

        return ModernCodec(handle.id)


def presentation_of(handle: Handle) -> Presentation:
    """From the conversation's configuration. If that is no longer valid (its folder is gone), the conversation can still
    be shown.
    """
    try:
        return presentation_from(handle.setup().config)
    except AgentError:
        return Presentation()


def presentation_from(config: Config) -> Presentation:
    return Presentation(config.wire, config.events, config.hide_agent_reasoning, config.thread_in_text, config.report)
