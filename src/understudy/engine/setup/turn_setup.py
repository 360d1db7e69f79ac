"""The part of the configuration that a turn uses."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from understudy.config.model import Config
from understudy.engine.compaction.limits import ContextLimits
from understudy.models.model import Model, ToolSpec
from understudy.protocol.items import Message, Usage
from understudy.protocol.records import Pins, UserMessage
from understudy.tools.host import ToolSettings
from understudy.tools.tool import Tool

if TYPE_CHECKING:
    from understudy.engine.hooks.of_conversation import ConversationHooks
    from understudy.engine.services.notifying import CompletedTurn
    from understudy.engine.services.question_news import OpenedQuestion
    from understudy.engine.turn.other_servers import ConversationServers


class Doc(msgspec.Struct, frozen=True):
    """A file with instructions, and its text as a model is told it."""

    path: str
    text: str
    imported: bool = False  # by a file that has a name of its own for instructions


class TurnSetup(msgspec.Struct, frozen=True):
    """Everything that a turn needs from the configuration, fixed while it runs."""

    model: Model
    instructions: str
    preamble: tuple[Message, ...]  # context before the history
    find_tool: Callable[[str], Tool | None]
    offered: tuple[ToolSpec, ...]
    settings: Callable[[], ToolSettings]  # made when a tool is first called
    stream_retries: int
    show_raw_reasoning: bool
    config: Config  # the source of this setup; front ends read their display settings from it
    pins: Pins | None = None  # the places it works on, for the log
    cost_of: Callable[[Usage], float | None] = lambda _: None  # USD for one answer; None: the model has no known price
    limits: ContextLimits = ContextLimits()
    notify: "Callable[[CompletedTurn], None] | None" = None  # tells the user's program of a completed turn
    on_question: "Callable[[OpenedQuestion], None] | None" = None  # tells the user's program of a question
    given: Callable[[Iterable[UserMessage]], tuple[Message, ...]] = lambda _: ()  # what a model gets after such messages
    hooks: "ConversationHooks | None" = None  # the user's programs that are told what happens and may object
    servers: "ConversationServers | None" = None  # other servers, whose tools are offered too
