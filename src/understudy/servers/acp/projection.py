"""Turns records and deltas of one conversation into `session/update`s.

It translates an `Activity` over the whole log, so that replayed and live updates look alike.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from understudy.engine.activity import steps as a
from understudy.engine.activity.fold import Activity
from understudy.engine.log.broadcast import LiveDelta
from understudy.protocol import records as r
from understudy.protocol.choices import SandboxMode
from understudy.protocol.ids import new_uuid
from understudy.servers.acp.content import Json, shown_blocks, text_block
from understudy.servers.acp.settings import FULL_SANDBOX
from understudy.servers.acp.tool_calls import ToolCalls

MESSAGE = "agent_message_chunk"
THOUGHT = "agent_thought_chunk"
_UNTOLD = frozenset({r.InputWritten, r.TurnQueued, r.TurnDropped})


class Projection:
    def __init__(self, *, hides_reasoning: bool = False) -> None:
        self.cwd = ""
        self.sandbox: SandboxMode | None = None  # the last chosen mode with a sandbox
        self.own: set[str] = set()  # messages that the client sent itself, and already shows
        self.tools = ToolCalls(lambda: self.cwd)
        self._activity = Activity()
        self._hides_reasoning = hides_reasoning
        self._message: str | None = None  # the id of the message being written
        self._said = ""
        self._thought: str | None = None
        self._window: int | None = None

    def entry(self, entry: r.Entry) -> list[Json]:
        return [update for step in self._activity.entry(entry) for update in self._tell(step)]

    def delta(self, live: LiveDelta) -> list[Json]:
        """The updates for a text delta. `tools` shows the output of commands from time to time."""
        return [update for step in self._activity.delta(live.delta) for update in self._tell(step)]

    def _tell(self, step: a.Step) -> list[Json]:
        match step:
            case a.Grew():
                return self._grew(step)
            case a.Began(item=item):
                return [self.tools.begin(item)] if isinstance(item, a.Work) else []
            case a.Resumed(item=item):
                return [self.tools.go_on(item)]
            case a.Ended():
                return self._ended(step)
            case a.Answered(call=call, output=output, success=success):
                return [] if success else self.tools.never_began(call, output)
            case a.Decided(words=words):
                return [_notice(words)] if words else []
            case a.Accepted(message=message):
                return self._user_message(message)
            case a.Told():
                return self._told(step)
            case a.Asked() | a.Read() | a.LeftRunning():
                return []

    def _told(self, told: a.Told) -> list[Json]:
        """Records without an item: for most, the protocol has no form but a thought."""
        name = self.NAMES.get(type(told.record))
        if name is not None:
            return name(self, told.record)
        if isinstance(told.record, r.Noticed) and told.record.withdraws:
            self._message, self._said = None, ""
        return [_notice(told.words)] if told.words and not told.repeats and type(told.record) not in _UNTOLD else []

    # -- messages

    def _say(self, text: str) -> list[Json]:
        if not text:
            return []
        self._message = self._message or new_uuid()
        self._said += text
        return [_chunk(MESSAGE, text, self._message)]

    def _grew(self, grew: a.Grew) -> list[Json]:
        match grew.item:
            case a.Text():
                return self._say(grew.text)
            case a.Thought():
                self._thought = self._thought or new_uuid()
                return [_chunk(THOUGHT, grew.text, self._thought)]
            case a.Command() as item:
                self.tools.printed(item)
                return []

    def _ended(self, ended: a.Ended) -> list[Json]:
        match ended.item:
            case a.Text() if ended.how == "cut":
                return self._finish(ended.text) if not self._said else []
            case a.Text():
                told = self._finish(ended.text)
                self._message, self._said = None, ""
                return told
            case a.Thought():
                return self._thought_ended(ended)
            case a.Compaction():
                return [_notice(ended.record.describe())] if isinstance(ended.record, r.Compacted) else []
            case item:
                return self.tools.end(item, ended)

    def _finish(self, whole: str) -> list[Json]:
        """The part of the text that was not shown yet."""
        if self._said.startswith(whole):
            return []
        if not whole.startswith(self._said):
            self._message, self._said = None, ""  # the shown text was wrong: send the whole text again
        return self._say(whole[len(self._said) :])

    def _thought_ended(self, ended: a.Ended) -> list[Json]:
        shown, self._thought = self._thought, None
        text = "\n\n".join(ended.raw or ended.summary)
        return [_chunk(THOUGHT, text, new_uuid())] if text and shown is None and not self._hides_reasoning else []

    def _user_message(self, message: r.UserMessage) -> list[Json]:
        if message.overrides is not None:
            self._choose(message.overrides)
        if message.message_id in self.own:
            return []
        return [
            {"sessionUpdate": "user_message_chunk", "content": block, "messageId": message.message_id}
            for block in shown_blocks(message.message)
        ]

    def _choose(self, overrides: r.Overrides) -> None:
        self.cwd = overrides.cwd or self.cwd
        if overrides.sandbox is not None and overrides.sandbox != FULL_SANDBOX:
            self.sandbox = overrides.sandbox

    # -- records without an item

    def _opened(self, opened: r.Opened) -> list[Json]:
        self._choose(opened.overrides)
        return []

    def _turn_started(self, started: r.TurnStarted) -> list[Json]:
        self._window = started.window or self._window
        return []

    def _turn_ended(self, ended: r.TurnEnded) -> list[Json]:
        self._message, self._said, self._thought = None, "", None
        if ended.reason != "failed":
            return []
        return [_chunk(MESSAGE, f"The turn failed: {ended.message or 'nobody knows why'}", new_uuid())]

    def _counted(self, counted: r.TokensCounted) -> list[Json]:
        size = self._window
        return [{"sessionUpdate": "usage_update", "used": counted.usage.total_tokens, "size": size}] if size else []

    def _planned(self, updated: r.PlanUpdated) -> list[Json]:
        steps = [{"content": step.step, "priority": "medium", "status": step.status} for step in updated.plan]
        return [{"sessionUpdate": "plan", "entries": steps}]

    def _renamed(self, renamed: r.Renamed) -> list[Json]:
        return [{"sessionUpdate": "session_info_update", "title": renamed.title}]

    NAMES: ClassVar[dict[type[r.Record], Callable[["Projection", Any], list[Json]]]] = {
        r.Opened: _opened,
        r.TurnStarted: _turn_started,
        r.TurnEnded: _turn_ended,
        r.TokensCounted: _counted,
        r.PlanUpdated: _planned,
        r.Renamed: _renamed,
    }


def _chunk(kind: str, text: str, message_id: str) -> Json:
    return {"sessionUpdate": kind, "content": text_block(text), "messageId": message_id}


def _notice(text: str) -> Json:
    return {**_chunk(THOUGHT, text, new_uuid()), "_meta": {"understudy": {"notice": True}}}
