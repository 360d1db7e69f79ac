"""Logs of conversations as they could have been, drawn at random: turns, calls, questions, sessions, turns that are cut off."""

import json
import random
from typing import Any

from understudy.protocol import records as r
from understudy.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    SummaryText,
    Usage,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile

Event = r.Entry | r.Delta
ARGUMENTS = {
    "shell": '{"command": ["ls", "a b"]}',
    "exec_command": '{"cmd": "make x"}',
    "apply_patch": json.dumps({"input": "*** Begin Patch\n*** Add File: q.txt\n+1\n*** Update File: r.txt  \n"}),
    "view_image": '{"path": "p"}',
}
TOOLS = ("shell", "shell", "exec_command", "apply_patch", "apply_patch", "t", "update_plan", "view_image", "no")
RESULTS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"content": [{"type": "text", "text": "hey"}]},
    {"content": [], "isError": True},
)
APPROVED = ("approved", "approved_for_session")


class Drawn:
    """`events`: entries and deltas in their order."""

    def __init__(self, seed: int) -> None:
        self.events: list[Event] = []
        self._draw = random.Random(seed)
        self._seq = 0
        self._turn = 0
        self._sessions: dict[str, tuple[r.CommandStarted, str]] = {}  # that run, by their call
        self._add(r.Opened("c0", "m", r.Overrides(cwd="/w", sandbox="workspace-write"), provider="p"), turn="0")
        for _ in range(self._draw.randint(1, 4)):
            self._a_turn()

    def _add(self, *records: r.Record, turn: str | None = None) -> None:
        for record in records:
            self._seq += 1
            self.events.append(r.Entry(self._seq, self._seq - 1, turn or str(self._turn), 1.7e9 + self._seq / 4, record))

    def _often(self, share: float) -> bool:
        return self._draw.random() < share

    # -- turns

    def _a_turn(self) -> None:
        self._turn += 1
        message_id = f"11111111-1111-4111-8111-{self._turn:012d}"
        overrides = self._draw.choice((None, r.Overrides(cwd="/v")))
        self._add(r.UserMessage(message_id, Message("user", (InputText("do"),)), overrides))
        self._add(r.TurnStarted(str(self._turn), window=self._draw.choice((None, 1000))), r.RequestSent((message_id,)))
        cut = self._often(0.4)
        for _ in range(self._draw.randint(0, 6)):
            self._aside(cut)
            self._think()
            self._say()
            if self._often(0.7):
                self._call(cut=False)
            self._add(r.TokensCounted(Usage(3, 4, 7), self._draw.choice((None, Usage(10, 10, 20)))))
            for call_id in [call_id for call_id in self._sessions if self._often(0.3)]:
                started, turn = self._sessions.pop(call_id)
                self._add(r.CommandEnded(call_id, "late", "", 0, 9.0, started=started, untold=True), turn=turn)
        self._end(cut)

    def _end(self, cut: bool) -> None:
        if cut:
            self._call(cut=True)
            said = self._often(0.5)
            if said:
                self.events.append(r.TextDelta("unf"))
            self._add(r.TurnEnded("interrupted", "Turn interrupted", "unf" if said else None))
        elif self._often(0.2):
            status = self._draw.choice((None, 400, 401))
            self._add(r.TurnEnded("failed", "bad", failure=r.Failure("model_refused", status, "words")))
        else:
            self._add(r.TurnEnded("completed", "done"))
        if self._often(0.2):
            self._add(r.UndoStarted("u", str(self._turn), ()), r.UndoEnded("u", str(self._turn), ("f",)))

    def _aside(self, cut: bool) -> None:
        queued = r.UserMessage(f"22222222-1111-4111-8111-{self._seq:012d}", Message("user", (InputText("q"),)))
        asides: tuple[r.Record, ...] = (
            r.RetryScheduled(1, 5, 0.5, "stream disconnected", self._draw.choice((None, 503))),
            r.Noticed("a notice"),
            r.ServersChecked(("a",), {"b": "why"}),
            r.AnswerRejected("no form"),
            r.Renamed("T"),
            r.TurnQueued(queued),
            r.Compacted("trimmed", 5, 2),
        )
        if self._often(0.2):
            self._add(self._draw.choice(asides))
        if self._often(0.08):
            self._add(r.CompactionStarted("limit", 5))
            if not cut or self._often(0.5):
                self._add(r.Compacted("summary", 5, 2, "sum", total=Usage(1, 2, 3)))

    # -- what the model says

    def _think(self) -> None:
        if not self._often(0.4):
            return
        if self._often(0.6):
            self.events.append(r.ReasoningDelta("th", self._often(0.3)))
        summary = tuple(SummaryText(text) for text in self._draw.sample(["s1", "", "s2"], self._draw.randint(0, 2)))
        content = self._draw.choice((None, (ReasoningText("raw"),)))
        self._add(r.ItemReceived(Reasoning(summary=summary, content=content), show_raw=self._often(0.5)))

    def _say(self) -> None:
        if not self._often(0.5):
            return
        text = self._draw.choice(("hi", "a b", "éé", "", "long " * 9))
        if self._often(0.7):
            shown = self._draw.randint(0, len(text))
            self.events += [r.TextDelta(piece) for piece in (text[:shown], text[shown:]) if piece]
        if self._often(0.15):
            self._add(r.Noticed("the model began its answer anew", withdraws=True))
        self._add(r.ItemReceived(Message("assistant", (OutputText(text),))))

    # -- calls

    def _call(self, *, cut: bool) -> None:
        if self._often(0.1):
            self._ask_budget(cut)
            return
        call_id = self._draw.choice([name for name in ("c1", "c2", "c3", f"call{self._seq}") if name not in self._sessions])
        name = self._draw.choice(TOOLS)
        self._add(r.ItemReceived(FunctionCall(name, ARGUMENTS.get(name, "{}") if self._often(0.95) else "{", call_id)))
        match name:
            case "shell":
                self._command(call_id, ("ls", "a b"), cut=cut)
            case "exec_command":
                self._command(call_id, ("bash", "-lc", "make x"), cut=cut, lasts=self._often(0.6))
            case "apply_patch":
                self._patch(call_id, cut=cut)
            case "t":
                self._tool(call_id, cut=cut)
            case "update_plan":
                self._add(r.PlanUpdated((r.PlanStep("a", "pending"), r.PlanStep("b", "completed")), "why"))
                self._answer(call_id, cut=cut)
            case "view_image" if self._often(0.8):
                self._add(r.ImageViewed(call_id, "/w/p.png"))
                self._answer(call_id, cut=cut)
            case _:
                self._answer(call_id, cut=cut, success=self._often(0.5))

    def _answer(self, call_id: str, *, cut: bool, success: bool = True) -> None:
        if not cut or self._often(0.7):
            self._add(r.ToolAnswered(FunctionCallOutput(call_id, "what came of it"), success))

    def _may_run(self, question: r.Question, *, cut: bool) -> bool:
        """Whether it is approved, where it is asked about."""
        if not self._often(0.4):
            if self._often(0.85):
                return True
            self._answer(question.call_id, cut=cut, success=False)
            return False
        self._add(*[question] * self._draw.randint(1, 2))  # asked once more where another process took over
        if cut and self._often(0.5):
            return False
        decision, source = self._draw.choice(("denied", *APPROVED)), self._draw.choice(("client", "rule x"))
        self._add(r.ApprovalDecided(question.call_id, decision, source))
        if self._often(0.2):
            self._add(r.ApprovalDecided(question.call_id, "denied", "client", effective=False))
        if source != "client":
            self._add(r.Noticed(f"approval {decision}: {source}"))
        if decision not in APPROVED:
            self._answer(question.call_id, cut=cut, success=False)
        return decision in APPROVED

    def _ask_budget(self, cut: bool) -> None:
        question = r.BudgetAsked(f"budget-{self._seq}", "tokens", 1, 1, 2)
        self._add(question)
        if not cut:
            self._add(r.ApprovalDecided(question.call_id, self._draw.choice(("approved", "denied")), "client"))

    def _command(self, call_id: str, argv: tuple[str, ...], *, cut: bool, lasts: bool = False) -> None:
        if not self._may_run(r.CommandApprovalAsked(call_id, argv, "/w"), cut=cut):
            return
        started = r.CommandStarted(call_id, argv, "/w", contained=True, session=1000 + self._seq if lasts else None)
        self._add(started)
        for _ in range(self._draw.randint(0, 3)):
            chunk = self._draw.choice((b"x\n", b"\xc3", b"\xa9 y", b"zzz"))
            self.events.append(r.OutputDelta(call_id, self._draw.choice(("stdout", "stderr")), chunk))
        if started.session is not None:
            if self._often(0.3):
                self._add(r.InputWritten(call_id, started.session, "text"))
            if self._often(0.5):
                self._add(r.CommandEnded(call_id, "o", "", 0, 0.5, started=started))
            else:
                self._sessions[call_id] = started, str(self._turn)
            self._answer(call_id, cut=cut)
        elif not cut or self._often(0.6):
            out, err = self._draw.choice(("x\n", "", "xé")), self._draw.choice(("", "zzz"))
            self._add(r.CommandEnded(call_id, out, err, self._draw.choice((0, 1, -1)), 0.25, timed_out=self._often(0.1)))
            self._answer(call_id, cut=cut)

    def _patch(self, call_id: str, *, cut: bool) -> None:
        change: FileChange = self._draw.choice(
            (AddFile("x\n"), DeleteFile("y\n"), UpdateFile("@@ -1 +1 @@\n-a\n+b\n"), UpdateFile("@@\n", "moved/x"))
        )
        changes = {self._draw.choice(("a.txt", "/w/b", "sub/c")): change}
        if not self._may_run(r.PatchApprovalAsked(call_id, changes), cut=cut):
            return
        self._add(r.PatchStarted(call_id, changes, auto_approved=True))
        if not cut or self._often(0.6):
            self._add(r.PatchEnded(call_id, "", "e", success=self._often(0.8)))
            self._answer(call_id, cut=cut)

    def _tool(self, call_id: str, *, cut: bool) -> None:
        if not self._may_run(r.ToolApprovalAsked(call_id, "srv", "t", {"x": 1}), cut=cut):
            return
        self._add(r.ToolCallBegan(call_id, "srv", "t", {"x": 1}, read_only=self._often(0.5)))
        if not cut or self._often(0.6):
            result = self._draw.choice(RESULTS)
            self._add(r.ToolCallEnded(call_id, "srv", "t", 0.1, {"x": 1}, result=result, error=None if result else "bad"))
            self._answer(call_id, cut=cut)
