"""Events as REST shows them: those of the modern codec, with additions for a person at a page.

A question shows exactly what is asked and why, what a yes permits, and how it can be answered.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.errors import AgentError
from understudy.policy.question_text import kind_of, question_text, what_yes_lifts, why_asked
from understudy.protocol.items import InputImage
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandStarted,
    CompactionStarted,
    Entry,
    HookApprovalAsked,
    Opened,
    PatchApprovalAsked,
    Question,
    Renamed,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    TurnDropped,
    TurnEnded,
    TurnQueued,
    UndoStarted,
    UserInputAsked,
    UserMessage,
)
from understudy.servers.rest.shapes import Choice, OpenQuestion
from understudy.servers.times import rfc3339
from understudy.servers.wire_events.modern_events import ModernCodec, changes_on_wire
from understudy.text import quote_command

_DENY = Choice(decision="denied", label="Deny")
_STOP = Choice(decision="abort", label="Deny and stop the turn")
_ONCE = Choice(decision="approved", label="Approve once")


def choices_of(question: Question) -> tuple[Choice, ...]:
    match question:
        case CommandApprovalAsked(typed_at=str()):
            return _ONCE, _DENY, _STOP
        case CommandApprovalAsked():
            label = "Approve exactly this command, in this folder, for the rest of the conversation"
            return _ONCE, Choice(decision="approved_for_session", label=label), _DENY, _STOP
        case ToolApprovalAsked():
            label = "Approve every call of this tool for the rest of the conversation"
            return _ONCE, Choice(decision="approved_for_session", label=label), _DENY, _STOP
        case PatchApprovalAsked():
            return Choice(decision="approved", label="Approve"), _DENY, _STOP
        case HookApprovalAsked():
            return _ONCE, _DENY, _STOP
        case BudgetAsked():
            return Choice(decision="approved", label="Raise the limit"), Choice(decision="denied", label="Stop the turn")
        case UserInputAsked():
            return Choice(decision="denied", label="Do not answer"), Choice(decision="abort", label="Stop the turn")


def open_questions(handle: Handle) -> tuple[OpenQuestion, ...]:
    """The open questions of a conversation, oldest first."""
    facts = handle.facts
    if not facts.questions:
        return ()
    seconds = seconds_to_answer(handle)
    return tuple(
        shown_question(question, facts.turn or "", facts.asked_at.get(call_id, 0.0), facts.cwd, seconds)
        for call_id, question in facts.questions.items()
    )


def seconds_to_answer(handle: Handle) -> float:
    """The time after which a question is answered by a no; 0: never."""
    try:
        return handle.setup().config.questions.timeout_seconds
    except AgentError:  # its folder is gone: the question is still shown, and answering it tells the reason
        return 0.0


def shown_question(question: Question, turn: str, asked_at: float, cwd: str, seconds: float) -> OpenQuestion:
    """`seconds`: from `seconds_to_answer`."""
    return OpenQuestion(
        call_id=question.call_id,
        kind=kind_of(question),
        turn=turn,
        asked_at=rfc3339(asked_at),
        mark=asked_at,
        expires_at=rfc3339(asked_at + seconds) if seconds else None,
        text=question_text(question, cwd),
        why=why_asked(question),
        lifts=what_yes_lifts(question),
        choices=choices_of(question),
        **_exactly(question),
    )


def _exactly(question: Question) -> dict[str, Any]:
    match question:
        case CommandApprovalAsked(command=command, cwd=cwd):
            return {"command": command, "command_line": quote_command(command), "folder": cwd}
        case PatchApprovalAsked(changes=changes):
            return {"changes": changes_on_wire(changes)}
        case ToolApprovalAsked(server=server, tool=tool, arguments=arguments):
            return {"server": server, "tool": tool, "arguments": arguments or {}}
        case BudgetAsked(limit=limit, used=used, allowed=allowed, raised_to=raised_to):
            return {"limit": limit, "used": used, "allowed": allowed, "raised_to": raised_to}
        case HookApprovalAsked(hook=hook, tool=tool, shown=shown):
            return {"hook": hook, "tool": tool or None, "shown": shown}
        case UserInputAsked(questions=questions):
            return {"questions": questions}


_LINES = "lines of REST"
_encode = msgspec.json.Encoder().encode


class EventBody(msgspec.Struct, frozen=True):
    """An `Event` of `shapes.py` without its id."""

    msg: bytes
    by: str | None = None


class RestCodec:
    """For one viewer of a conversation. `codec` must be shown the entries of a turn in order; see there."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._id = handle.id
        self._cwd = handle.facts.cwd
        self.codec = ModernCodec(handle.id)

    def note(self, entry: Entry) -> None:
        self.codec.note(entry)

    def events(self, live: LiveEntry) -> tuple[EventBody, ...]:
        """The events of an entry. All viewers share them, so they are cached in the entry."""
        if RestCodec in live.encoded:
            self.codec.note(live.entry)
        else:
            live.encoded[RestCodec] = tuple(self._project(live))
        return live.encoded[RestCodec]

    def lines(self, live: LiveEntry) -> tuple[bytes, ...]:
        """The events in JSON, for pages and streams. Also cached in the entry."""
        entry, events = live.entry, self.events(live)
        if _LINES not in live.encoded:
            lines: tuple[bytes, ...] = ()
            for number, told in enumerate(events, start=1):  # rarely more than one
                lines += (_line(f"{entry.seq}.{number}", entry.seq, entry.at, entry.turn, told.by, told.msg),)
            live.encoded[_LINES] = lines
        return live.encoded[_LINES]

    def delta(self, live: LiveDelta) -> bytes:
        """A piece of text or output. It has no time and position of its own: it follows record `seq`."""
        line = live.encoded.get(RestCodec)
        if line is None:
            msg = self.codec.delta(live).msg
            line = live.encoded[RestCodec] = b'{"seq":%d,"turn":%b,"msg":%b}' % (live.after, _encode(live.turn), msg)
        return line

    def note_given(self, turn: str, given: Mapping[str, int]) -> None:
        """Not needed: events of deltas are complete in themselves."""

    def aside(self, line: bytes) -> bytes:
        return line

    def failed(self, reason: str) -> bytes:
        return _encode({"msg": {"type": "stream_ended", "reason": reason}})

    def _project(self, live: LiveEntry) -> list[EventBody]:
        entry = live.entry
        record = entry.record
        match record:
            case UserMessage():
                return [_told(self._message(record, entry.seq))]
            case TurnQueued(message=message):
                return [_told({**self._message(message, entry.seq), "type": "message_queued"})]
            case TurnDropped(message_id=message_id, reason=reason):
                return [_told({"type": "message_dropped", "message_id": message_id, "reason": reason})]
            case ApprovalDecided() as decided:
                msg = {
                    "type": "approval_decided",
                    "call_id": decided.call_id,
                    "decision": decided.decision,
                    "effective": decided.effective,
                    "source": decided.source,
                    "by": decided.by,
                    "door": decided.door,
                    "address": decided.address,
                    "client": decided.client,
                    "message": decided.word,
                }
                return [_told(msg, decided.by)]
            case ToolAnswered(output=output) if output.images:
                images = self._images(output.images, entry.seq)
                return [_told({"type": "tool_images", "call_id": output.call_id, "images": images})]
            case CompactionStarted():
                return [_told({"type": "compaction_started"})]
            case _:
                found = [EventBody(event.msg) for event in self.codec.events(live)]
        match record:
            case Opened() as opened:
                more = {"owner": opened.owner, "sandbox": opened.overrides.sandbox}
                return [_with(event, more) for event in found]
            case (
                CommandApprovalAsked()
                | PatchApprovalAsked()
                | BudgetAsked()
                | ToolApprovalAsked()
                | HookApprovalAsked()
                | UserInputAsked()
            ) as question:
                shown = shown_question(question, entry.turn, entry.at, self._cwd, seconds_to_answer(self._handle))
                return [_with(event, {"question": shown}) for event in found]
            case CommandStarted(contained=False):
                return [_with(event, {"outside": True}) for event in found]
            case TokensCounted(cost_usd=cost):
                return [_with(event, {"cost_usd": cost}) for event in found]
            case TurnEnded(unfinished=str(text)) if text:
                return [_told({"type": "agent_message_cut", "message": text}), *found]
            case Renamed(by=by) | UndoStarted(by=by):
                return [EventBody(event.msg, by) for event in found]
            case _:
                return found

    def _message(self, message: UserMessage, seq: int) -> dict[str, Any]:
        urls = [part.image_url for part in message.message.content if isinstance(part, InputImage)]
        return {
            "type": "user_message",
            "message": message.message.text(),
            "message_id": message.message_id,
            "parent_message_id": message.parent_message_id,
            "images": self._images(urls, seq),
        }

    def _images(self, urls: "tuple[str, ...] | list[str]", seq: int) -> list[dict[str, str | None]]:
        """Where we serve each image. An image elsewhere is only named: nothing is fetched from there for a viewer."""
        return [
            {"url": f"/v1/conversations/{self._id}/images/{seq}/{number}", "elsewhere": None}
            if url.startswith("data:")
            else {"url": None, "elsewhere": url}
            for number, url in enumerate(urls)
        ]


def _told(msg: Mapping[str, Any], by: str | None = None) -> EventBody:
    return EventBody(_encode(msg), by)


def _with(event: EventBody, more: Mapping[str, Any]) -> EventBody:
    return EventBody(event.msg[:-1] + b"," + _encode(more)[1:], event.by)


def _line(name: str, seq: int, at: float, turn: str, by: str | None, msg: bytes) -> bytes:
    head = _encode({"id": name, "seq": seq, "at": rfc3339(at), "turn": turn, "by": by})
    return head[:-1] + b',"msg":' + msg + b"}"
