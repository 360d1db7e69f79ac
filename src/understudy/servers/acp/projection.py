"""Records and deltas of one conversation as `session/update`s.

It goes along the whole log, so that what is replayed and what happens now are shown alike.
"""

from understudy.engine.approvals import CLIENT
from understudy.engine.broadcast import LiveDelta
from understudy.protocol.choices import SandboxMode
from understudy.protocol.items import FunctionCall, Message, ModelItem, Reasoning
from understudy.protocol.records import (
    AnswerRejected,
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    Entry,
    ImageViewed,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanUpdated,
    ReasoningDelta,
    Renamed,
    RetryScheduled,
    ServersChecked,
    TextDelta,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UndoEnded,
    UserMessage,
)
from understudy.protocol.uuids import new_uuid
from understudy.servers.acp.content import Json, shown_blocks, text_block
from understudy.servers.acp.settings import FULL_SANDBOX
from understudy.servers.acp.tool_calls import ToolCalls

MESSAGE = "agent_message_chunk"
THOUGHT = "agent_thought_chunk"


class Projection:
    def __init__(self, *, hides_reasoning: bool = False) -> None:
        self.cwd = ""
        self.sandbox: SandboxMode | None = None  # the last one that was chosen and has one
        self.own: set[str] = set()  # messages that the client has sent itself, and shows already
        self.tools = ToolCalls(lambda: self.cwd)
        self._hides_reasoning = hides_reasoning
        self._message: str | None = None  # the id of the message that is being written
        self._said = ""
        self._thought: str | None = None
        self._window: int | None = None
        self._decided = ""

    # -- entries

    def entry(self, entry: Entry) -> list[Json]:
        match entry.record:
            case ItemReceived(item=item, show_raw=show_raw):
                return self._item(item, show_raw=show_raw)
            case UserMessage() as message:
                return self._user_message(message)
            case Opened(overrides=overrides):
                self._choose(overrides)
                return []
            case TurnStarted(window=window):
                self._window = window or self._window
                return []
            case TurnEnded() as ended:
                return self._end_turn(ended)
            case TokensCounted(usage=usage):
                size = self._window
                return [{"sessionUpdate": "usage_update", "used": usage.total_tokens, "size": size}] if size else []
            case PlanUpdated(plan=plan):
                steps = [{"content": step.step, "priority": "medium", "status": step.status} for step in plan]
                return [{"sessionUpdate": "plan", "entries": steps}]
            case Renamed(title=title):
                return [{"sessionUpdate": "session_info_update", "title": title}]
            case _:
                return self._work(entry)

    def _work(self, entry: Entry) -> list[Json]:
        tools = self.tools
        match entry.record:
            case CommandStarted() as started:
                return tools.command_started(started)
            case CommandEnded() as ended:
                return tools.command_ended(ended)
            case PatchStarted() as started:
                return tools.patch_started(started)
            case PatchEnded() as ended:
                return tools.patch_ended(ended)
            case ToolCallBegan() as began:
                return tools.tool_call_began(began)
            case ToolCallEnded() as ended:
                return tools.tool_call_ended(ended)
            case ToolAnswered() as answered:
                return tools.answered(answered)
            case ImageViewed(call_id=call_id, path=path):
                return tools.image_viewed(call_id, path)
            case CommandApprovalAsked() | PatchApprovalAsked() | ToolApprovalAsked() | BudgetAsked() as question:
                return tools.asked(question)
            case ApprovalDecided(effective=True) as decided:
                self._decided = "" if decided.source == CLIENT else f"approval {decided.decision}: {decided.source}"
                told = [] if decided.source == CLIENT else [_notice(self._decided)]
                return [*told, *tools.decided(decided)]
            case _:
                return self._notices(entry)

    def _notices(self, entry: Entry) -> list[Json]:
        """What is neither the model's nor a call: the protocol has no form for it but a thought."""
        match entry.record:
            case ServersChecked() as checked:
                missing = checked.describe()
                return [_notice(missing)] if missing else []
            case UndoEnded() | Compacted() | RetryScheduled() as told:
                return [_notice(told.describe())]
            case AnswerRejected(problem=problem):
                return [_notice(f"the answer does not have the form that was asked for: {problem}; the model tries again")]
            case Noticed(message=message, withdraws=withdraws):
                if withdraws:
                    self._message, self._said = None, ""
                return [_notice(message)] if message and message != self._decided else []
            case _:
                return []

    # -- what is said

    def delta(self, live: LiveDelta) -> list[Json]:
        """Of text. What commands print goes to `tools`."""
        match live.delta:
            case TextDelta(text=text):
                return self._say(text)
            case ReasoningDelta(text=text):
                self._thought = self._thought or new_uuid()
                return [_chunk(THOUGHT, text, self._thought)]
            case OutputDelta():
                return []

    def _say(self, text: str) -> list[Json]:
        if not text:
            return []
        self._message = self._message or new_uuid()
        self._said += text
        return [_chunk(MESSAGE, text, self._message)]

    def _item(self, item: ModelItem, *, show_raw: bool) -> list[Json]:
        match item:
            case Message():
                told = self._finish(item.text())
                self._message, self._said = None, ""
                return told
            case Reasoning(summary=summary, content=content):
                shown, self._thought = self._thought, None
                if shown is not None or self._hides_reasoning:
                    return []
                parts = [part.text for part in (content or ())] if show_raw and content else [part.text for part in summary]
                text = "\n\n".join(part for part in parts if part)
                return [_chunk(THOUGHT, text, new_uuid())] if text else []
            case FunctionCall():
                self.tools.called(item)
                return []

    def _finish(self, whole: str) -> list[Json]:
        """What was not shown of it yet."""
        if self._said.startswith(whole):
            return []
        if not whole.startswith(self._said):
            self._message, self._said = None, ""  # it turned out otherwise: the whole of it once more
        return self._say(whole[len(self._said) :])

    def _user_message(self, message: UserMessage) -> list[Json]:
        if message.overrides is not None:
            self._choose(message.overrides)
        if message.message_id in self.own:
            return []
        return [
            {"sessionUpdate": "user_message_chunk", "content": block, "messageId": message.message_id}
            for block in shown_blocks(message.message)
        ]

    def _choose(self, overrides: Overrides) -> None:
        self.cwd = overrides.cwd or self.cwd
        if overrides.sandbox is not None and overrides.sandbox != FULL_SANDBOX:
            self.sandbox = overrides.sandbox

    def _end_turn(self, ended: TurnEnded) -> list[Json]:
        told = self._finish(ended.unfinished) if ended.unfinished and not self._said else []
        told += self.tools.end_turn()
        self._message, self._said, self._thought = None, "", None
        if ended.reason == "failed":
            told.append(_chunk(MESSAGE, f"The turn failed: {ended.message or 'nobody knows why'}", new_uuid()))
        return told


def _chunk(kind: str, text: str, message_id: str) -> Json:
    return {"sessionUpdate": kind, "content": text_block(text), "messageId": message_id}


def _notice(text: str) -> Json:
    return {**_chunk(THOUGHT, text, new_uuid()), "_meta": {"understudy": {"notice": True}}}
