"""Reads session files of codex as conversations of ours: recognizes both known forms by their content, and rebuilds the log as we
would have written it.
"""

import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from understudy.errors import BadRequest
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.items import (
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    SummaryText,
)
from understudy.protocol.records import (
    Entry,
    ItemReceived,
    Opened,
    Overrides,
    Record,
    RequestSent,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.store.log import LATEST
from understudy.store.transfer import ExportLine, Imported

UNANSWERED = "aborted"
_OPENED = 1  # the number of the first record, where every path begins


class RebuiltLog:
    """Each message of the user begins a turn. Going back, or a summary, begins another path, as in our own conversations."""

    def __init__(self, began_at: float | None) -> None:
        self._at = time.time() if began_at is None else began_at
        self._began_at = self._at
        self._entries: list[Entry] = []
        self._seq = self._head = _OPENED
        self._turns = 0
        self._turn: str | None = None
        self._calls: dict[str, None] = {}  # calls without an answer, in order
        self._answer: str | None = None
        self._request_due = False
        self._messages: list[tuple[int, Message]] = []  # messages on the current path, each with the record that it follows

    def tick(self, at: float | None) -> None:
        """Set the time of the next records. It never goes backwards."""
        if at is not None:
            self._at = max(at, self._at)

    def user(self, message: Message) -> None:
        if not message.content:
            return
        self._end_turn("completed" if self._answer is not None else "interrupted")
        self._messages.append((self._head, message))
        self._turns += 1
        turn, message_id = str(self._turns), str(uuid.uuid4())
        self._turn = turn
        self._append(UserMessage(message_id, message), TurnStarted(turn), RequestSent((message_id,)))

    def model(self, item: Message | Reasoning | FunctionCall) -> None:
        if self._turn is None:
            self._turns += 1
            self._turn = str(self._turns)
            self._append(TurnStarted(self._turn), RequestSent())
        elif self._request_due:
            self._append(RequestSent())
        self._request_due = False
        if isinstance(item, Message):
            self._answer = item.text() or self._answer
        self._append(ItemReceived(item))

    def call(self, call: FunctionCall) -> None:
        self.model(call)
        self._calls[call.call_id] = None

    def output(self, output: FunctionCallOutput) -> None:
        """An output without its call is left out, because no provider accepts it."""
        if output.call_id in self._calls:
            del self._calls[output.call_id]
            self._append(ToolAnswered(output))
            self._request_due = True

    def interrupt(self) -> None:
        self._end_turn("interrupted")

    def roll_back(self, turns: int) -> None:
        """Go back to before the user's last `count` messages."""
        self._end_turn("completed")
        if 0 < turns <= len(self._messages):
            self._head = self._messages[-turns][0]
            del self._messages[-turns:]

    def begin_anew(self, keep: int) -> list[Message]:
        """What comes next replaces all that was. Returns the user's last messages, up to `keep` characters."""
        self._end_turn("completed")
        kept: list[Message] = []
        for _, message in reversed(self._messages):
            keep -= len(message.text())
            if keep < 0:
                break
            kept.append(message)
        self._head = _OPENED
        self._messages = []
        return kept[::-1]

    def finish(self, conversation_id: ConversationId, model: str, cwd: str | None) -> tuple[Entry, ...]:
        """The whole log. What the other program was allowed to do is not carried over: the user decides that anew."""
        self._end_turn("completed" if self._answer is not None else "interrupted")
        opened = Entry(_OPENED, 0, "0", self._began_at, Opened(conversation_id, model, Overrides(cwd=cwd)))
        return (opened, *self._entries)

    def _end_turn(self, reason: str) -> None:
        if self._turn is None:
            return
        for call_id in self._calls:
            self._append(ToolAnswered(FunctionCallOutput(call_id, UNANSWERED), success=False))
        if reason == "completed":
            self._append(TurnEnded("completed", self._answer))
        else:
            self._append(TurnEnded("interrupted", "Turn interrupted"))
        self._calls.clear()
        self._turn = self._answer = None
        self._request_due = False

    def _append(self, *records: Record) -> None:
        for record in records:
            self._seq += 1
            self._entries.append(Entry(self._seq, self._head, self._turn or "0", self._at, record))
            self._head = self._seq


Json = dict[str, Any]

# Messages in the user's name that codex itself wrote. We write our own for every request.
_CONTEXT = re.compile(
    r"\s*(?:<environment_context>|<user_instructions>|<permissions instructions>|<collaboration_mode>|<turn_aborted>"
    r"|# AGENTS\.md instructions\b|<INSTRUCTIONS>|<skills_instructions>|<apps_instructions>|<plugins_instructions>)"
)
_CWD = re.compile(r"<cwd>(?P<xml>[^<\n]+)</cwd>|^Current working directory: (?P<plain>.+)$", re.MULTILINE)
_KEPT_AFTER_COMPACTION = 80_000  # characters of the user's own messages that codex keeps beside a summary


class _Line(NamedTuple):
    kind: str  # session_meta, response_item, event_msg, turn_context, compacted, or unknown
    payload: Json
    at: float | None


def is_rollout(first_line: bytes) -> bool:
    line = _parse(first_line)
    if line is None:
        return False
    return _is_wrapped(line) or ("timestamp" in line and "id" in line) or line.get("record_type") == "state"


def read_rollout(lines: Sequence[ExportLine]) -> Imported:
    """Raises `BadRequest` if the file does not name its session. Unreadable lines are left out and listed."""
    parsed: list[Json] = []
    unread: list[int] = []
    for number, data in lines:
        line = _parse(data)
        if line is not None:
            parsed.append(line)
        elif number != lines[-1].number:  # the last line is often cut short, because the program ended while writing it
            unread.append(number)
    wrapped = any(map(_is_wrapped, parsed))
    steps = list(_wrapped_lines(parsed) if wrapped else _bare_lines(parsed))
    meta = next((step for step in steps if step.kind == "session_meta"), None)
    if meta is None:
        raise BadRequest("the file does not say which session it holds: it has no line with the session's id")
    return _Reading(meta, steps, unread).run()


def _parse(line: bytes) -> Json | None:
    try:
        value = json.loads(line)
        if b"\\u" in line:
            value = _whole_characters(value)
    except (ValueError, RecursionError):
        return None
    return cast(Json, value) if isinstance(value, dict) else None


def _whole_characters(value: Any) -> Any:
    """Replace half a character, which JSON can express but nothing can store, by the replacement character."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list():
            return [_whole_characters(item) for item in cast(list[Any], value)]
        case dict():
            return {_whole_characters(key): _whole_characters(item) for key, item in cast(Json, value).items()}
        case _:
            return value


def _is_wrapped(line: Json) -> bool:
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


def _wrapped_lines(parsed: Iterable[Json]) -> Iterator[_Line]:
    for line in parsed:
        if _is_wrapped(line):
            yield _Line(line["type"], line["payload"], _seconds(line.get("timestamp"), literal_z=False))


def _bare_lines(parsed: Iterable[Json]) -> Iterator[_Line]:
    found = False
    for line in parsed:
        if line.get("record_type") == "state":
            continue
        if not found and "id" in line and "timestamp" in line and "type" not in line:
            found = True
            yield _Line("session_meta", line, _seconds(line.get("timestamp"), literal_z=True))
        elif "type" in line:
            yield _Line("response_item", line, None)


def _seconds(timestamp: object, *, literal_z: bool) -> float | None:
    """The older form writes local time with a meaningless `Z` at its end."""
    if not isinstance(timestamp, str):
        return None
    try:
        seconds = datetime.fromisoformat(timestamp.removesuffix("Z") if literal_z else timestamp).timestamp()
    except (ValueError, OverflowError, OSError):  # not a date, or out of range
        return None
    return seconds if 0 <= seconds <= LATEST else None


class _Reading:
    def __init__(self, meta: _Line, steps: Sequence[_Line], unread: Sequence[int]) -> None:
        spelled = str(meta.payload.get("id") or meta.payload.get("session_id") or "")
        try:
            self._id = ConversationId(read_uuid(spelled))
        except ValueError as error:
            raise BadRequest(f"the session's id {spelled!r} is not valid: {error}") from None
        self._steps = steps
        self._unread = unread
        self._cwd = _text_or_none(meta.payload.get("cwd"))
        self._model = next(
            (
                model
                for step in reversed(steps)
                if step.kind == "turn_context" and (model := _text_or_none(step.payload.get("model")))
            ),
            _text_or_none(meta.payload.get("model")),
        )
        self._rebuilt = RebuiltLog(meta.at)
        self._skipped: Counter[str] = Counter()

    def run(self) -> Imported:
        for kind, payload, at in self._steps:
            self._rebuilt.tick(at)
            match kind:
                case "response_item":
                    self._item(payload)
                case "compacted":
                    self._compacted(payload)
                case "event_msg":
                    self._event(payload)
                case "turn_context" if self._cwd is None:
                    self._cwd = _text_or_none(payload.get("cwd"))
                case _:
                    pass
        entries = self._rebuilt.finish(self._id, self._model or "", self._cwd)
        notes = [f"{count} × {name}" for name, count in sorted(self._skipped.items())]
        told = (f"left out, because there is nothing like it here: {', '.join(notes)}",) if notes else ()
        return Imported(self._id, entries, notes=told, unread=tuple(self._unread))

    def _event(self, payload: Json) -> None:
        match payload:
            case {"type": "turn_aborted"}:
                self._rebuilt.interrupt()
            case {"type": "thread_rolled_back", "num_turns": int(count)}:
                self._rebuilt.roll_back(count)
            case _:
                pass  # the other kinds repeat what the items say

    def _compacted(self, payload: Json) -> None:
        items = [cast(Json, item) for item in _list(payload.get("replacement_history")) if isinstance(item, dict)]
        if any("encrypted_content" in item and item.get("type") != "reasoning" for item in items):
            return  # only its provider can read this summary, so keep what it replaces
        kept = self._rebuilt.begin_anew(_KEPT_AFTER_COMPACTION)
        for item in items:
            self._item(item)
        if not items:
            for message in kept:
                self._rebuilt.user(message)
            if summary := _text_or_none(payload.get("message")):
                self._rebuilt.user(Message("user", (InputText(summary),)))

    def _item(self, item: Json) -> None:
        match item:
            case {"type": "message", "role": "assistant"}:
                self._rebuilt.model(Message("assistant", tuple(map(OutputText, _texts(item.get("content"))))))
            case {"type": "message", "role": "user"}:
                self._user(Message("user", tuple(_parts(item.get("content")))))
            case {"type": "message"}:
                pass  # instructions of codex, in the role of system or developer
            case {"type": "reasoning"}:
                self._rebuilt.model(_reasoning(item))
            case {"type": "function_call", "name": str(name), "arguments": str(arguments), "call_id": str(call_id)}:
                self._rebuilt.call(FunctionCall(name, arguments, call_id))
            case {"type": "custom_tool_call", "name": str(name), "input": str(text), "call_id": str(call_id)}:
                self._rebuilt.call(FunctionCall(name, json.dumps({"input": text}), call_id))
            case {"type": "local_shell_call"} if call_id := item.get("call_id") or item.get("id"):
                self._rebuilt.call(FunctionCall("shell", _shell_arguments(item.get("action")), str(call_id)))
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(call_id)}:
                self._rebuilt.output(FunctionCallOutput(call_id, _output(item.get("output"))))
            case {"type": "compaction" | "ghost_snapshot" | "other"}:
                pass
            case _:
                self._skipped[str(item.get("type", "unknown"))] += 1

    def _user(self, message: Message) -> None:
        text = message.text()
        if _CONTEXT.match(text):
            if self._cwd is None and (found := _CWD.search(text)):
                self._cwd = (found["xml"] or found["plain"]).strip()
            return
        self._rebuilt.user(message)


def _parts(content: object) -> Iterator[ContentPart]:
    for part in _list(content):
        match part:
            case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                yield InputText(text)
            case {"type": "input_image", "image_url": str(url)}:
                yield InputImage(url)
            case _:
                pass


def _reasoning(item: Json) -> Reasoning:
    """Without its id: a provider that stores nothing would look for the id in vain."""
    summary = tuple(SummaryText(text) for text in _texts(item.get("summary")))
    content = tuple(ReasoningText(text) for text in _texts(item.get("content")))
    return Reasoning(summary, content or None, _text_or_none(item.get("encrypted_content")))


def _texts(parts: object) -> Iterator[str]:
    for part in _list(parts):
        match part:
            case {"text": str(text)}:
                yield text
            case _:
                pass


def _list(value: object) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _shell_arguments(action: object) -> str:
    table = cast(Json, action) if isinstance(action, dict) else {}
    named = {"command": table.get("command"), "workdir": table.get("working_directory"), "timeout": table.get("timeout_ms")}
    return json.dumps({name: value for name, value in named.items() if value is not None})


def _output(output: object) -> str:
    match output:
        case str():
            return output
        case {"content": str(content)}:
            return content
        case list():
            return "\n".join(_texts(cast(object, output)))
        case None:
            return ""
        case _:
            return json.dumps(output)


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
