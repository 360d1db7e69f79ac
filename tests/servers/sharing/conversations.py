"""A conversation in which any text stands wherever others can put one."""

from __future__ import annotations

from collections.abc import Sequence

from tests.store.records import new_id
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputImage, InputText, Message, OutputText
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    PatchEnded,
    PatchStarted,
    PlanStep,
    PlanUpdated,
    Record,
    Renamed,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.protocol.records.files import AddFile, DeleteFile, UpdateFile

DAY = 86_400.0
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def entries_of(records: Sequence[Record]) -> tuple[ConversationId, tuple[Entry, ...]]:
    conversation_id = new_id()
    whole = (Opened(conversation_id, "gpt-test", Overrides(cwd="/home/ann/project")), TurnStarted("t"), *records)
    return conversation_id, tuple(Entry(seq, seq - 1, "1", DAY + seq, record) for seq, record in enumerate(whole, start=1))


def everywhere(text: str, number: int = 0) -> list[Record]:
    """The text as a message, an answer, a command, its output, a file, a diff, a tool, a plan, a question, a title."""
    call = f"call {number}"
    return [
        UserMessage(f"m{number}", Message("user", (InputText(text), InputImage(PIXEL), InputImage(text)))),
        ItemReceived(Message("assistant", (OutputText(text),))),
        CommandApprovalAsked(f"{call} a", ("echo", text), text, text, note=text),
        ApprovalDecided(f"{call} a", "approved", "client", by=text, word=text, door="rest", address=text, client=text),
        CommandStarted(f"{call} a", ("echo", text), text, True),
        CommandEnded(f"{call} a", text, text, 1, 0.5),
        PatchStarted(
            f"{call} b",
            {
                f"/home/{text}": AddFile(text),
                f"/deleted/{text}": DeleteFile(text),
                f"/updated/{text}": UpdateFile(f"@@ -1 +1 @@\n-{text}\n+{text}", f"/moved/{text}"),
            },
            True,
        ),
        PatchEnded(f"{call} b", text, text, False),
        ToolCallBegan(f"{call} c", text, text, {text: text}),
        ToolCallEnded(f"{call} c", text, text, 0.1, {text: text}, result={"content": [{"type": "text", "text": text}]}),
        ItemReceived(FunctionCall(text, text, f"{call} d")),
        ToolAnswered(FunctionCallOutput(f"{call} d", text), success=False),
        PlanUpdated((PlanStep(text, "completed"), PlanStep(text, "pending")), text),
        Noticed(text),
        Renamed(text),
        TurnEnded("failed", text, unfinished=text),
    ]
