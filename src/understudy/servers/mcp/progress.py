"""Progress notifications: standard clients see nothing else of a turn, and their time limits are extended by them."""

import asyncio
from typing import Any

from understudy.policy.question_text import amount
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCall, Message, Reasoning
from understudy.protocol.jsonrpc import RequestId, notification_line
from understudy.protocol.records import (
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    HookApprovalAsked,
    HookRan,
    ItemReceived,
    Noticed,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanUpdated,
    PromptBlocked,
    Question,
    Record,
    RequestSent,
    RetryScheduled,
    ServersChecked,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
    UserInputAsked,
)
from understudy.servers.sink import Sink
from understudy.text import make_visible, quote_command

HEARTBEAT_SECONDS = 5.0
LONGEST = 200


class Progress:
    """Counts up with every step of one call, and sends a message if nothing has happened for a while.

    The first message names the conversation, and so does each message after a silence: most clients show nothing else of a call
    before its result, and a client that gives up before the result can come back with the name.
    """

    def __init__(
        self,
        token: RequestId,
        sink: Sink,
        related_to: RequestId,
        loop: asyncio.AbstractEventLoop,
        conversation: ConversationId,
        count: int = 0,
    ) -> None:
        """`count`: the earlier count, for a client that comes back."""
        self._token = token
        self._sink = sink
        self._related_to = related_to
        self._loop = loop
        self._conversation = conversation
        self.count = count
        self._last = "started"
        self._began = loop.time()
        self._timer = loop.call_later(HEARTBEAT_SECONDS, self._beat)

    def step(self, record: Record) -> None:
        message = describe(record)
        if message is not None:
            self._last = message
            self._send(message)

    def stop(self) -> None:
        self._timer.cancel()

    def _beat(self) -> None:
        seconds = round(self._loop.time() - self._began)
        self._send(f"{self._last} ({seconds} s)", names_conversation=True)

    def _send(self, message: str, *, names_conversation: bool = False) -> None:
        self.count += 1
        if self.count == 1 or names_conversation:
            message = f"{message} (thread {self._conversation})"
        params: dict[str, Any] = {"progressToken": self._token, "progress": self.count, "message": message}
        self._sink.send(notification_line("notifications/progress", params), self._related_to)
        self._timer.cancel()
        self._timer = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)


def describe(record: Record) -> str | None:
    """A step in words for a person; `None` if the record is not a step."""
    match record:
        case RequestSent():
            return "asking the model"
        case ItemReceived(item=Message() as message):
            return _short(message.text())
        case ItemReceived(item=Reasoning(summary=summary)) if summary:
            return _short(summary[0].text)
        case ItemReceived(item=FunctionCall(name=name)):
            return None if name in ("shell", "apply_patch", "update_plan", "request_user_input") else f"calls {_short(name)}"
        case CommandStarted(command=command):
            return f"runs {_short(quote_command(command))}"
        case CommandEnded(exit_code=code):
            return f"command ended with exit code {code}"
        case PatchStarted(changes=changes):
            return f"changes {_files(len(changes))}"
        case PatchEnded(success=success):
            return "changes applied" if success else "changes could not be applied"
        case ToolCallBegan(server=server, tool=tool):
            return f"calls {_short(f'{tool} of {server}')}"
        case ToolCallEnded(tool=tool, failed=failed):
            return f"{_short(tool)} {'failed' if failed else 'ended'}"
        case (
            CommandApprovalAsked()
            | PatchApprovalAsked()
            | BudgetAsked()
            | ToolApprovalAsked()
            | HookApprovalAsked()
            | UserInputAsked()
        ):
            return describe_asking(record)
        case PlanUpdated(plan=plan):
            current = next((step.step for step in plan if step.status == "in_progress"), None)
            return f"plan: {_short(current)}" if current else "plan updated"
        case HookRan() | PromptBlocked():
            return _short(record.describe()) or None
        case Noticed(message=message):
            return _short(message)
        case RetryScheduled() as retry:
            return _short(retry.describe())
        case ServersChecked() as checked:
            return _short(checked.describe()) or None
        case CompactionStarted():
            return "summing up the conversation"
        case Compacted() as compacted:
            return _short(compacted.describe())
        case _:
            return None


def describe_asking(question: Question) -> str:
    asks = "asks" if isinstance(question, UserInputAsked) else "asks for approval"
    return f"{asks}: {describe_question(question)}"


def describe_question(question: Question) -> str:
    if isinstance(question, UserInputAsked):
        return _short(question.questions[0].question)
    if isinstance(question, BudgetAsked):
        return f"more than {amount(question.limit, question.allowed)}"
    if isinstance(question, ToolApprovalAsked):
        return _short(f"{question.tool} of {question.server}")
    if isinstance(question, HookApprovalAsked):
        return _short(question.shown)
    if isinstance(question, CommandApprovalAsked):
        return _short(quote_command(question.command))
    return f"changes to {_files(len(question.changes))}"


def _short(text: str) -> str:
    line = make_visible(" ".join(text.split()))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
