"""Shows the records of a log to a person."""

from collections.abc import Mapping
from typing import Any

import msgspec

from understudy.cli.tell.telling import Teller
from understudy.policy.question_text import question_text
from understudy.policy.user_input import answered_text
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.items import FunctionCall, InputImage, Message, Reasoning
from understudy.protocol.records import (
    OWN_SERVER,
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
from understudy.text import make_visible

_UNTOLD = (Opened, TurnStarted, RequestSent, TokensCounted, DiffChanged, ToolAnswered, CompactionStarted)


class RecordTeller:
    def __init__(self, teller: Teller, cwd: str) -> None:
        self._teller = teller
        self._cwd = cwd
        self._calls: dict[str, FunctionCall] = {}  # calls that were not shown yet
        self._under: str | None = None  # the call of the command whose heading was shown last

    def tell(self, record: Record) -> None:
        teller = self._teller
        under = self._under
        if not isinstance(record, _UNTOLD) and not (isinstance(record, ItemReceived) and isinstance(record.item, FunctionCall)):
            self._under = None
        match record:
            case UserMessage(message=message):
                teller.user(_with_images(message))
            case ItemReceived(item=item, show_raw=show_raw):
                self._item(item, show_raw)
            case CommandStarted() as started:
                self._calls.pop(started.call_id, None)
                self._under = started.call_id
                teller.command(started.call_id, started.command, contained=started.contained)
            case CommandEnded() as ended:
                note = "time limit reached" if ended.timed_out else "refused something by the sandbox" if ended.denied else ""
                if ended.started is not None:
                    if under != ended.call_id:  # other things were shown meanwhile
                        teller.command(ended.call_id, ended.started.command, contained=ended.started.contained)
                    note = f"session {ended.started.session}{note and ', '}{note}"
                teller.command_ended(ended.call_id, ended.stdout, ended.stderr, ended.exit_code, ended.duration, note=note)
            case PatchStarted(call_id=call_id, changes=changes):
                self._calls.pop(call_id, None)
                teller.patch(changes)
            case PatchEnded() as ended:
                teller.patch_ended(ended.success, ended.stderr)
            case ToolCallBegan(call_id=call_id, server=server, tool=tool):
                self._calls.pop(call_id, None)
                teller.tool(tool if server == OWN_SERVER else f"{server}: {tool}", as_json(record.arguments))
            case ToolCallEnded(failed=failed):
                teller.told(record.describe(), not failed)
            case (
                CommandApprovalAsked(call_id=call_id)
                | PatchApprovalAsked(call_id=call_id)
                | BudgetAsked(call_id=call_id)
                | ToolApprovalAsked(call_id=call_id)
                | HookApprovalAsked(call_id=call_id)
                | UserInputAsked(call_id=call_id)
            ):
                self._calls.pop(call_id, None)
                teller.question(question_text(record, self._cwd))
            case ApprovalDecided(effective=True, answers=dict(answers)):
                teller.answer("answered:", answered_text(answers))
            case ApprovalDecided(effective=True, decision=decision, word=word, by=by) as decided:
                who = "" if by == LOCAL_NAME else f" by {by}"
                place = decided.from_afar()
                # if no person decided, a notice follows that says why
                teller.answer(decision + who + (f" ({make_visible(place)})" if place else "") + (":" if word else ""), word)
            case ToolAnswered(output=output, success=success):
                self._answered(output.call_id, output.output, success)
            case PlanUpdated(plan=plan, explanation=explanation):
                teller.plan([(step.step, step.status) for step in plan], explanation)
            case AnswerRejected(problem=problem):
                teller.notice(f"the answer does not have the form that was asked for: {problem}; the model tries again")
            case Noticed(message=message):
                teller.notice(message)
            case HookRan() | PromptBlocked():
                if told := record.describe():
                    teller.notice(make_visible(told))
            case RetryScheduled() as retry:
                teller.notice(retry.describe())
            case InputWritten(session=session, text=text):
                teller.notice(f"typed at session {session}: {make_visible(text)}")
            case ImageViewed(call_id=call_id, path=path):
                self._calls.pop(call_id, None)
                teller.notice(f"looks at the image {make_visible(path)}")
            case ServersChecked() as checked:
                if told := checked.describe():
                    teller.notice(told)
            case Compacted() as compacted:
                teller.notice("\n\n".join(part for part in (compacted.describe(), compacted.summary) if part))
            case Renamed(title=title):
                teller.notice(f"the conversation is now called {make_visible(title)}")
            case TurnQueued(message=queued):
                teller.notice(f"a message waits for a turn of its own: {make_visible(queued.message.text())}")
            case TurnDropped(reason=reason):
                why = "it was taken back" if reason is None else make_visible(reason)
                teller.notice(f"a message that waited begins no turn: {why}")
            case WorkspaceSaved() | WorkspaceMoved():
                teller.notice(make_visible(record.describe()))
            case UndoEnded() as ended:
                teller.notice(make_visible(ended.describe()))
            case TurnEnded(reason="completed"):
                pass
            case TurnEnded(message=message):
                teller.failure(message or "the turn failed")
            case (
                Opened()
                | TurnStarted()
                | RequestSent()
                | WorkspaceSaveStarted()
                | TokensCounted()
                | DiffChanged()
                | ApprovalDecided()
                | CompactionStarted()
                | UndoStarted()
            ):
                pass

    def tell_delta(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._teller.message_delta(text)
            case ReasoningDelta(text=text):
                self._teller.thought_delta(text)
            case OutputDelta() as output:
                self._teller.output(output.call_id, output.stream, output.chunk)

    def _item(self, item: Message | Reasoning | FunctionCall, show_raw: bool) -> None:
        match item:
            case Message():
                self._teller.message(item.text())
            case Reasoning(summary=summary, content=content):
                parts = [*summary, *((content or ()) if show_raw else ())]
                self._teller.thought("\n\n".join(part.text for part in parts))
            case FunctionCall(name="update_plan"):
                pass  # shown as the plan
            case FunctionCall(call_id=call_id):
                self._calls[call_id] = item

    def _answered(self, call_id: str, output: str, success: bool) -> None:
        """A call that no other record shows: refused, unknown, or made before the conversation came here."""
        call = self._calls.pop(call_id, None)
        if call is None:
            return
        outcome = _outcome(output)
        argv = _argv(call)
        if argv is None and (patch := _patch_text(call)):
            self._teller.attempted_patch(patch)
        elif argv is None:
            self._teller.tool(call.name, call.arguments)
        else:
            self._teller.command(call_id, argv)
        if outcome is None:
            self._teller.told(output, success)
        else:
            metadata = outcome.metadata
            self._teller.command_ended(call_id, outcome.output, "", metadata.exit_code, metadata.duration_seconds)


def as_json(arguments: Mapping[str, Any] | None) -> str:
    return msgspec.json.encode(arguments or {}).decode()


def _with_images(message: Message) -> str:
    images = sum(isinstance(part, InputImage) for part in message.content)
    return message.text() + (f" [{images} image{'s' if images > 1 else ''}]" if images else "")


class _Shell(msgspec.Struct, frozen=True):
    """The arguments of shell tools, ours and others'."""

    command: list[str] | str | None = None
    cmd: str | None = None


class _Patch(msgspec.Struct, frozen=True):
    """The arguments of `apply_patch`."""

    input: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    exit_code: int
    duration_seconds: float


class _Outcome(msgspec.Struct, frozen=True):
    """A command's outcome as the model got it."""

    output: str
    metadata: _Metadata


def _patch_text(call: FunctionCall) -> str:
    """The text of a patch that was never applied."""
    if call.name != "apply_patch":
        return ""
    try:
        return msgspec.json.decode(call.arguments, type=_Patch).input
    except (msgspec.MsgspecError, RecursionError):
        return ""


def _argv(call: FunctionCall) -> list[str] | None:
    try:
        shell = msgspec.json.decode(call.arguments, type=_Shell)
    except (msgspec.MsgspecError, RecursionError):
        return None
    command = shell.command or shell.cmd
    return ["bash", "-lc", command] if isinstance(command, str) else command


def _outcome(output: str) -> _Outcome | None:
    try:
        return msgspec.json.decode(output, type=_Outcome)
    except (msgspec.MsgspecError, RecursionError):
        return None
