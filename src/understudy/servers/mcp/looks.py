"""How a conversation is to look to one client: the face of its events, under which methods, and with what left out."""

import msgspec

from understudy.config.model import EventMethods, Wire
from understudy.engine.conversation import Conversation
from understudy.engine.turn import TurnSetup
from understudy.errors import AgentError
from understudy.servers.codec import Codec, SeedCodec

_SEED = SeedCodec()


class Look(msgspec.Struct, frozen=True, gc=False):
    wire: Wire = "seed"
    events: EventMethods = "auto"
    hides_reasoning: bool = False
    thread_in_text: bool = True  # a result ends with a line that names its session

    def codec(self, conversation: Conversation) -> Codec:
        if self.wire == "seed":
            return _SEED
        from understudy.servers.modern import ModernCodec  # only where it is configured

        return ModernCodec(conversation)


def look_of(conversation: Conversation) -> Look:
    """As its configuration has it. What cannot be configured any more (its folder is gone) can still be looked at."""
    try:
        return look_from(conversation.setup())
    except AgentError:
        return Look()


def look_from(setup: TurnSetup) -> Look:
    return Look(setup.wire, setup.events, setup.hide_reasoning, setup.thread_in_text)
