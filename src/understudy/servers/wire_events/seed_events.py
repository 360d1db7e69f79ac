"""Events in the shapes of the seed's time (`wire = "seed"`), encoded once for all viewers."""

from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol import events
from understudy.protocol.items import FunctionCall, InputImage, Message, Reasoning
from understudy.protocol.records import (
    AnswerRejected,
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    Delta,
    DiffChanged,
    Entry,
    HookApprovalAsked,
    HookRan,
    ImageViewed,
    InputWritten,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanUpdated,
    PromptBlocked,
    ReasoningDelta,
    Record,
    Renamed,
    RequestSent,
    RetryScheduled,
    ServersChecked,
    TextDelta,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
    TurnDropped,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UndoEnded,
    UndoStarted,
    UserInputAsked,
    UserMessage,
    WorkspaceMoved,
    WorkspaceSaved,
    WorkspaceSaveStarted,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.wire_events.event_codec import Encoded

_encode = msgspec.json.Encoder().encode


_SILENT = frozenset({UserMessage, RequestSent, ToolAnswered, ApprovalDecided, CompactionStarted})


class SeedCodec:
    """Events as the seed-era server sent them."""

    plain_method = True
    needs_past = False

    def note(self, entry: Entry) -> None:
        """Not needed: each event depends only on its own record."""

    def events(self, live: LiveEntry) -> tuple[Encoded, ...]:
        record = live.entry.record
        if type(record) in _SILENT:  # half of all records
            return ()
        if type(record) is TurnStarted:
            return _STARTED
        if SeedCodec not in live.encoded:
            live.encoded[SeedCodec] = tuple(map(_encoded, project(record)))
        return live.encoded[SeedCodec]

    def delta(self, live: LiveDelta) -> Encoded:
        if SeedCodec in live.encoded:
            return live.encoded[SeedCodec]
        delta = live.delta
        plain = type(delta) is TextDelta  # nearly all deltas
        found = Encoded(_TEXT, _encode(events.AgentMessageDelta(delta.text))) if plain else encode_delta(delta)
        live.encoded[SeedCodec] = found
        return found


def _encoded(event: events.Event) -> Encoded:
    return Encoded(_tag(type(event)), _encode(event))


@cache
def _tag(kind: type[events.Event]) -> bytes:
    return str(kind.__struct_config__.tag).encode()


_STARTED = (_encoded(events.TaskStarted()),)
_TEXT = _tag(events.AgentMessageDelta)


def encode_delta(delta: Delta) -> Encoded:
    match delta:
        case TextDelta(text=text):
            return _encoded(events.AgentMessageDelta(text))
        case ReasoningDelta(text=text, raw=False):
            return _encoded(events.AgentReasoningDelta(text))
        case ReasoningDelta(text=text):
            return _encoded(events.AgentReasoningRawContentDelta(text))
        case OutputDelta() as output:
            return _encoded(events.ExecCommandOutputDelta(output.call_id, output.stream, list(output.chunk)))


def project(record: Record) -> tuple[events.Event, ...]:
    """The events for a record."""
    match record:
        case ItemReceived(item=item, show_raw=show_raw):
            return _project_item(item, show_raw)
        case TurnStarted():
            return (events.TaskStarted(),)
        case TurnEnded(reason="completed", message=message):
            return (events.TaskComplete(message),)
        case TurnEnded(message=message):
            return (events.Error(message or "the turn failed"), events.TaskComplete(None))
        case TokensCounted(cut=True):  # the turn's report has it
            return ()
        case TokensCounted(usage=usage):
            return (
                events.TokenCount(
                    usage.input_tokens,
                    usage.cached_input_tokens,
                    usage.output_tokens,
                    usage.reasoning_output_tokens,
                    usage.total_tokens,
                ),
            )
        case CommandStarted() as started:
            return (events.ExecCommandBegin(started.call_id, started.command, started.cwd),)
        case CommandEnded() as ended:
            duration = events.Duration.of(ended.duration)
            return (events.ExecCommandEnd(ended.call_id, ended.stdout, ended.stderr, ended.exit_code, duration),)
        case Noticed(message=message):
            return (events.BackgroundEvent(message),)
        case RetryScheduled() as retry:
            return (events.BackgroundEvent(retry.describe()),)
        case InputWritten() as written:  # the seed had nothing like it
            return (events.BackgroundEvent(f"typed at session {written.session}: {visible(written.text)}"),)
        case ImageViewed(path=path):  # the seed had nothing like it
            return (events.BackgroundEvent(f"looks at the image {visible(path)}"),)
        case Compacted() as compacted:
            return (events.BackgroundEvent(compacted.describe()),)
        case Renamed(title=title):
            return (events.BackgroundEvent(f"the conversation is now called {visible(title)}"),)
        case WorkspaceSaved() | WorkspaceMoved():  # the seed had nothing like it
            return (events.BackgroundEvent(visible(record.describe())),)
        case UndoEnded() as ended:  # the seed had nothing like it; its beginning is not reported either
            return (events.BackgroundEvent(visible(ended.describe())),)
        case CommandApprovalAsked() as asked:
            return (events.ExecApprovalRequest(asked.call_id, asked.command, asked.cwd, shown_reason(asked.reason)),)
        case PatchApprovalAsked() as asked:
            return (events.ApplyPatchApprovalRequest(asked.call_id, changes_on_wire(asked.changes), shown_reason(asked.reason)),)
        case BudgetAsked() as asked:
            return (events.ApprovalRequest(asked.call_id, "budget", budget_text(asked)),)
        case ToolApprovalAsked() as asked:
            return (events.ApprovalRequest(asked.call_id, "mcp-tool-approval", tool_question_text(asked)),)
        case HookApprovalAsked() as asked:
            return (events.ApprovalRequest(asked.call_id, "hook", hook_question_text(asked)),)
        case HookRan() | PromptBlocked():  # the seed had nothing like it
            return (events.BackgroundEvent(visible(told)),) if (told := record.describe()) else ()
        case UserInputAsked() as asked:
            return (events.ApprovalRequest(asked.call_id, "user-input", input_question_text(asked)),)
        case ServersChecked() as checked:
            return (events.BackgroundEvent(told),) if (told := checked.describe()) else ()
        case AnswerRejected(problem=problem):
            return (events.BackgroundEvent(f"the answer does not have the form that was asked for: {problem}; asking again"),)
        case PatchStarted() as started:
            return (events.PatchApplyBegin(started.call_id, started.auto_approved, changes_on_wire(started.changes)),)
        case PatchEnded() as ended:
            return (events.PatchApplyEnd(ended.call_id, ended.stdout, ended.stderr, ended.success),)
        case ToolCallBegan() as began:
            return (events.McpToolCallBegin(began.call_id, _invocation(began), began.read_only or UNSET),)
        case ToolCallEnded() as ended:
            outcome = {"Err": ended.error or ""} if ended.result is None else {"Ok": ended.result}
            duration = events.Duration.of(ended.seconds)
            return (events.McpToolCallEnd(ended.call_id, _invocation(ended), duration, outcome, ended.read_only or UNSET),)
        case DiffChanged(unified_diff=diff):
            return (events.TurnDiffEvent(diff),)
        case PlanUpdated() as plan:
            steps = tuple(events.PlanStepEvent(step.step, step.status) for step in plan.plan)
            return (events.PlanUpdate(plan.explanation, steps),)
        case Opened() as opened:
            return (events.SessionConfigured(opened.conversation_id, opened.model),)
        case (
            UserMessage()
            | RequestSent()
            | ToolAnswered()
            | ApprovalDecided()
            | CompactionStarted()
            | UndoStarted()
            | WorkspaceSaveStarted()
        ):
            return ()
        case TurnQueued() | TurnDropped():  # the door of whoever queued it reports it; others see the turn once it begins
            return ()


def _project_item(item: Message | Reasoning | FunctionCall, show_raw: bool) -> tuple[events.Event, ...]:
    match item:
        case Message(content=content):
            return tuple([events.AgentMessage(part.text) for part in content if not isinstance(part, InputImage) and part.text])
        case Reasoning(summary=summary, content=content):
            raw = tuple(events.AgentReasoningRawContent(part.text) for part in (content or ()) if show_raw)
            return (*(events.AgentReasoning(part.text) for part in summary), *raw)
        case FunctionCall():
            return ()


def _invocation(call: ToolCallBegan | ToolCallEnded) -> events.McpInvocation:
    return events.McpInvocation(call.server, call.tool, call.arguments)


def encode_user_message(message: UserMessage) -> Encoded:
    images = tuple(part.image_url for part in message.message.content if isinstance(part, InputImage))
    parent = message.parent_message_id or UNSET
    return _encoded(events.UserMessageEvent(message.message.text(), message.message_id, images, parent))


def changes_on_wire(changes: dict[str, FileChange]) -> dict[str, Any]:
    return {path: _change(change) for path, change in changes.items()}


def _change(change: FileChange) -> Any:
    match change:
        case AddFile(content=content):
            return {"add": {"content": content}}
        case DeleteFile():
            return "delete"
        case UpdateFile(unified_diff=diff, move_path=move_path):
            return {"update": {"unified_diff": diff, "move_path": move_path}}


def visible(text: str) -> str:
    """Others' words, made safe to look at."""
    from understudy.text import make_visible  # few turns need it

    return make_visible(text)


def budget_text(asked: BudgetAsked) -> str:
    from understudy.policy.question_text import budget_question  # not needed before the first question

    return budget_question(asked)


def tool_question_text(asked: ToolApprovalAsked) -> str:
    from understudy.policy.mcp_tools import tool_question

    return tool_question(asked)


def hook_question_text(asked: HookApprovalAsked) -> str:
    from understudy.policy.question_text import hook_question

    return hook_question(asked)


def input_question_text(asked: UserInputAsked) -> str:
    from understudy.policy.user_input import input_text

    return input_text(asked)


def shown_reason(reason: str | None) -> str | UnsetType:
    """A question's reason: often the model's own words, and clients show it to the person who decides."""
    if not reason:
        return UNSET
    return visible(reason)
